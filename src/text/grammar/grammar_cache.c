/* A list, the last used one first: there are as many entries as there are schemas in use. */
#include "text/grammar/grammar_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* What one grammar may keep before it forgets what it found out. */
enum { AUTOMATON_BYTES_MAX = 1 << 26 };

struct shared_grammar {
    struct shared_grammar *next;
    enum grammar_kind kind;
    char *text;
    size_t length;
    size_t user_count;
    struct grammar *grammar;
    pthread_mutex_t lock; /* of the automaton */
    struct grammar_automaton *automaton;
    bool is_prepared; /* or being so; guarded by the lock */
};

struct grammar_cache {
    const struct token_vocabulary *vocabulary;
    size_t byte_limit;
    pthread_mutex_t lock; /* of the list and the counts of users */
    struct shared_grammar *first;
    size_t compilation_count;
};

static void destroy_entry(struct shared_grammar *entry) {
    grammar_automaton_destroy(&entry->automaton);
    grammar_destroy(&entry->grammar);
    pthread_mutex_destroy(&entry->lock);
    free(entry->text);
    free(entry);
}

enum status grammar_cache_create(const struct token_vocabulary *vocabulary, size_t byte_limit,
                                 struct grammar_cache **out) {
    *out = NULL;
    struct grammar_cache *cache = calloc(1, sizeof *cache);
    CHECK_MEMORY(cache);
    cache->vocabulary = vocabulary;
    cache->byte_limit = byte_limit;
    if (pthread_mutex_init(&cache->lock, NULL) != 0) {
        free(cache);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory");
    }
    *out = cache;
    return STATUS_OK;
}

void grammar_cache_destroy(struct grammar_cache **cache) {
    if (*cache == NULL) {
        return;
    }
    while ((*cache)->first != NULL) {
        struct shared_grammar *entry = (*cache)->first;
        (*cache)->first = entry->next;
        destroy_entry(entry);
    }
    pthread_mutex_destroy(&(*cache)->lock);
    free(*cache);
    *cache = NULL;
}

const struct token_vocabulary *grammar_cache_vocabulary(const struct grammar_cache *cache) {
    return cache->vocabulary;
}

/* Moves the entry to the front and counts its user; NULL if it is not there. The cache is locked. */
static struct shared_grammar *find(struct grammar_cache *cache, const struct grammar_source *source) {
    for (struct shared_grammar **link = &cache->first; *link != NULL; link = &(*link)->next) {
        struct shared_grammar *entry = *link;
        bool is_equal = entry->kind == source->kind && entry->length == source->length &&
                        (source->length == 0 || memcmp(entry->text, source->text, source->length) == 0);
        if (is_equal) {
            *link = entry->next;
            entry->next = cache->first;
            cache->first = entry;
            entry->user_count++;
            return entry;
        }
    }
    return NULL;
}

/* What an entry keeps. Somebody may be following it: its automaton is looked at under its lock. */
static size_t entry_bytes(struct shared_grammar *entry) {
    pthread_mutex_lock(&entry->lock);
    size_t bytes = sizeof *entry + entry->length + grammar_bytes(entry->grammar) +
                   grammar_automaton_bytes(entry->automaton);
    pthread_mutex_unlock(&entry->lock);
    return bytes;
}

/* Drops unused entries behind those that fit. The cache is locked. */
static void drop_oldest(struct grammar_cache *cache) {
    size_t bytes = 0;
    for (struct shared_grammar **link = &cache->first; *link != NULL;) {
        struct shared_grammar *entry = *link;
        bytes += entry_bytes(entry);
        if (bytes > cache->byte_limit && entry->user_count == 0) {
            bytes -= entry_bytes(entry);
            *link = entry->next;
            destroy_entry(entry);
        } else {
            link = &entry->next;
        }
    }
}

static enum status make_entry(const struct grammar_cache *cache, const struct grammar_source *source,
                              struct shared_grammar **out) {
    enum status status = STATUS_OK;
    struct shared_grammar *entry = calloc(1, sizeof *entry);
    CHECK_MEMORY(entry);
    CHECK_GOTO(pthread_mutex_init(&entry->lock, NULL) == 0, STATUS_OUT_OF_MEMORY, "out of memory");
    entry->kind = source->kind;
    entry->length = source->length;
    entry->user_count = 1;
    entry->text = malloc(source->length + 1);
    CHECK_MEMORY_GOTO(entry->text);
    if (source->length > 0) {
        memcpy(entry->text, source->text, source->length);
    }
    TRY_GOTO(grammar_source_compile(source, &entry->grammar));
    TRY_GOTO(
        grammar_automaton_create(entry->grammar, cache->vocabulary, AUTOMATON_BYTES_MAX, &entry->automaton));
    *out = entry;
    return STATUS_OK;
fail:
    destroy_entry(entry);
    return status;
}

