/*
 * Plan records on their way: the leader to the first rank of each stage by messages that it does not wait
 * for, there to the other ranks of the stage, which work in step anyway.
 *
 * A record's memory is used again record_limit records later: by then its round is finished, as a rule, and
 * all stages have it. Else the leader waits.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/executor_internal.h"

static size_t mask_words(const struct executor *executor) {
    return ((size_t)executor->options.model->vocabulary_size + 31) / 32;
}

static size_t all_mask_words(const struct executor *executor) {
    return (size_t)executor->options.ranks->bounds.logit_row_limit * mask_words(executor);
}

static bool has_remote_chooser(const struct executor *executor) {
    return executor_ranks_chooser(executor->options.ranks) != 0;
}

/* Two messages for each stage; to the chooser masks, and two more for each sequence that starts. */
static size_t requests_most(const struct executor_ranks *ranks) {
    return 2 * (size_t)ranks->stage_count + 1 + 2 * (size_t)ranks->bounds.segment_limit;
}

static enum status alloc_sent(struct executor *executor) {
    const struct executor_ranks *ranks = executor->options.ranks;
    executor->sent = calloc((size_t)ranks->record_limit, sizeof *executor->sent);
    CHECK_MEMORY(executor->sent);
    for (int i = 0; i < ranks->record_limit; i++) {
        struct sent_record *sent = &executor->sent[i];
        sent->memory = calloc(1, executor->record_bytes);
        sent->masks =
            calloc(has_remote_chooser(executor) ? all_mask_words(executor) : 1, sizeof *sent->masks);
        sent->requests = calloc(requests_most(ranks), sizeof *sent->requests);
        CHECK_MEMORY(sent->memory);
        CHECK_MEMORY(sent->masks);
        CHECK_MEMORY(sent->requests);
    }
    return STATUS_OK;
}

enum status executor_alloc_records(struct executor *executor) {
    const struct executor_ranks *ranks = executor->options.ranks;
    executor->record_bytes = plan_record_bytes_max(&ranks->bounds);
    if (!executor_ranks_has_stage(ranks)) {
        return alloc_sent(executor);
    }
    executor->record = calloc(1, executor->record_bytes);
    CHECK_MEMORY(executor->record);
    TRY(plan_room_init(&executor->room, &ranks->bounds));
    if (executor_is_on_last_stage(executor) && comm_size(ranks->step.tensor) > 1) {
        executor->pass_record = calloc(1, executor->record_bytes);
        CHECK_MEMORY(executor->pass_record);
        TRY(plan_room_init(&executor->pass_room, &ranks->bounds));
    }
    if (executor_is_leader(executor)) {
        return alloc_sent(executor);
    }
    if (executor_chooses(executor)) {
        executor->masks = calloc(all_mask_words(executor), sizeof *executor->masks);
        executor->row_masks = calloc((size_t)ranks->bounds.logit_row_limit, sizeof(token_mask_word *));
        executor->start_tokens = calloc((size_t)ranks->bounds.token_limit, sizeof *executor->start_tokens);
        CHECK_MEMORY(executor->masks);
        CHECK_MEMORY(executor->row_masks);
        CHECK_MEMORY(executor->start_tokens);
    }
    return STATUS_OK;
}

void executor_free_records(struct executor *executor) {
    for (int i = 0; executor->sent != NULL && i < executor->options.ranks->record_limit; i++) {
        free(executor->sent[i].memory);
        free(executor->sent[i].masks);
        free(executor->sent[i].requests);
    }
    free(executor->sent);
    free(executor->record);
    free(executor->pass_record);
    plan_room_deinit(&executor->room);
    plan_room_deinit(&executor->pass_room);
    free(executor->masks);
    free(executor->row_masks);
    free(executor->start_tokens);
    free(executor->start_bias);
}

static enum status wait_for_sent(struct executor *executor, struct sent_record *sent) {
    for (int i = 0; i < sent->request_count; i++) {
        TRY(comm_wait(executor->options.ranks->control, &sent->requests[i]));
    }
    sent->request_count = 0;
    return STATUS_OK;
}

