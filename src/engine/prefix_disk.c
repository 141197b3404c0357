/*
 * Buffers go round: free, reserved by the caller, queued, with the writer, free. `mutex` guards the free
 * list, the queue, `is_closing` and the counters; nobody holds it while a file is read or written. The writer
 * alone knows how full the directory is: it counts before its first write and again after an eighth of the
 * limit, since other processes may write there too.
 */
#include "engine/prefix_disk.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/prefix_disk_files.h"
#include "lib/hash.h"

enum { PAYLOAD_ALIGNMENT = 64 };

struct disk_buffer {
    struct prefix_disk_buffer shown; /* first: the caller's pointer is this buffer's */
    unsigned char *memory;           /* room for a head, then the payload */
    struct prefix_key key;           /* of a submitted one, as what follows */
    int32_t *tokens;                 /* [page_tokens] in `tokens` of the cache */
    bool has_draft_rows;
    struct disk_buffer *next; /* in the list it is in */
};

struct prefix_disk {
    struct prefix_disk_options options; /* `directory` owned */
    int directory;
    size_t head_bytes;
    size_t payload_offset;       /* in a buffer's memory; heads end there */
    unsigned char *head;         /* of the file being read */
    struct disk_buffer *buffers; /* [buffer_count] */
    int32_t *tokens;             /* [buffer_count][page_tokens] */

    pthread_t writer;
    bool is_writer_started;
    pthread_mutex_t mutex;
    pthread_cond_t queue_changed;
    struct disk_buffer *free_buffers;
    struct disk_buffer *first_queued;
    struct disk_buffer *last_queued;
    bool is_closing;
    struct prefix_disk_counters counters;

    /* The writer's own. */
    bool is_counted; /* whether used_bytes means anything */
    bool is_failing; /* the last write failed, and the log says so */
    uint64_t used_bytes;
    uint64_t uncounted_bytes; /* written since the directory was counted */
};

static size_t payload_bytes(const struct prefix_disk *disk, enum prefix_entry_kind kind) {
    return kind == PREFIX_ENTRY_PAGE ? disk->options.page_bytes : disk->options.snapshot_bytes;
}

static struct prefix_entry describe(const struct prefix_disk *disk, const struct prefix_key *key,
                                    enum prefix_entry_kind kind, const int32_t *tokens) {
    struct prefix_entry entry = {.kind = kind,
                                 .tokens = tokens,
                                 .token_count = disk->options.page_tokens,
                                 .payload_bytes = payload_bytes(disk, kind)};
    memcpy(entry.digest, key->digest, sizeof entry.digest);
    return entry;
}

static void count(struct prefix_disk *disk, int64_t *counter, int64_t amount) {
    pthread_mutex_lock(&disk->mutex);
    *counter += amount;
    pthread_mutex_unlock(&disk->mutex);
}

/* Makes room for a file of `length` bytes. A directory that cannot be listed is filled blindly. */
static void keep_limit(struct prefix_disk *disk, size_t length) {
    uint64_t limit = disk->options.limit_bytes;
    uint64_t slack = limit / 8 > length ? limit / 8 : length;
    if (disk->is_counted && disk->uncounted_bytes <= limit / 8 && disk->used_bytes + length <= limit) {
        return;
    }
    struct prefix_files_usage usage;
    int error = prefix_files_trim(disk->directory, limit - length, limit - slack, &usage);
    if (error != 0) {
        log_write(LOG_WARNING, "engine", "the prefix cache's directory %s cannot be tidied: %s",
                  disk->options.directory, strerror(error));
    }
    disk->is_counted = true;
    disk->used_bytes = usage.bytes;
    disk->uncounted_bytes = 0;
    count(disk, &disk->counters.evicted, usage.deleted);
}

