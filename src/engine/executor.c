/* The dry run that sizes everything, and the memory that it asks for. */
#include "engine/executor.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/batch_upload.h"
#include "engine/executor_internal.h"
#include "engine/executor_shares.h"
#include "engine/rank_watchdog.h"

/* With so many bytes in front of its first tensor. */
static enum status alloc_boundary(struct executor *executor, int64_t rows, size_t header_bytes,
                                  struct boundary *out) {
    const struct model *model = executor->options.model;
    model->family->describe_boundary(model, numerics_activation_dtype(executor->options.numerics), rows, out);
    for (int i = 0; i < out->count; i++) {
        size_t before = i == 0 ? header_bytes : 0;
        void *memory;
        TRY(device_arena_alloc(&executor->arena, tensor_bytes(&out->tensors[i]) + before, &memory));
        out->tensors[i].data = (char *)memory + before;
    }
    return STATUS_OK;
}

static enum status alloc_boundaries(struct executor *executor) {
    int buffers = executor_buffer_count(executor);
    size_t header_bytes = buffers > 1 ? BOUNDARY_HEADER_BYTES : 0; /* with one stage nothing is sent */
    for (int i = 0; i < buffers; i++) {
        TRY(alloc_boundary(executor, executor_boundary_rows(executor), header_bytes,
                           &executor->boundaries[i]));
    }
    if (executor_drafts(executor)) {
        for (int i = 0; i < 2; i++) {
            TRY(alloc_boundary(executor, executor_draft_row_limit(executor), 0, &executor->drafted[i]));
        }
        if (executor->options.saved_row_limit > 0) {
            TRY(alloc_boundary(executor, executor->options.saved_row_limit, 0, &executor->saved));
        }
    }
    return STATUS_OK;
}

/* A draft pass of so many rows, going on from rows of the last step. */
static enum status plan_draft_pass(struct executor *executor, int32_t rows, bool writes_state_only) {
    struct step_segment segment = {.row_count = rows};
    struct step_plan plan = {.segments = &segment, .segment_count = 1};
    struct draft_plan draft = {
        .segments = &segment, .segment_count = 1, .writes_state_only = writes_state_only};
    return executor_run_pass(executor, &(struct pass){.plan = &plan, .draft = &draft});
}

/* The largest draft passes there can be. Where ranks share rows, these may still be on all of them. */
static enum status plan_draft_memory(struct executor *executor) {
    int32_t draft_rows = executor_draft_row_limit(executor);
    executor->step_rows = executor->options.row_limit;
    TRY(plan_draft_pass(executor, executor->options.row_limit, true));
    TRY(plan_draft_pass(executor, draft_rows, false));
    if (executor->step_deal.is_shared) {
        executor->step_deal.is_shared = false;
        executor->step_rows = executor_boundary_rows(executor); /* that such a step leaves at most */
        TRY(plan_draft_pass(executor, draft_rows, true));
        TRY(plan_draft_pass(executor, draft_rows, false));
    }
    executor->step_rows = 0;
    return STATUS_OK;
}

/* A step of so many rows, run without launching anything. */
static enum status plan_step_memory(struct executor *executor, int64_t rows) {
    struct step_segment segments[1] = {{.row_count = (int32_t)rows}};
    const int32_t logit_rows[1] = {0};
    struct step_plan plan = {.segments = segments, .segment_count = 1, .logit_rows = logit_rows};
    plan.logit_row_count = executor->options.logit_row_limit;
    return executor_run_pass(executor, &(struct pass){.plan = &plan});
}

/* The largest steps there can be, with rows dealt out and without, give the arena's size. */
static enum status plan_memory(struct executor *executor) {
    const struct executor_ranks *ranks = executor->options.ranks;
    executor->queue.is_dry = true;
    device_arena_init_planning(&executor->arena);
    TRY(alloc_boundaries(executor));
    /* Room for the segment arrays of every possible plan. */
    void *unused;
    TRY(device_arena_alloc(
        &executor->arena, batch_upload_count(0, executor->options.segment_limit) * sizeof(int32_t), &unused));
    if (ranks != NULL && ranks->shared_rows_min > 1 &&
        ranks->shared_rows_min <= executor->options.row_limit) {
        TRY(plan_step_memory(executor, ranks->shared_rows_min - 1));
    }
    TRY(plan_step_memory(executor, executor->options.row_limit));
    if (executor_drafts(executor)) {
        TRY(plan_draft_memory(executor));
    }
    executor->queue.is_dry = false;
    return STATUS_OK;
}

static bool gathers_traces(const struct executor *executor) {
    return executor->options.trace != NULL && executor->options.ranks != NULL && executor_is_leader(executor);
}

size_t executor_trace_bytes(const struct executor *executor) {
    size_t ring = executor->options.trace == NULL ? 0 : tick_trace_bytes(executor->options.trace);
    return ring + (gathers_traces(executor) ? TRACE_PIECE_EVENTS * sizeof *executor->trace_piece : 0);
}

/* Of a leader that is to have the events of all ranks. */
static enum status alloc_trace_piece(struct executor *executor) {
    if (gathers_traces(executor)) {
        executor->trace_piece = calloc(TRACE_PIECE_EVENTS, sizeof *executor->trace_piece);
        CHECK_MEMORY(executor->trace_piece);
    }
    return STATUS_OK;
}