static enum status send(struct executor *executor, struct sent_record *sent, int to, const void *memory,
                        size_t bytes) {
    return bytes == 0 ? STATUS_OK
                      : comm_start_send(executor->options.ranks->control, NULL, to, memory, bytes,
                                        &sent->requests[sent->request_count++]);
}

/* What only the rank that chooses needs: in the order in which it asks for it. */
static enum status send_choice(struct executor *executor, struct sent_record *sent,
                               const struct round_plan *round) {
    int to = executor_ranks_chooser(executor->options.ranks);
    size_t words = mask_words(executor);
    size_t used = 0;
    for (int32_t i = 0; round->row_masks != NULL && i < round->step.logit_row_count; i++) {
        if (round->row_masks[i] != NULL) {
            memcpy(sent->masks + used, round->row_masks[i], words * sizeof *sent->masks);
            used += words;
        }
    }
    TRY(send(executor, sent, to, sent->masks, used * sizeof *sent->masks));
    for (int32_t i = 0; i < round->start_count; i++) {
        const struct sluice_sampling *sampling = &round->starts[i].rules->sampling;
        bool needs_tokens = sampler_has_penalties(sampling);
        TRY(send(executor, sent, to, sampling->logit_bias,
                 sampling->logit_bias_count * sizeof *sampling->logit_bias));
        TRY(send(executor, sent, to, round->starts[i].tokens,
                 needs_tokens ? (size_t)round->starts[i].token_count * sizeof(int32_t) : 0));
    }
    return STATUS_OK;
}

enum status executor_lead(struct executor *executor, const struct plan_record *record) {
    struct executor_ranks *ranks = executor->options.ranks;
    if (ranks == NULL) {
        return STATUS_OK;
    }
    struct sent_record *sent = &executor->sent[executor->record_number % (uint64_t)ranks->record_limit];
    TRY(wait_for_sent(executor, sent));
    executor_ranks_begin_tick(ranks, executor->record_number);
    sent->bytes = plan_record_write(record, executor->record_number++, sent->memory);
    bool has_stage = executor_ranks_has_stage(ranks);
    for (int stage = has_stage ? 1 : 0; stage < ranks->stage_count; stage++) {
        int to = ranks->control_first + stage * ranks->step.count;
        TRY(send(executor, sent, to, &sent->bytes, sizeof sent->bytes));
        TRY(send(executor, sent, to, sent->memory, sent->bytes));
    }
    if (record->kind == PLAN_KIND_ROUND && has_remote_chooser(executor)) {
        TRY(send_choice(executor, sent, &record->round));
    }
    if (has_stage && ranks->step.count > 1) {
        TRY(comm_broadcast_host(ranks->step.tensor, 0, &sent->bytes, sizeof sent->bytes));
        TRY(comm_broadcast_host(ranks->step.tensor, 0, sent->memory, sent->bytes));
    }
    return STATUS_OK;
}

static enum status receive_from_leader(struct executor *executor, void *memory, size_t bytes) {
    struct comm *control = executor->options.ranks->control;
    struct comm_request request;
    executor->meter.plan_bytes += bytes;
    TRY(comm_start_receive(control, NULL, 0, memory, bytes, &request));
    return comm_wait(control, &request);
}

/* The size of the next record: the only wait without a real deadline. */
static enum status receive_size(struct executor *executor, uint64_t *bytes) {
    struct executor_ranks *ranks = executor->options.ranks;
    bool is_first = comm_rank(ranks->step.tensor) == 0;
    struct comm *from = is_first ? ranks->control : ranks->step.tensor;
    double deadline = comm_deadline(from);
    comm_set_deadline(from, COMM_NO_DEADLINE_SECONDS);
    comm_set_idle_deadline(from, COMM_NO_DEADLINE_SECONDS);
    enum status status = is_first ? receive_from_leader(executor, bytes, sizeof *bytes)
                                  : comm_broadcast_host(from, 0, bytes, sizeof *bytes);
    comm_set_deadline(from, deadline);
    comm_set_idle_deadline(from, deadline);
    TRY(status);
    CHECK(*bytes <= executor->record_bytes, STATUS_INTERNAL, "a plan of %llu bytes came in, at most %zu fit",
          (unsigned long long)*bytes, executor->record_bytes);
    return STATUS_OK;
}