static void write_buffer(struct prefix_disk *disk, struct disk_buffer *buffer) {
    size_t length = disk->head_bytes + buffer->shown.payload_bytes;
    unsigned char *head = buffer->shown.payload - disk->head_bytes;
    struct prefix_entry entry = describe(disk, &buffer->key, buffer->shown.kind, buffer->tokens);
    entry.has_draft_rows = buffer->has_draft_rows;
    prefix_entry_write_head(&entry, buffer->shown.payload, head);
    keep_limit(disk, length);
    struct prefix_file_name name = prefix_file_name_make(&buffer->key, buffer->shown.kind);
    int error = prefix_files_write(disk->directory, name.text, head, length);
    if (error == 0) {
        disk->used_bytes += length;
        disk->uncounted_bytes += length;
        count(disk, &disk->counters.written_bytes, (int64_t)length);
    } else if (!disk->is_failing) {
        log_write(LOG_WARNING, "engine", "the prefix cache cannot write to %s: %s; it goes on trying",
                  disk->options.directory, strerror(error));
    }
    disk->is_failing = error != 0;
    count(disk, error == 0 ? &disk->counters.writes : &disk->counters.failed_writes, 1);
}

static void *run_writer(void *context) {
    struct prefix_disk *disk = context;
    pthread_mutex_lock(&disk->mutex);
    while (true) {
        struct disk_buffer *buffer = disk->first_queued;
        if (buffer != NULL) {
            disk->first_queued = buffer->next;
            pthread_mutex_unlock(&disk->mutex);
            write_buffer(disk, buffer);
            pthread_mutex_lock(&disk->mutex);
            buffer->next = disk->free_buffers;
            disk->free_buffers = buffer;
        } else if (disk->is_closing) {
            break;
        } else {
            pthread_cond_wait(&disk->queue_changed, &disk->mutex);
        }
    }
    pthread_mutex_unlock(&disk->mutex);
    return NULL;
}

