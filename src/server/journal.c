/* Entries: the request is kept as the frame it travels in, which is a copy of all it points to. */
#include "server/journal.h"

#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 4096, FIRST_CAPACITY = 16 };

enum status journal_entry_create(const struct service_request *request, double now,
                                 struct journal_entry **out) {
    struct wire_record record = {.kind = WIRE_SUBMIT, .request = *request};
    struct journal_entry *entry = calloc(1, sizeof *entry);
    CHECK_MEMORY(entry);
    wire_write(&entry->record, &record);
    enum status status = string_buffer_check(&entry->record);
    if (status == STATUS_OK && entry->record.length > WIRE_BODY_LIMIT / 2) {
        status = error_raise(STATUS_OUT_OF_RANGE, ERROR_HERE,
                             "the request takes %zu bytes, at most %d are allowed", entry->record.length,
                             WIRE_BODY_LIMIT / 2);
    }
    if (status != STATUS_OK) {
        journal_entry_destroy(&entry);
        return error_forward(status, ERROR_HERE);
    }
    entry->prompt_count = request->options.prompt_count;
    entry->priority = request->options.priority;
    entry->has_grammar = request->rules.grammar != SERVICE_GRAMMAR_NONE;
    entry->submitted_at = now;
    entry->deadline = request->options.timeout_seconds > 0.0 ? now + request->options.timeout_seconds : 0.0;
    entry->notify = request->notify;
    entry->notify_context = request->notify_context;
    entry->state.message = "";
    entry->slot = -1;
    *out = entry;
    return STATUS_OK;
}

static void batch_deinit(struct journal_batch *batch) {
    free(batch->tokens);
    free(batch->top);
}

void journal_entry_destroy(struct journal_entry **pointer) {
    struct journal_entry *entry = *pointer;
    *pointer = NULL;
    string_buffer_deinit(&entry->record);
    free(entry->tokens);
    batch_deinit(&entry->fresh);
    batch_deinit(&entry->taken);
    batch_deinit(&entry->fresh_prompt);
    batch_deinit(&entry->taken_prompt);
    free(entry);
}

struct journal_entry *journal_entry_of_node(struct id_node *node) {
    return (struct journal_entry *)(void *)((char *)node - offsetof(struct journal_entry, node));
}

static enum status read_request(const struct journal_entry *entry, struct arena *arena,
                                struct wire_record *out) {
    struct wire_frame frame;
    size_t frame_bytes;
    TRY(wire_frame_find((const unsigned char *)entry->record.data, entry->record.length, &frame,
                        &frame_bytes));
    return wire_read(&frame, arena, out);
}

static const int32_t *join(const struct sluice_request_options *options, const struct journal_entry *entry,
                           struct arena *arena) {
    int32_t *text = ARENA_NEW(arena, int32_t, options->prompt_count + entry->token_count);
    if (text != NULL) {
        memcpy(text, options->prompt, options->prompt_count * sizeof *text);
        if (entry->token_count > 0) {
            memcpy(text + options->prompt_count, entry->tokens, entry->token_count * sizeof *text);
        }
    }
    return text;
}

const int32_t *journal_entry_text(const struct journal_entry *entry, struct arena *arena, size_t *count) {
    struct wire_record record;
    *count = entry->prompt_count + entry->token_count;
    return read_request(entry, arena, &record) == STATUS_OK ? join(&record.request.options, entry, arena)
                                                            : NULL;
}

static enum status write_rest(struct journal_entry *entry, double now, struct arena *arena,
                              struct string_buffer *out) {
    struct wire_record record;
    TRY(read_request(entry, arena, &record));
    struct sluice_request_options *options = &record.request.options;
    options->prompt = join(options, entry, arena);
    CHECK_MEMORY(options->prompt);
    options->prompt_count += entry->token_count;
    options->output_prefix_count += entry->token_count;
    if (options->token_limit > 0) {
        options->token_limit -= (int64_t)entry->token_count;
    }
    if (entry->deadline > 0.0) {
        /* What is over already ends in the worker, at once. */
        options->timeout_seconds = entry->deadline - now > 1e-9 ? entry->deadline - now : 1e-9;
    }
    if (entry->has_prompt_tokens) {
        options->prompt_log_probability_count = -1;
    }
    record.id = entry->node.id;
    wire_write(out, &record);
    return string_buffer_check(out);
}