/* What a rank needs among others: records, and where the logits that it sends to the leader lie. */
static enum status alloc_rank_memory(struct executor *executor) {
    struct executor_ranks *ranks = executor->options.ranks;
    size_t rows = (size_t)executor->options.row_limit;
    size_t pairs = rows * (size_t)ranks->replica_count * (size_t)executor->options.model->expert_picks;
    TRY(executor_alloc_records(executor));
    executor->own_rows = calloc(rows, sizeof *executor->own_rows);
    ranks->step.offsets =
        calloc(2 * ((size_t)ranks->step.expert_rank_count + 1), sizeof *ranks->step.offsets);
    ranks->step.pair_experts = calloc(pairs, sizeof *ranks->step.pair_experts);
    CHECK_MEMORY(executor->own_rows);
    CHECK_MEMORY(ranks->step.offsets);
    CHECK_MEMORY(ranks->step.pair_experts);
    if (ranks->step.balance != NULL) {
        ranks->step.own_picks = calloc(pairs, sizeof *ranks->step.own_picks);
        CHECK_MEMORY(ranks->step.own_picks);
    }
    TRY(alloc_trace_piece(executor));
    if (!executor_is_leader(executor) && executor_is_on_last_stage(executor)) {
        size_t logits =
            (size_t)ranks->bounds.logit_row_limit * (size_t)executor->options.model->vocabulary_size;
        executor->logits = calloc(logits, sizeof *executor->logits);
        CHECK_MEMORY(executor->logits);
    }
    return STATUS_OK;
}

static enum status alloc_memory(struct executor *executor) {
    size_t step_bytes = executor->arena.high_water;
    TRY(device_arena_init(&executor->arena, executor->options.device, step_bytes));
    executor->queue.stream = executor->options.stream;
    if (executor->options.ranks != NULL && executor->options.ranks->pulse != NULL) {
        executor->options.ranks->pulse->pool = executor->options.pool;
        executor->queue.pulse = &executor->options.ranks->pulse->ops;
    }
    TRY(alloc_boundaries(executor));
    size_t integers = batch_upload_count(executor->options.row_limit, executor->options.segment_limit);
    executor->staging = calloc(integers, sizeof *executor->staging);
    CHECK_MEMORY(executor->staging);
    executor->scan =
        calloc((size_t)tensor_row_elements(&executor->boundaries[0].tensors[0]), sizeof *executor->scan);
    CHECK_MEMORY(executor->scan);
    return executor->options.ranks == NULL ? STATUS_OK : alloc_rank_memory(executor);
}

enum status executor_create(const struct executor_options *options, struct executor **out) {
    enum status status = STATUS_OK;
    struct executor *executor = calloc(1, sizeof *executor);
    CHECK_MEMORY(executor);
    executor->options = *options;
    executor->first_layer = options->model->stage.first_layer;
    executor->end_layer = options->model->stage.end_layer;
    executor->queue =
        (struct op_queue){.table = &executor->table, .pool = options->pool, .arena = &executor->arena};
    TRY_GOTO(options->backend->build_table(options->numerics, options->cpu_features, &executor->table));
    TRY_GOTO(op_table_check(&executor->table, options->backend->name));
    TRY_GOTO(plan_memory(executor));
    TRY_GOTO(alloc_memory(executor));
    *out = executor;
    return STATUS_OK;
fail:
    executor_destroy(&executor);
    return status;
}

void executor_set_layers(struct executor *executor, int first, int end) {
    const struct model_stage *stage = &executor->options.model->stage;
    assert(first >= stage->first_layer && first <= end && end <= stage->end_layer);
    (void)stage;
    executor->first_layer = first;
    executor->end_layer = end;
}

enum status executor_create_outside(const struct executor_options *options, struct executor **out) {
    struct executor *executor = calloc(1, sizeof *executor);
    CHECK_MEMORY(executor);
    executor->options = *options;
    enum status status = executor_alloc_records(executor);
    status = status == STATUS_OK ? alloc_trace_piece(executor) : status;
    if (status != STATUS_OK) {
        executor_destroy(&executor);
        return error_forward(status, ERROR_HERE);
    }
    *out = executor;
    return STATUS_OK;
}

void executor_destroy(struct executor **executor) {
    if (*executor != NULL) {
        struct executor_ranks *ranks = (*executor)->options.ranks;
        executor_drop_boundaries(*executor);
        if (ranks != NULL) {
            free(ranks->step.offsets);
            free(ranks->step.pair_experts);
            free(ranks->step.own_picks);
            ranks->step.offsets = NULL;
            ranks->step.pair_experts = NULL;
            ranks->step.own_picks = NULL;
        }
        device_arena_deinit(&(*executor)->arena);
        executor_free_records(*executor);
        free((*executor)->logits);
        free((*executor)->staging);
        free((*executor)->own_rows);
        free((*executor)->trace_piece);
        free((*executor)->scan);
        free(*executor);
        *executor = NULL;
    }
}

void executor_describe_table(const struct op_table *table, struct string_buffer *out) {
    for (int op = 0; op < OP_COUNT; op++) {
        for (int i = 0; i < OP_CANDIDATES_MAX && table->entries[op][i] != NULL; i++) {
            string_buffer_append_format(out, "%d:%s ", op, table->entries[op][i]->arithmetic);
        }
    }
}

void executor_describe_arithmetic(const struct executor *executor, struct string_buffer *out) {
    executor_describe_table(&executor->table, out);
}

size_t executor_step_bytes(const struct executor *executor) {
    return executor->arena.capacity;
}

static size_t boundary_bytes(const struct boundary *boundary) {
    size_t bytes = 0;
    for (int i = 0; i < boundary->count; i++) {
        bytes += tensor_bytes(&boundary->tensors[i]);
    }
    return bytes;
}

size_t executor_draft_bytes(const struct executor *executor) {
    return boundary_bytes(&executor->drafted[0]) + boundary_bytes(&executor->drafted[1]) +
           boundary_bytes(&executor->saved);
}