enum status grammar_cache_acquire(struct grammar_cache *cache, const struct grammar_source *source,
                                  struct shared_grammar **out) {
    struct shared_grammar *made = NULL;
    pthread_mutex_lock(&cache->lock);
    *out = find(cache, source);
    pthread_mutex_unlock(&cache->lock);
    if (*out != NULL) {
        return STATUS_OK;
    }
    TRY(make_entry(cache, source, &made));
    pthread_mutex_lock(&cache->lock);
    cache->compilation_count++;
    *out = find(cache, source);
    if (*out == NULL) {
        made->next = cache->first;
        cache->first = made;
        *out = made;
        made = NULL;
    }
    drop_oldest(cache);
    pthread_mutex_unlock(&cache->lock);
    if (made != NULL) {
        destroy_entry(made); /* somebody else was faster */
    }
    return STATUS_OK;
}

void grammar_cache_release(struct grammar_cache *cache, struct shared_grammar **grammar) {
    if (*grammar != NULL) {
        pthread_mutex_lock(&cache->lock);
        (*grammar)->user_count--;
        drop_oldest(cache);
        pthread_mutex_unlock(&cache->lock);
        *grammar = NULL;
    }
}

struct grammar_cache_counts grammar_cache_counts(struct grammar_cache *cache) {
    pthread_mutex_lock(&cache->lock);
    struct grammar_cache_counts counts = {.compilations = cache->compilation_count};
    for (struct shared_grammar *entry = cache->first; entry != NULL; entry = entry->next) {
        counts.grammars++;
        counts.bytes += entry_bytes(entry);
    }
    pthread_mutex_unlock(&cache->lock);
    return counts;
}

/* States of a grammar in the order in which a text can meet them. */
struct state_queue {
    uint32_t *states;
    uint8_t *is_known; /* by state */
    uint32_t count;
};

static void add_state(struct state_queue *queue, uint32_t state) {
    if (queue->is_known[state] == 0) {
        queue->is_known[state] = 1;
        queue->states[queue->count++] = state;
    }
}

static void add_states_behind(struct state_queue *queue, const struct grammar *grammar, uint32_t state) {
    const struct grammar_state *from = &grammar->states[state];
    for (uint32_t i = 0; i < from->call_count; i++) {
        const struct grammar_call *call = &grammar->calls[from->call_offset + i];
        add_state(queue, grammar->rules[call->rule].start);
        add_state(queue, call->target);
    }
    for (uint32_t i = 0; i < from->edge_count; i++) {
        add_state(queue, grammar->edges[from->edge_offset + i].target);
    }
}

static bool prepare_state(struct shared_grammar *grammar, uint32_t state) {
    struct grammar_automaton *automaton = grammar_lock(grammar);
    bool is_done = grammar_automaton_prepare(automaton, state);
    grammar_unlock(grammar);
    return is_done;
}

/* Whether this is the first time. */
static bool begin_preparing(struct shared_grammar *grammar) {
    pthread_mutex_lock(&grammar->lock);
    bool is_first = !grammar->is_prepared;
    grammar->is_prepared = true;
    pthread_mutex_unlock(&grammar->lock);
    return is_first;
}

void grammar_prepare(struct shared_grammar *shared, double seconds) {
    const struct grammar *grammar = shared->grammar;
    double until = clock_seconds() + seconds;
    if (!begin_preparing(shared)) {
        return;
    }
    struct state_queue queue = {.states = malloc(grammar->state_count * sizeof *queue.states),
                                .is_known = calloc(grammar->state_count, sizeof *queue.is_known)};
    if (queue.states != NULL && queue.is_known != NULL) {
        add_state(&queue, grammar->rules[grammar->root].start);
        for (uint32_t i = 0; i < queue.count && clock_seconds() < until; i++) {
            if (!prepare_state(shared, queue.states[i])) {
                break;
            }
            add_states_behind(&queue, grammar, queue.states[i]);
        }
    }
    free(queue.states);
    free(queue.is_known);
}

struct grammar_automaton *grammar_lock(struct shared_grammar *grammar) {
    pthread_mutex_lock(&grammar->lock);
    grammar_automaton_trim(grammar->automaton);
    return grammar->automaton;
}

void grammar_unlock(struct shared_grammar *grammar) {
    pthread_mutex_unlock(&grammar->lock);
}