static enum status receive_masks(struct executor *executor, struct plan_record *record) {
    size_t words = mask_words(executor);
    const token_mask_word *next = executor->masks;
    if (record->mask_count == 0) {
        return STATUS_OK;
    }
    TRY(receive_from_leader(executor, executor->masks,
                            (size_t)record->mask_count * words * sizeof *executor->masks));
    for (int32_t i = 0; i < record->round.step.logit_row_count; i++) {
        executor->row_masks[i] = record->mask_flags[i] != 0 ? next : NULL;
        next += record->mask_flags[i] != 0 ? words : 0;
    }
    record->round.row_masks = executor->row_masks;
    return STATUS_OK;
}

enum status executor_receive(struct executor *executor, struct plan_record *out) {
    struct executor_ranks *ranks = executor->options.ranks;
    bool is_first = comm_rank(ranks->step.tensor) == 0;
    uint64_t bytes = 0;
    double began = clock_seconds();
    TRY(receive_size(executor, &bytes));
    rank_meter_add_wait(&executor->meter, began);
    if (is_first) {
        TRY(receive_from_leader(executor, executor->record, bytes));
    }
    if (is_first && comm_size(ranks->step.tensor) > 1) {
        TRY(comm_broadcast_host(ranks->step.tensor, 0, &bytes, sizeof bytes));
    }
    if (comm_size(ranks->step.tensor) > 1) {
        TRY(comm_broadcast_host(ranks->step.tensor, 0, executor->record, bytes));
    }
    executor_ranks_begin_tick(ranks, executor->record_number);
    TRY(plan_record_read(executor->record, bytes, executor->record_number++, &ranks->bounds, &executor->room,
                         out));
    return out->kind == PLAN_KIND_ROUND && executor_chooses(executor) ? receive_masks(executor, out)
                                                                      : STATUS_OK;
}

/* Biases are as many as a request has: their memory grows with the longest list so far. */
static enum status reserve_bias(struct executor *executor, size_t count) {
    if (count > executor->start_bias_count) {
        struct sluice_logit_bias *bias = realloc(executor->start_bias, count * sizeof *bias);
        CHECK_MEMORY(bias);
        executor->start_bias = bias;
        executor->start_bias_count = count;
    }
    return STATUS_OK;
}

enum status executor_receive_start(struct executor *executor, struct round_start *start) {
    /* Its rules lie in this executor's room. */
    struct sequence_rules *rules = &executor->room.rules[start->rules - executor->room.rules];
    size_t count = rules->sampling.logit_bias_count;
    if (count > 0) {
        TRY(reserve_bias(executor, count));
        TRY(receive_from_leader(executor, executor->start_bias, count * sizeof *executor->start_bias));
        rules->sampling.logit_bias = executor->start_bias;
    }
    if (sampler_has_penalties(&rules->sampling)) {
        TRY(receive_from_leader(executor, executor->start_tokens,
                                (size_t)start->token_count * sizeof *executor->start_tokens));
        start->tokens = executor->start_tokens;
    }
    return STATUS_OK;
}

enum status executor_finish_sends(struct executor *executor) {
    const struct executor_ranks *ranks = executor->options.ranks;
    for (int i = 0; ranks != NULL && i < BOUNDARY_BUFFERS_MAX; i++) {
        TRY(executor_wait_for_buffer(executor, i));
    }
    executor_drop_boundaries(executor); /* what was awaited for a step that will not be */
    for (int i = 0; executor->sent != NULL && i < ranks->record_limit; i++) {
        TRY(wait_for_sent(executor, &executor->sent[i]));
    }
    return STATUS_OK;
}
