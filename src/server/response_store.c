/* A list in the order of use, the latest first, and a hash table of short chains to find ids in. */
#include "server/response_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lib/hash.h"

enum { BUCKETS = 4096 };

struct entry {
    struct entry *next, *previous; /* of the list */
    struct entry *chain;           /* the next one in the bucket */
    double moment;                 /* of the last put */
    size_t bytes;
    struct string_buffer body, conversation;
    char id[];
};

struct response_store {
    pthread_mutex_t mutex; /* guards all of it */
    struct entry *first, *last;
    size_t bytes, byte_limit;
    double seconds;
    struct entry *buckets[BUCKETS];
};

static struct entry **bucket_of(struct response_store *store, const char *id) {
    return &store->buckets[hash_xxh3_128(id, strlen(id), 0).low % BUCKETS];
}

static void free_entry(struct entry *entry) {
    string_buffer_deinit(&entry->body);
    string_buffer_deinit(&entry->conversation);
    free(entry);
}

static void unlink_entry(struct response_store *store, struct entry *entry) {
    struct entry **before = entry->previous != NULL ? &entry->previous->next : &store->first;
    struct entry **after = entry->next != NULL ? &entry->next->previous : &store->last;
    *before = entry->next;
    *after = entry->previous;
    store->bytes -= entry->bytes;
}

static void link_first(struct response_store *store, struct entry *entry) {
    entry->previous = NULL;
    entry->next = store->first;
    if (store->first != NULL) {
        store->first->previous = entry;
    } else {
        store->last = entry;
    }
    store->first = entry;
    store->bytes += entry->bytes;
}

static void remove_entry(struct response_store *store, struct entry *entry) {
    struct entry **link = bucket_of(store, entry->id);
    while (*link != entry) {
        link = &(*link)->chain;
    }
    *link = entry->chain;
    unlink_entry(store, entry);
    free_entry(entry);
}

static bool is_expired(const struct response_store *store, const struct entry *entry) {
    return entry->moment < clock_seconds() - store->seconds;
}

/* The entry, moved to the front; dropped if it is too old. The mutex is held. */
static struct entry *find(struct response_store *store, const char *id) {
    struct entry *entry = *bucket_of(store, id);
    while (entry != NULL && strcmp(entry->id, id) != 0) {
        entry = entry->chain;
    }
    if (entry == NULL) {
        return NULL;
    }
    if (is_expired(store, entry)) {
        remove_entry(store, entry);
        return NULL;
    }
    unlink_entry(store, entry);
    link_first(store, entry);
    return entry;
}

enum status response_store_create(size_t byte_limit, double seconds, struct response_store **out) {
    *out = calloc(1, sizeof **out);
    CHECK_MEMORY(*out);
    pthread_mutex_init(&(*out)->mutex, NULL);
    (*out)->byte_limit = byte_limit;
    (*out)->seconds = seconds;
    return STATUS_OK;
}

void response_store_destroy(struct response_store **store_pointer) {
    struct response_store *store = *store_pointer;
    *store_pointer = NULL;
    if (store == NULL) {
        return;
    }
    while (store->first != NULL) {
        remove_entry(store, store->first);
    }
    pthread_mutex_destroy(&store->mutex);
    free(store);
}

static enum status make_entry(const char *id, const struct string_buffer *body,
                              const struct string_buffer *conversation, struct entry **out) {
    size_t id_bytes = strlen(id) + 1;
    struct entry *entry = calloc(1, sizeof *entry + id_bytes);
    CHECK_MEMORY(entry);
    memcpy(entry->id, id, id_bytes);
    string_buffer_append(&entry->body, string_buffer_text(body), body->length);
    string_buffer_append(&entry->conversation, string_buffer_text(conversation), conversation->length);
    entry->bytes = sizeof *entry + id_bytes + body->length + conversation->length;
    entry->moment = clock_seconds();
    if (entry->body.is_failed || entry->conversation.is_failed) {
        free_entry(entry);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory");
    }
    *out = entry;
    return STATUS_OK;
}

enum status response_store_put(struct response_store *store, const char *id, const struct string_buffer *body,
                               const struct string_buffer *conversation) {
    struct entry *entry = NULL;
    TRY(make_entry(id, body, conversation, &entry));
    pthread_mutex_lock(&store->mutex);
    struct entry *old = find(store, id);
    if (old != NULL) {
        remove_entry(store, old);
    }
    /* One that is too large must not push out all others. */
    bool is_kept = entry->bytes <= store->byte_limit;
    if (is_kept) {
        struct entry **bucket = bucket_of(store, id);
        entry->chain = *bucket;
        *bucket = entry;
        link_first(store, entry);
    } else {
        free_entry(entry);
    }
    while (store->last != NULL && (store->bytes > store->byte_limit || is_expired(store, store->last))) {
        remove_entry(store, store->last);
    }
    pthread_mutex_unlock(&store->mutex);
    return STATUS_OK;
}

bool response_store_get(struct response_store *store, const char *id, struct string_buffer *body,
                        struct string_buffer *conversation) {
    pthread_mutex_lock(&store->mutex);
    const struct entry *entry = find(store, id);
    if (entry != NULL && body != NULL) {
        string_buffer_append(body, string_buffer_text(&entry->body), entry->body.length);
    }
    if (entry != NULL && conversation != NULL) {
        string_buffer_append(conversation, string_buffer_text(&entry->conversation),
                             entry->conversation.length);
    }
    pthread_mutex_unlock(&store->mutex);
    return entry != NULL;
}

bool response_store_delete(struct response_store *store, const char *id) {
    pthread_mutex_lock(&store->mutex);
    struct entry *entry = find(store, id);
    if (entry != NULL) {
        remove_entry(store, entry);
    }
    pthread_mutex_unlock(&store->mutex);
    return entry != NULL;
}

size_t response_store_bytes(struct response_store *store) {
    pthread_mutex_lock(&store->mutex);
    size_t bytes = store->bytes;
    pthread_mutex_unlock(&store->mutex);
    return bytes;
}