enum status journal_entry_write(struct journal_entry *entry, double now, struct string_buffer *out) {
    struct arena arena;
    arena_init(&arena, ARENA_BYTES);
    enum status status = write_rest(entry, now, &arena, out);
    arena_deinit(&arena);
    entry->sent_at = now;
    entry->sent_token_count = entry->token_count;
    entry->is_answered = false;
    entry->before = entry->state;
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

/* Room for `needed` items in all; the old ones stay. */
static bool grow(void **items, size_t *capacity, size_t needed, size_t item_bytes) {
    if (needed <= *capacity) {
        return true;
    }
    size_t larger = *capacity == 0 ? FIRST_CAPACITY : *capacity;
    while (larger < needed) {
        larger *= 2;
    }
    void *grown = realloc(*items, larger * item_bytes);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *capacity = larger;
    return true;
}

static enum status batch_append(struct journal_batch *batch, const struct wire_tokens *tokens) {
    void *items = batch->tokens;
    bool has_room = grow(&items, &batch->capacity, batch->count + tokens->count, sizeof *batch->tokens);
    batch->tokens = items;
    items = batch->top;
    has_room = has_room &&
               grow(&items, &batch->top_capacity, batch->top_total + tokens->top_total, sizeof *batch->top);
    batch->top = items;
    CHECK(has_room, STATUS_OUT_OF_MEMORY, "out of memory for the answer's tokens");
    for (size_t i = 0; i < tokens->count; i++) {
        struct service_token *token = &batch->tokens[batch->count++];
        *token = (struct service_token){.id = tokens->ids[i]};
        if (tokens->record_count > 0) {
            token->chosen = tokens->chosen[i];
            token->top_count = tokens->top_counts[i];
        }
    }
    if (tokens->top_total > 0) {
        memcpy(batch->top + batch->top_total, tokens->top, tokens->top_total * sizeof *batch->top);
        batch->top_total += tokens->top_total;
    }
    return STATUS_OK;
}

static enum status append_tokens(struct journal_entry *entry, const struct wire_tokens *tokens) {
    void *items = entry->tokens;
    bool has_room =
        grow(&items, &entry->token_capacity, entry->token_count + tokens->count, sizeof *entry->tokens);
    entry->tokens = items;
    CHECK(has_room, STATUS_OUT_OF_MEMORY, "out of memory for the answer's tokens");
    TRY(batch_append(&entry->fresh, tokens));
    if (tokens->count > 0) {
        memcpy(entry->tokens + entry->token_count, tokens->ids, tokens->count * sizeof *entry->tokens);
    }
    entry->token_count += tokens->count;
    entry->strikes = tokens->count > 0 ? 0 : entry->strikes;
    return STATUS_OK;
}

/* Times are the front's; what an earlier submission had reached stays reached. */
static void merge_state(struct journal_entry *entry, const struct sluice_request_state *news) {
    const struct sluice_request_state *before = &entry->before;
    struct sluice_request_state *state = &entry->state;
    double offset = entry->sent_at - entry->submitted_at;
    size_t done =
        news->prompt_tokens_done < entry->prompt_count ? news->prompt_tokens_done : entry->prompt_count;
    state->phase = news->phase;
    state->finish_reason = news->finish_reason;
    state->status = news->status;
    state->token_count = entry->token_count;
    state->verified_drafts = before->verified_drafts + news->verified_drafts;
    state->accepted_drafts = before->accepted_drafts + news->accepted_drafts;
    state->preemptions = before->preemptions + news->preemptions;
    state->prompt_tokens_done = done > before->prompt_tokens_done ? done : before->prompt_tokens_done;
    if (before->token_count == 0) {
        state->cached_prompt_tokens = news->cached_prompt_tokens;
    }
    if (before->queue_seconds == 0.0 && news->queue_seconds > 0.0) {
        state->queue_seconds = offset + news->queue_seconds;
    }
    if (before->first_token_seconds == 0.0 && news->first_token_seconds > 0.0) {
        state->first_token_seconds = offset + news->first_token_seconds;
    }
    if (news->last_token_seconds > 0.0) {
        state->last_token_seconds = offset + news->last_token_seconds;
    }
}

bool journal_entry_is_over(const struct journal_entry *entry) {
    return entry->state.phase == SLUICE_REQUEST_FINISHED;
}

/* Once, at the end: states before have an empty one. */
static void set_message(struct journal_entry *entry, struct service_text text) {
    size_t length = text.length < sizeof entry->message ? text.length : sizeof entry->message - 1;
    if (length > 0) {
        memcpy(entry->message, text.bytes, length);
    }
    entry->message[length] = '\0';
    entry->state.message = entry->message;
}

enum status journal_entry_update(struct journal_entry *entry, const struct wire_update *update) {
    entry->is_answered = true;
    if (update->prompt_tokens.count > 0 && !entry->has_prompt_tokens) {
        TRY(batch_append(&entry->fresh_prompt, &update->prompt_tokens));
        entry->has_prompt_tokens = true;
    }
    TRY(append_tokens(entry, &update->tokens));
    bool is_refusal = update->state.finish_reason == SLUICE_FINISH_ERROR;
    CHECK(is_refusal || entry->sent_token_count + update->state.token_count == entry->token_count,
          STATUS_BAD_FORMAT, "a worker counts %zu tokens where the front has %zu", update->state.token_count,
          entry->token_count - entry->sent_token_count);
    merge_state(entry, &update->state);
    if (journal_entry_is_over(entry)) {
        set_message(entry, update->message);
    }
    return STATUS_OK;
}

bool journal_entry_strike(struct journal_entry *entry, bool is_suspect) {
    enum { STRIKES_MAX = 2 };
    entry->strikes += is_suspect;
    entry->state.phase = SLUICE_REQUEST_WAITING;
    return entry->strikes < STRIKES_MAX;
}

void journal_entry_finish(struct journal_entry *entry, enum sluice_finish_reason reason, enum status status,
                          const char *message) {
    entry->state.phase = SLUICE_REQUEST_FINISHED;
    entry->state.finish_reason = reason;
    entry->state.status = (enum sluice_status)status;
    set_message(entry, (struct service_text){message, strlen(message)});
}

static void swap(struct journal_batch *fresh, struct journal_batch *taken) {
    struct journal_batch batch = *taken;
    *taken = *fresh;
    *fresh = batch;
    fresh->count = 0;
    fresh->top_total = 0;
}

void journal_entry_take(struct journal_entry *entry, struct service_update *out) {
    swap(&entry->fresh, &entry->taken);
    swap(&entry->fresh_prompt, &entry->taken_prompt);
    *out = (struct service_update){.state = entry->state};
}

static const struct service_token *show(struct journal_batch *batch, size_t *count) {
    struct sluice_log_probability *top = batch->top;
    for (size_t i = 0; i < batch->count; i++) {
        batch->tokens[i].top = top;
        top += batch->tokens[i].top_count;
    }
    *count = batch->count;
    return batch->tokens;
}

void journal_entry_show(struct journal_entry *entry, struct service_update *out) {
    out->tokens = show(&entry->taken, &out->token_count);
    out->prompt_tokens = show(&entry->taken_prompt, &out->prompt_token_count);
}

void journal_list_insert(struct journal_list *list, struct journal_entry *entry) {
    struct journal_entry *before = list->last;
    while (before != NULL && before->submitted_at > entry->submitted_at) {
        before = before->previous;
    }
    struct journal_entry *after = before == NULL ? list->first : before->next;
    entry->previous = before;
    entry->next = after;
    *(before == NULL ? &list->first : &before->next) = entry;
    *(after == NULL ? &list->last : &after->previous) = entry;
    list->count++;
}

void journal_list_remove(struct journal_list *list, struct journal_entry *entry) {
    *(entry->previous == NULL ? &list->first : &entry->previous->next) = entry->next;
    *(entry->next == NULL ? &list->last : &entry->next->previous) = entry->previous;
    entry->previous = NULL;
    entry->next = NULL;
    list->count--;
}