static enum status start_writer(struct prefix_disk *disk) {
    /* Signals are for the threads that know what to do with them; a thread inherits its maker's mask. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&disk->writer, NULL, run_writer, disk);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(error == 0, STATUS_OUT_OF_MEMORY, "the prefix cache's writer thread cannot be started: %s",
          strerror(error));
    disk->is_writer_started = true;
    return STATUS_OK;
}

static enum status make_buffers(struct prefix_disk *disk) {
    const struct prefix_disk_options *options = &disk->options;
    size_t largest =
        options->page_bytes > options->snapshot_bytes ? options->page_bytes : options->snapshot_bytes;
    disk->head_bytes = prefix_entry_head_bytes(options->page_tokens);
    disk->payload_offset = (disk->head_bytes + PAYLOAD_ALIGNMENT - 1) / PAYLOAD_ALIGNMENT * PAYLOAD_ALIGNMENT;
    disk->head = malloc(disk->head_bytes);
    disk->buffers = calloc((size_t)options->buffer_count, sizeof *disk->buffers);
    disk->tokens = calloc((size_t)options->buffer_count, (size_t)options->page_tokens * sizeof *disk->tokens);
    CHECK_MEMORY(disk->head);
    CHECK_MEMORY(disk->buffers);
    CHECK_MEMORY(disk->tokens);
    for (int32_t i = 0; i < options->buffer_count; i++) {
        struct disk_buffer *buffer = &disk->buffers[i];
        void *memory = NULL;
        CHECK(posix_memalign(&memory, PAYLOAD_ALIGNMENT, disk->payload_offset + largest) == 0,
              STATUS_OUT_OF_MEMORY,
              "out of memory for %d buffers of %zu bytes between the prefix cache and its directory %s",
              options->buffer_count, largest, options->directory);
        buffer->memory = memory;
        buffer->shown.payload = buffer->memory + disk->payload_offset;
        buffer->tokens = disk->tokens + (size_t)i * (size_t)options->page_tokens;
        buffer->next = disk->free_buffers;
        disk->free_buffers = buffer;
    }
    return STATUS_OK;
}

static enum status check_options(const struct prefix_disk_options *options) {
    CHECK(options->page_tokens > 0 && options->buffer_count > 0, STATUS_BAD_ARGUMENT,
          "a prefix cache on disk needs pages (of %d tokens) and buffers (%d)", options->page_tokens,
          options->buffer_count);
    uint64_t least = options->page_bytes + options->snapshot_bytes +
                     2 * (uint64_t)prefix_entry_head_bytes(options->page_tokens);
    CHECK(
        options->limit_bytes >= least, STATUS_BAD_ARGUMENT,
        "the prefix cache's directory is limited to %llu bytes, but one page and one snapshot of this model "
        "take %llu; raise the limit",
        (unsigned long long)options->limit_bytes, (unsigned long long)least);
    return STATUS_OK;
}

enum status prefix_disk_open(const struct prefix_disk_options *options, struct prefix_disk **out) {
    enum status status = STATUS_OK;
    TRY(check_options(options));
    struct prefix_disk *disk = calloc(1, sizeof *disk);
    CHECK_MEMORY(disk);
    pthread_mutex_init(&disk->mutex, NULL);
    pthread_cond_init(&disk->queue_changed, NULL);
    disk->directory = -1;
    disk->options = *options;
    disk->options.directory = strdup(options->directory);
    CHECK_MEMORY_GOTO(disk->options.directory);
    TRY_GOTO(prefix_files_open(options->directory, &disk->directory));
    TRY_GOTO(make_buffers(disk));
    TRY_GOTO(start_writer(disk));
    *out = disk;
    return STATUS_OK;
fail:
    prefix_disk_close(&disk);
    return status;
}

static void stop_writer(struct prefix_disk *disk) {
    pthread_mutex_lock(&disk->mutex);
    disk->is_closing = true;
    pthread_cond_signal(&disk->queue_changed);
    pthread_mutex_unlock(&disk->mutex);
    pthread_join(disk->writer, NULL);
}

void prefix_disk_close(struct prefix_disk **disk_pointer) {
    struct prefix_disk *disk = *disk_pointer;
    if (disk == NULL) {
        return;
    }
    if (disk->is_writer_started) {
        stop_writer(disk);
    }
    if (disk->directory >= 0) {
        close(disk->directory);
    }
    for (int32_t i = 0; disk->buffers != NULL && i < disk->options.buffer_count; i++) {
        free(disk->buffers[i].memory);
    }
    pthread_cond_destroy(&disk->queue_changed);
    pthread_mutex_destroy(&disk->mutex);
    free(disk->buffers);
    free(disk->tokens);
    free(disk->head);
    free((char *)disk->options.directory);
    free(disk);
    *disk_pointer = NULL;
}

enum status prefix_disk_key(struct prefix_disk *disk, const struct prefix_key *parent, const int32_t *tokens,
                            struct prefix_key *out) {
    const struct prefix_disk_options *options = &disk->options;
    struct {
        uint64_t version;
        uint64_t page_tokens;
        uint64_t page_bytes; /* processes with other sizes take no offence at these entries */
        uint64_t snapshot_bytes;
        uint8_t model[PREFIX_KEY_BYTES];
        uint8_t parent[PREFIX_KEY_BYTES];
        uint8_t tokens[HASH_SHA256_BYTES]; /* their digest: so the whole has a fixed size */
    } input = {.version = PREFIX_ENTRY_VERSION,
               .page_tokens = (uint64_t)options->page_tokens,
               .page_bytes = options->page_bytes,
               .snapshot_bytes = options->snapshot_bytes};
    memcpy(input.model, options->model_key, sizeof input.model);
    struct prefix_key key = {0};
    if (parent != NULL) {
        memcpy(input.parent, parent->digest, sizeof input.parent);
        memcpy(key.parent, parent->digest, sizeof key.parent);
        key.page_index = parent->page_index + 1;
    }
    TRY(hash_sha256(tokens, (size_t)options->page_tokens * sizeof *tokens, input.tokens));
    TRY(hash_sha256(&input, sizeof input, key.digest));
    *out = key;
    return STATUS_OK;
}

bool prefix_disk_has(const struct prefix_disk *disk, const struct prefix_key *key,
                     enum prefix_entry_kind kind) {
    struct prefix_file_name name = prefix_file_name_make(key, kind);
    return prefix_files_has(disk->directory, name.text, disk->head_bytes + payload_bytes(disk, kind));
}

