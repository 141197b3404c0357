/*
 * What the front remembers of a generation, so that another worker can go on with it: the request as it came,
 * the tokens that are there, and those that nobody has taken yet.
 *
 * A worker that goes on gets prompt and tokens as its prompt; what it adds is what the first one would have
 * added. Entries are guarded by whoever owns them.
 */
#ifndef SLUICE_SERVER_JOURNAL_H
#define SLUICE_SERVER_JOURNAL_H

#include <stdbool.h>

#include "server/id_table.h"
#include "server/service.h"
#include "server/wire.h"

/* Tokens that came since the last take, or that were taken with it. */
struct journal_batch {
    struct service_token *tokens; /* their `top` is set when they are taken */
    size_t count;
    size_t capacity;
    struct sluice_log_probability *top;
    size_t top_total;
    size_t top_capacity;
};

struct journal_entry {
    struct generation generation;
    struct id_node node; /* its id is that of the submission under way */

    struct string_buffer record; /* the request, as a frame */
    size_t prompt_count;
    int priority;
    bool has_grammar;
    double submitted_at;
    double deadline; /* 0: none */
    int32_t *tokens; /* of the answer so far */
    size_t token_count;
    size_t token_capacity;
    struct journal_batch fresh;
    struct journal_batch taken;
    struct journal_batch fresh_prompt;
    struct journal_batch taken_prompt;
    bool has_prompt_tokens; /* came: they are not asked for again */
    struct sluice_request_state state;
    char message[512];

    /* The submission under way. */
    double sent_at;
    size_t sent_token_count;            /* tokens that went with it */
    bool is_answered;                   /* the worker has said something of it */
    struct sluice_request_state before; /* what earlier submissions had done */

    int strikes; /* workers that died over it without a new token in between */
    bool is_cancelled;
    bool is_released;
    void (*notify)(void *context);
    void *notify_context;

    /* The owner's. */
    int slot; /* worker that has it; -1: none */
    bool is_suspect;
    bool has_wish;
    struct journal_entry *next_wish;
    struct journal_entry *previous;
    struct journal_entry *next;
};

/* A list in the order of arrival. */
struct journal_list {
    struct journal_entry *first;
    struct journal_entry *last;
    int32_t count;
};

/* Copies the request. Owned: journal_entry_destroy. */
enum status journal_entry_create(const struct service_request *request, double now,
                                 struct journal_entry **out);
void journal_entry_destroy(struct journal_entry **entry);

/* Takes an entry of a list's node back. */
struct journal_entry *journal_entry_of_node(struct id_node *node);

/* What is left of the request, as a submission with the entry's id. DEADLINE's time may be over. */
enum status journal_entry_write(struct journal_entry *entry, double now, struct string_buffer *out);

/* Prompt and answer so far, in the arena; NULL if memory is out. */
const int32_t *journal_entry_text(const struct journal_entry *entry, struct arena *arena, size_t *count);

/* Takes in what a worker said. BAD_FORMAT if it does not go on from what is there. */
enum status journal_entry_update(struct journal_entry *entry, const struct wire_update *update);

/* The entry's worker died, perhaps because of it: whether another one may try. */
bool journal_entry_strike(struct journal_entry *entry, bool is_suspect);

bool journal_entry_is_over(const struct journal_entry *entry);

/* Ends it without a worker. */
void journal_entry_finish(struct journal_entry *entry, enum sluice_finish_reason reason, enum status status,
                          const char *message);

/* Hands out what is fresh; the rest of service_kind.take is done by journal_entry_show, outside of locks. */
void journal_entry_take(struct journal_entry *entry, struct service_update *out);
void journal_entry_show(struct journal_entry *entry, struct service_update *out);

/* Behind all entries that came before. */
void journal_list_insert(struct journal_list *list, struct journal_entry *entry);
void journal_list_remove(struct journal_list *list, struct journal_entry *entry);

#endif