/* What is wrong with the file; NULL if it is read, "" if there is none. */
static const char *read_entry(struct prefix_disk *disk, const struct prefix_entry *entry, const char *name,
                              void *payload, bool *has_draft_rows) {
    switch (prefix_files_read(disk->directory, name, disk->head, disk->head_bytes, payload,
                              entry->payload_bytes)) {
    case PREFIX_FILE_ABSENT:
        return "";
    case PREFIX_FILE_DAMAGED:
        return "it is cut short or no file of this cache";
    case PREFIX_FILE_READ:
        break;
    }
    return prefix_entry_check(entry, disk->head, payload, has_draft_rows);
}

bool prefix_disk_read(struct prefix_disk *disk, const struct prefix_key *key, enum prefix_entry_kind kind,
                      const int32_t *tokens, void *payload, bool *has_draft_rows) {
    struct prefix_entry entry = describe(disk, key, kind, tokens);
    struct prefix_file_name name = prefix_file_name_make(key, kind);
    const char *fault = read_entry(disk, &entry, name.text, payload, has_draft_rows);
    bool is_hit = fault == NULL;
    bool is_damaged = !is_hit && *fault != '\0';
    if (is_hit) {
        prefix_files_touch(disk->directory, name.text);
    } else if (is_damaged) {
        unlinkat(disk->directory, name.text, 0);
        log_write(LOG_WARNING, "engine", "the prefix cache has deleted %s/%s: %s", disk->options.directory,
                  name.text, fault);
    }
    pthread_mutex_lock(&disk->mutex);
    disk->counters.reads++;
    disk->counters.hits += is_hit;
    disk->counters.read_bytes += is_hit ? (int64_t)entry.payload_bytes : 0;
    disk->counters.damaged += is_damaged;
    pthread_mutex_unlock(&disk->mutex);
    return is_hit;
}

void prefix_disk_drop(struct prefix_disk *disk, const struct prefix_key *key, enum prefix_entry_kind kind) {
    struct prefix_file_name name = prefix_file_name_make(key, kind);
    unlinkat(disk->directory, name.text, 0);
}

struct prefix_disk_buffer *prefix_disk_reserve(struct prefix_disk *disk, enum prefix_entry_kind kind) {
    pthread_mutex_lock(&disk->mutex);
    struct disk_buffer *buffer = disk->free_buffers;
    if (buffer == NULL) {
        disk->counters.dropped++;
    } else {
        disk->free_buffers = buffer->next;
    }
    pthread_mutex_unlock(&disk->mutex);
    if (buffer == NULL) {
        return NULL;
    }
    buffer->shown.kind = kind;
    buffer->shown.payload_bytes = payload_bytes(disk, kind);
    return &buffer->shown;
}

void prefix_disk_submit(struct prefix_disk *disk, struct prefix_disk_buffer *shown,
                        const struct prefix_key *key, const int32_t *tokens, bool has_draft_rows) {
    struct disk_buffer *buffer = (struct disk_buffer *)shown;
    buffer->key = *key;
    buffer->has_draft_rows = has_draft_rows;
    memcpy(buffer->tokens, tokens, (size_t)disk->options.page_tokens * sizeof *tokens);
    buffer->next = NULL;
    pthread_mutex_lock(&disk->mutex);
    if (disk->first_queued == NULL) {
        disk->first_queued = buffer;
    } else {
        disk->last_queued->next = buffer;
    }
    disk->last_queued = buffer;
    pthread_cond_signal(&disk->queue_changed);
    pthread_mutex_unlock(&disk->mutex);
}

void prefix_disk_cancel(struct prefix_disk *disk, struct prefix_disk_buffer *shown) {
    struct disk_buffer *buffer = (struct disk_buffer *)shown;
    pthread_mutex_lock(&disk->mutex);
    buffer->next = disk->free_buffers;
    disk->free_buffers = buffer;
    pthread_mutex_unlock(&disk->mutex);
}

struct prefix_disk_counters prefix_disk_counters(struct prefix_disk *disk) {
    pthread_mutex_lock(&disk->mutex);
    struct prefix_disk_counters counters = disk->counters;
    pthread_mutex_unlock(&disk->mutex);
    return counters;
}
