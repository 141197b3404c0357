/* The dry run that sizes everything, the steps, and the draft passes over what they leave. */
#include "engine/executor.h"

#include <math.h>
#include <stdlib.h>

#include "engine/batch_upload.h"
#include "parallel/shard.h"
#include "tensor/elements.h"

struct executor {
    struct executor_options options;
    struct op_table table;
    struct op_queue queue;
    struct device_arena arena; /* activations and workspace of a step */
    struct boundary boundary;  /* row_limit rows */
    int64_t step_rows;         /* of them, those of the last step; 0 if it failed */
    /* Without rows when drafting is off: */
    struct boundary drafted[2];    /* draft_row_limit rows: a draft pass reads one and writes the other */
    int last_drafted;              /* what the last pass with logits wrote, */
    int64_t drafted_rows;          /* and its rows */
    struct boundary saved;         /* saved_row_limit rows */
    void *record;                  /* a plan record, with ranks */
    size_t record_bytes;           /* its most */
    uint64_t record_number;        /* of the next record */
    struct step_segment *segments; /* of a record that came in */
    float *logits;                 /* of a rank of the last stage that is not the leader */
    int32_t *staging;              /* batch arrays */
    float *scan;                   /* one row of a boundary, to look for values that are not finite */
};

/* A pass over the model: main layers, or the draft layer over the boundary that a pass before left. */
struct pass {
    const struct step_plan *plan;
    const struct draft_plan *draft; /* NULL: main layers; its segments are the plan's */
    float *logits;                  /* host; NULL in a dry run, and where none are wanted */
};

/* Rows of a boundary whose logits are wanted. */
struct head_pass {
    enum status (*forward)(const struct model *, const struct step *, const struct boundary *,
                           const int32_t *, struct tensor *);
    const struct boundary *boundary;
    const int32_t *rows; /* host [count]; NULL: row i */
    int32_t count;
    float *logits; /* host; NULL in a dry run */
};

static struct step make_step(struct executor *executor, const struct batch_view *batch) {
    const struct executor_ranks *ranks = executor->options.ranks;
    return (struct step){.queue = &executor->queue,
                         .batch = batch,
                         .states = executor->options.states->rows,
                         .activation = numerics_activation_dtype(executor->options.numerics),
                         .ranks = ranks == NULL ? NULL : &ranks->step};
}

static bool is_leader(const struct executor *executor) {
    return executor->options.ranks == NULL || comm_rank(executor->options.ranks->control) == 0;
}

static bool is_on_first_stage(const struct executor *executor) {
    return executor->options.ranks == NULL || executor->options.ranks->stage == 0;
}

static bool is_on_last_stage(const struct executor *executor) {
    return executor->options.ranks == NULL ||
           executor->options.ranks->stage == executor->options.ranks->stage_count - 1;
}

/* Draft passes run on the last stage, where the draft layer is. */
static bool drafts(const struct executor *executor) {
    return executor->options.model->draft_limit > 0 && is_on_last_stage(executor);
}

static struct boundary slice_boundary(const struct boundary *boundary, int64_t first, int64_t count) {
    struct boundary view = *boundary;
    for (int i = 0; i < view.count; i++) {
        view.tensors[i] = tensor_slice(&view.tensors[i], first, count);
    }
    return view;
}

static enum status alloc_boundary(struct executor *executor, int64_t rows, struct boundary *out) {
    const struct model *model = executor->options.model;
    model->family->describe_boundary(model, numerics_activation_dtype(executor->options.numerics), rows, out);
    for (int i = 0; i < out->count; i++) {
        TRY(device_arena_alloc(&executor->arena, tensor_bytes(&out->tensors[i]), &out->tensors[i].data));
    }
    return STATUS_OK;
}

/* Rows of a draft pass with logits: one per segment, each of which was in a step. */
static int32_t draft_row_limit(const struct executor *executor) {
    const struct executor_options *options = &executor->options;
    return options->segment_limit < options->row_limit ? options->segment_limit : options->row_limit;
}

static enum status alloc_boundaries(struct executor *executor) {
    TRY(alloc_boundary(executor, executor->options.row_limit, &executor->boundary));
    if (drafts(executor)) {
        for (int i = 0; i < 2; i++) {
            TRY(alloc_boundary(executor, draft_row_limit(executor), &executor->drafted[i]));
        }
        if (executor->options.saved_row_limit > 0) {
            TRY(alloc_boundary(executor, executor->options.saved_row_limit, &executor->saved));
        }
    }
    return STATUS_OK;
}

/* Integers of the plan in device memory. */
static enum status upload_rows(struct executor *executor, const int32_t *rows, int64_t count,
                               const int32_t **out) {
    void *memory;
    TRY(device_arena_alloc(&executor->arena, (size_t)count * sizeof *rows, &memory));
    if (!executor->queue.is_dry) {
        TRY(stream_copy_to_device(executor->queue.stream, memory, rows, (size_t)count * sizeof *rows));
    }
    *out = memory;
    return STATUS_OK;
}

/* Logits of a block of rows that are complete on this rank, to the caller's memory. */
static enum status take_logits(struct executor *executor, const struct head_pass *head, int32_t first,
                               const struct tensor *block) {
    if (executor->queue.is_dry || head->logits == NULL) {
        return STATUS_OK;
    }
    return stream_copy_to_host(executor->queue.stream,
                               head->logits + (int64_t)first * executor->options.model->vocabulary_size,
                               block->data, tensor_bytes(block));
}

/* The same where ranks have computed parts of the vocabulary: all parts come together on each of them. */
static enum status take_parts(struct executor *executor, const struct head_pass *head, int32_t first,
                              const struct tensor *part) {
    const struct executor_ranks *ranks = executor->options.ranks;
    int64_t vocabulary = executor->options.model->vocabulary_size;
    int64_t rows = part->shape[0];
    int parts = comm_size(ranks->step.tensor);
    struct tensor packed; /* rank after rank (rows, part) */
    TRY(DEVICE_ARENA_TENSOR(&executor->arena, DTYPE_F32, &packed, rows, vocabulary));
    if (executor->queue.is_dry) {
        return STATUS_OK;
    }
    size_t *offsets = ranks->step.offsets;
    for (int r = 0; r <= parts; r++) {
        int64_t before = r == parts ? vocabulary : shard_cut_vocabulary(vocabulary, r, parts).first;
        offsets[r] = (size_t)(rows * before) * sizeof(float);
    }
    TRY(comm_gather(ranks->step.tensor, executor->queue.stream, part->data, offsets, packed.data));
    for (int r = 0; r < parts && head->logits != NULL; r++) {
        struct shard_range range = shard_cut_vocabulary(vocabulary, r, parts);
        for (int64_t row = 0; row < rows; row++) {
            const float *from = (const float *)packed.data + rows * range.first + row * range.count;
            TRY(stream_copy_to_host(executor->queue.stream,
                                    head->logits + (first + row) * vocabulary + range.first, from,
                                    (size_t)range.count * sizeof(float)));
        }
    }
    return STATUS_OK;
}

/* `count` of the wanted rows from `first`. */
static enum status run_head_block(struct executor *executor, const struct step *step,
                                  const struct head_pass *head, int32_t first, int32_t count) {
    const struct model *model = executor->options.model;
    const struct executor_ranks *ranks = executor->options.ranks;
    size_t mark = device_arena_mark(&executor->arena);
    struct boundary boundary = *head->boundary;
    const int32_t *rows = NULL;
    struct tensor out;
    if (head->rows == NULL) {
        boundary = slice_boundary(head->boundary, first, count);
    } else {
        TRY(upload_rows(executor, head->rows + first, count, &rows));
    }
    bool is_whole = ranks == NULL || comm_size(ranks->step.tensor) == 1;
    TRY(DEVICE_ARENA_TENSOR(&executor->arena, DTYPE_F32, &out, count,
                            is_whole ? model->vocabulary_size : ranks->vocabulary_part));
    TRY(head->forward(model, step, &boundary, rows, &out));
    TRY(is_whole ? take_logits(executor, head, first, &out) : take_parts(executor, head, first, &out));
    device_arena_release(&executor->arena, mark);
    return STATUS_OK;
}

static enum status run_head(struct executor *executor, const struct step *step,
                            const struct head_pass *head) {
    int32_t limit = executor->options.logit_row_limit;
    for (int32_t first = 0; first < head->count; first += limit) {
        TRY(run_head_block(executor, step, head, first,
                           head->count - first < limit ? head->count - first : limit));
    }
    return STATUS_OK;
}

/* Receives the boundary from the stage before, or sends it to the one behind; nothing moves in a dry run. */
static enum status pass_boundary(struct executor *executor, const struct boundary *boundary, bool sends) {
    struct executor_ranks *ranks = executor->options.ranks;
    struct stream *stream = executor->queue.stream;
    for (int i = 0; i < boundary->count && !executor->queue.is_dry; i++) {
        struct comm_request request;
        void *data = boundary->tensors[i].data;
        size_t bytes = tensor_bytes(&boundary->tensors[i]);
        TRY(sends ? comm_start_send(ranks->pipeline, stream, ranks->stage + 1, data, bytes, &request)
                  : comm_start_receive(ranks->pipeline, stream, ranks->stage - 1, data, bytes, &request));
        TRY(comm_wait(ranks->pipeline, &request));
    }
    return STATUS_OK;
}

/* Logits go from the last stage's first rank to the leader, if these are two. */
static enum status pass_logits(struct executor *executor, int64_t rows, float *logits) {
    struct executor_ranks *ranks = executor->options.ranks;
    struct comm_request request = {NULL};
    if (ranks == NULL || ranks->stage_count == 1 || executor->queue.is_dry || rows == 0) {
        return STATUS_OK;
    }
    size_t bytes = (size_t)(rows * executor->options.model->vocabulary_size) * sizeof *logits;
    int source = (ranks->stage_count - 1) * comm_size(ranks->step.tensor);
    if (is_leader(executor)) {
        TRY(comm_start_receive(ranks->control, executor->queue.stream, source, logits, bytes, &request));
    } else if (comm_rank(ranks->control) == source) {
        TRY(stream_synchronize(executor->queue.stream));
        TRY(comm_start_send(ranks->control, executor->queue.stream, 0, logits, bytes, &request));
    }
    return comm_wait(ranks->control, &request);
}

static enum status run_main_layers(struct executor *executor, const struct step *step,
                                   const struct pass *pass) {
    const struct model *model = executor->options.model;
    const struct executor_ranks *ranks = executor->options.ranks;
    struct boundary boundary = slice_boundary(&executor->boundary, 0, step->batch->row_count);
    TRY(is_on_first_stage(executor) ? model->family->forward_embed(model, step, &boundary)
                                    : pass_boundary(executor, &boundary, false));
    TRY(model->family->forward_layers(model, step, &boundary, ranks == NULL ? 0 : ranks->first_layer,
                                      ranks == NULL ? model->layer_count : ranks->end_layer));
    if (!is_on_last_stage(executor)) {
        return pass_boundary(executor, &boundary, true);
    }
    return run_head(executor, step,
                    &(struct head_pass){.forward = model->family->forward_head,
                                        .boundary = &boundary,
                                        .rows = pass->plan->logit_rows,
                                        .count = pass->plan->logit_row_count,
                                        .logits = pass->logits});
}

/* What the rows of a draft pass go on from, with the rows that hold something. */
static struct boundary draft_source(const struct executor *executor, enum draft_source source) {
    switch (source) {
    case DRAFT_SOURCE_STEP:
        return slice_boundary(&executor->boundary, 0, executor->step_rows);
    case DRAFT_SOURCE_DRAFT:
        return slice_boundary(&executor->drafted[executor->last_drafted], 0, executor->drafted_rows);
    case DRAFT_SOURCE_SAVED:
        break;
    }
    return executor->saved;
}

static enum status run_draft_layer(struct executor *executor, const struct step *step,
                                   const struct pass *pass) {
    const struct model *model = executor->options.model;
    int64_t rows = step->batch->row_count;
    struct boundary in = draft_source(executor, pass->draft->source);
    const int32_t *in_rows;
    TRY(upload_rows(executor, pass->draft->source_rows, rows, &in_rows));
    if (pass->draft->writes_state_only) {
        return model->family->forward_draft_state(model, step, &in, in_rows);
    }
    struct boundary out = slice_boundary(&executor->drafted[1 - executor->last_drafted], 0, rows);
    TRY(model->family->forward_draft(model, step, &in, in_rows, &out));
    return run_head(executor, step,
                    &(struct head_pass){.forward = model->family->forward_draft_head,
                                        .boundary = &out,
                                        .count = (int32_t)rows,
                                        .logits = pass->logits});
}

static enum status run_model(struct executor *executor, const struct pass *pass) {
    struct batch_view batch;
    TRY(batch_upload(pass->plan, executor->staging, executor->queue.stream, &executor->arena, &batch));
    struct step step = make_step(executor, &batch);
    TRY(pass->draft != NULL ? run_draft_layer(executor, &step, pass)
                            : run_main_layers(executor, &step, pass));
    if (!executor->queue.is_dry) {
        TRY(stream_synchronize(executor->queue.stream));
    }
    return STATUS_OK;
}

/* A step gives its memory back whether it succeeded or not. */
static enum status run_pass(struct executor *executor, const struct pass *pass) {
    size_t mark = device_arena_mark(&executor->arena);
    enum status status = run_model(executor, pass);
    device_arena_release(&executor->arena, mark);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

/* The largest draft passes there can be. */
static enum status plan_draft_memory(struct executor *executor) {
    struct step_segment segment = {.row_count = executor->options.row_limit};
    struct step_plan plan = {.segments = &segment, .segment_count = 1};
    struct draft_plan draft = {.segments = &segment, .segment_count = 1, .writes_state_only = true};
    executor->step_rows = executor->options.row_limit;
    TRY(run_pass(executor, &(struct pass){.plan = &plan, .draft = &draft}));
    segment.row_count = draft_row_limit(executor);
    draft.writes_state_only = false;
    TRY(run_pass(executor, &(struct pass){.plan = &plan, .draft = &draft}));
    executor->step_rows = 0;
    return STATUS_OK;
}

/* The largest step there can be, run without launching anything, gives the arena's size. */
static enum status plan_memory(struct executor *executor) {
    struct step_segment segments[1] = {{.row_count = executor->options.row_limit}};
    const int32_t logit_rows[1] = {0};
    struct step_plan plan = {.segments = segments, .segment_count = 1, .logit_rows = logit_rows};
    plan.logit_row_count = executor->options.logit_row_limit;
    executor->queue.is_dry = true;
    device_arena_init_planning(&executor->arena);
    TRY(alloc_boundaries(executor));
    /* Room for the segment arrays of every possible plan. */
    void *unused;
    TRY(device_arena_alloc(
        &executor->arena, batch_upload_count(0, executor->options.segment_limit) * sizeof(int32_t), &unused));
    TRY(run_pass(executor, &(struct pass){.plan = &plan}));
    if (drafts(executor)) {
        TRY(plan_draft_memory(executor));
    }
    executor->queue.is_dry = false;
    return STATUS_OK;
}

/* What a rank needs among others: a record, and where the logits that it sends to the leader lie. */
static enum status alloc_rank_memory(struct executor *executor) {
    struct executor_ranks *ranks = executor->options.ranks;
    size_t rows = (size_t)executor->options.row_limit;
    executor->record_bytes = plan_record_bytes_max(&ranks->bounds);
    executor->record = calloc(1, executor->record_bytes);
    executor->segments = calloc((size_t)ranks->bounds.segment_limit, sizeof *executor->segments);
    ranks->step.offsets = calloc((size_t)comm_size(ranks->step.tensor) + 1, sizeof *ranks->step.offsets);
    ranks->step.pair_experts =
        calloc(rows * (size_t)executor->options.model->expert_picks, sizeof *ranks->step.pair_experts);
    CHECK_MEMORY(executor->record);
    CHECK_MEMORY(executor->segments);
    CHECK_MEMORY(ranks->step.offsets);
    CHECK_MEMORY(ranks->step.pair_experts);
    if (!is_leader(executor) && is_on_last_stage(executor)) {
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
    TRY(alloc_boundaries(executor));
    size_t integers = batch_upload_count(executor->options.row_limit, executor->options.segment_limit);
    executor->staging = calloc(integers, sizeof *executor->staging);
    CHECK_MEMORY(executor->staging);
    executor->scan =
        calloc((size_t)tensor_row_elements(&executor->boundary.tensors[0]), sizeof *executor->scan);
    CHECK_MEMORY(executor->scan);
    return executor->options.ranks == NULL ? STATUS_OK : alloc_rank_memory(executor);
}

enum status executor_create(const struct executor_options *options, struct executor **out) {
    enum status status = STATUS_OK;
    struct executor *executor = calloc(1, sizeof *executor);
    CHECK_MEMORY(executor);
    executor->options = *options;
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

void executor_destroy(struct executor **executor) {
    if (*executor != NULL) {
        struct executor_ranks *ranks = (*executor)->options.ranks;
        if (ranks != NULL) {
            free(ranks->step.offsets);
            free(ranks->step.pair_experts);
            ranks->step.offsets = NULL;
            ranks->step.pair_experts = NULL;
        }
        device_arena_deinit(&(*executor)->arena);
        free((*executor)->record);
        free((*executor)->segments);
        free((*executor)->logits);
        free((*executor)->staging);
        free((*executor)->scan);
        free(*executor);
        *executor = NULL;
    }
}

void executor_describe_arithmetic(const struct executor *executor, struct string_buffer *out) {
    for (int op = 0; op < OP_COUNT; op++) {
        for (int i = 0; i < OP_CANDIDATES_MAX && executor->table.entries[op][i] != NULL; i++) {
            string_buffer_append_format(out, "%d:%s ", op, executor->table.entries[op][i]->arithmetic);
        }
    }
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

static int64_t first_not_finite(const float *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            return i;
        }
    }
    return -1;
}

/* Position of the row `row` of a plan. */
static int64_t position_of_row(const struct step_plan *plan, int64_t row) {
    int32_t s = 0;
    while (row >= plan->segments[s].row_count) {
        row -= plan->segments[s].row_count;
        s++;
    }
    return plan->segments[s].first_position + row;
}

/* The first row of the streams with a value that is not finite, -1 if there is none. */
static enum status scan_boundary(struct executor *executor, int64_t rows, int64_t *out) {
    struct tensor streams = executor->boundary.tensors[0];
    int64_t width = tensor_row_elements(&streams);
    size_t bytes = (size_t)width * dtype_bytes(streams.dtype);
    *out = -1;
    for (int64_t row = 0; row < rows && *out < 0; row++) {
        TRY(stream_copy_to_host(executor->queue.stream, executor->scan,
                                (char *)streams.data + (size_t)row * bytes, bytes));
        TRY(stream_synchronize(executor->queue.stream));
        /* In place and from the back: floats are wider than what they are read from. */
        for (int64_t i = width - 1; i >= 0; i--) {
            float value;
            elements_decode(streams.dtype, (char *)executor->scan + (size_t)i * dtype_bytes(streams.dtype), 1,
                            &value);
            executor->scan[i] = value;
        }
        *out = first_not_finite(executor->scan, width) >= 0 ? row : -1;
    }
    return STATUS_OK;
}

/* Runs the step once more, layer by layer, to say where a value first went wrong. */
static enum status explain_not_finite(struct executor *executor, const struct step_plan *plan) {
    const struct model *model = executor->options.model;
    struct batch_view batch;
    TRY(batch_upload(plan, executor->staging, executor->queue.stream, &executor->arena, &batch));
    struct step step = make_step(executor, &batch);
    struct boundary boundary = slice_boundary(&executor->boundary, 0, batch.row_count);
    int64_t row;
    TRY(model->family->forward_embed(model, &step, &boundary));
    TRY(scan_boundary(executor, batch.row_count, &row));
    CHECK(row < 0, STATUS_NOT_FINITE,
          "the embedding of the token at position %lld holds a value that is not finite",
          (long long)position_of_row(plan, row));
    for (int layer = 0; layer < model->layer_count; layer++) {
        TRY(model->family->forward_layers(model, &step, &boundary, layer, layer + 1));
        TRY(scan_boundary(executor, batch.row_count, &row));
        CHECK(row < 0, STATUS_NOT_FINITE,
              "layer %d gave a value that is not finite at position %lld: check the files with `sluice "
              "inspect --verify`",
              layer, (long long)position_of_row(plan, row));
    }
    FAIL(STATUS_NOT_FINITE, "the output head gave a logit that is not finite");
}

static enum status check_plan(const struct executor *executor, const struct step_plan *plan) {
    int64_t rows = step_plan_row_count(plan);
    CHECK(rows >= 1, STATUS_INTERNAL, "a step without rows was planned");
    CHECK(rows <= executor->options.row_limit && plan->segment_count <= executor->options.segment_limit,
          STATUS_INTERNAL, "a step of %lld rows in %d segments exceeds the planned %d rows in %d segments",
          (long long)rows, plan->segment_count, executor->options.row_limit, executor->options.segment_limit);
    return STATUS_OK;
}

static enum status run_slot_operation(struct executor *executor,
                                      const struct step_slot_operation *operation) {
    struct state_pool *states = executor->options.states;
    switch (operation->action) {
    case STEP_SLOT_COPY:
        return state_pool_copy_slot(states, executor->queue.stream, operation->from, operation->to);
    case STEP_SLOT_SAVE_ROW:
        return drafts(executor) ? executor_save_row(executor, operation->from,
                                                    operation->to - states->options.sequence_slot_count)
                                : STATUS_OK;
    case STEP_SLOT_CLEAR_DRAFT:
        return state_pool_clear_draft_rings(states, executor->queue.stream, operation->to);
    }
    FAIL(STATUS_INTERNAL, "slot operation %d is unknown", (int)operation->action);
}

static enum status change_state(struct executor *executor, const struct step_plan *plan) {
    TRY(state_pool_update_pages(executor->options.states, executor->queue.stream, plan->page_updates,
                                plan->page_update_count));
    for (int32_t i = 0; i < plan->slot_operation_count; i++) {
        TRY(run_slot_operation(executor, &plan->slot_operations[i]));
    }
    return STATUS_OK;
}

static enum status run_step(struct executor *executor, const struct step_plan *plan, float *logits) {
    TRY(change_state(executor, plan));
    executor->step_rows = 0;
    TRY(run_pass(executor, &(struct pass){.plan = plan, .logits = logits}));
    TRY(pass_logits(executor, plan->logit_row_count, logits));
    executor->step_rows = step_plan_row_count(plan);
    return STATUS_OK;
}

static enum status run_draft(struct executor *executor, const struct draft_plan *plan, float *logits) {
    struct step_plan batch = {.segments = plan->segments, .segment_count = plan->segment_count};
    int64_t rows = step_plan_row_count(&batch);
    if (drafts(executor)) {
        TRY(run_pass(executor, &(struct pass){.plan = &batch, .draft = plan, .logits = logits}));
        if (!plan->writes_state_only) {
            executor->last_drafted = 1 - executor->last_drafted;
            executor->drafted_rows = rows;
        }
    }
    return pass_logits(executor, plan->writes_state_only ? 0 : rows, logits);
}

/* Makes the other ranks do the same. */
static enum status lead(struct executor *executor, enum plan_kind kind, const struct step_plan *step,
                        const struct draft_plan *draft) {
    struct executor_ranks *ranks = executor->options.ranks;
    if (ranks == NULL) {
        return STATUS_OK;
    }
    uint64_t bytes = plan_record_write(kind, executor->record_number, step, draft, executor->record);
    TRY(comm_broadcast_host(ranks->control, 0, &bytes, sizeof bytes));
    TRY(comm_broadcast_host(ranks->control, 0, executor->record, bytes));
    executor->record_number++;
    return STATUS_OK;
}

/* All ranks learn whether one has failed. */
static enum status settle(struct executor *executor, enum status status) {
    if (executor->options.ranks == NULL) {
        return status;
    }
    enum status worst = comm_agree(executor->options.ranks->control, status);
    CHECK(status != STATUS_OK || worst == STATUS_OK, worst, "another rank failed in this step: %s",
          status_text(worst));
    return worst;
}

enum status executor_change_state(struct executor *executor, const struct step_plan *plan) {
    TRY(lead(executor, PLAN_KIND_CHANGE_STATE, plan, NULL));
    return settle(executor, change_state(executor, plan));
}

enum status executor_run(struct executor *executor, const struct step_plan *plan, float *logits) {
    TRY(check_plan(executor, plan));
    TRY(lead(executor, PLAN_KIND_STEP, plan, NULL));
    return settle(executor, run_step(executor, plan, logits));
}

enum status executor_end_followers(struct executor *executor) {
    return lead(executor, PLAN_KIND_END, NULL, NULL);
}

/* Receives the next record. */
static enum status receive(struct executor *executor, struct plan_record *record) {
    struct executor_ranks *ranks = executor->options.ranks;
    uint64_t bytes = 0;
    TRY(comm_broadcast_host(ranks->control, 0, &bytes, sizeof bytes));
    CHECK(bytes <= executor->record_bytes, STATUS_INTERNAL, "a plan of %llu bytes came in, at most %zu fit",
          (unsigned long long)bytes, executor->record_bytes);
    TRY(comm_broadcast_host(ranks->control, 0, executor->record, bytes));
    return plan_record_read(executor->record, bytes, executor->record_number++, &ranks->bounds,
                            executor->segments, record);
}

static enum status obey(struct executor *executor, const struct plan_record *record) {
    switch (record->kind) {
    case PLAN_KIND_STEP:
        return run_step(executor, &record->step, executor->logits);
    case PLAN_KIND_DRAFT:
        return run_draft(executor, &record->draft, executor->logits);
    case PLAN_KIND_CHANGE_STATE:
        return change_state(executor, &record->step);
    case PLAN_KIND_END:
        break;
    }
    return STATUS_OK;
}

enum status executor_follow(struct executor *executor) {
    struct plan_record record = {.kind = PLAN_KIND_STEP};
    while (record.kind != PLAN_KIND_END) {
        TRY(receive(executor, &record));
        if (record.kind != PLAN_KIND_END) {
            TRY(settle(executor, obey(executor, &record)));
        }
    }
    return STATUS_OK;
}

enum status executor_explain_not_finite(struct executor *executor, const struct step_plan *plan) {
    CHECK(
        executor->options.ranks == NULL, STATUS_NOT_FINITE,
        "a logit is not finite: run the same on one rank to learn the layer, or check the files with `sluice "
        "inspect --verify`");
    size_t mark = device_arena_mark(&executor->arena);
    executor->step_rows = 0;
    enum status status = explain_not_finite(executor, plan);
    device_arena_release(&executor->arena, mark);
    return error_forward(status, ERROR_HERE);
}

enum status executor_check_logits(struct executor *executor, const struct step_plan *plan,
                                  const float *logits) {
    int64_t count = plan->logit_row_count * executor->options.model->vocabulary_size;
    return first_not_finite(logits, count) < 0 ? STATUS_OK : executor_explain_not_finite(executor, plan);
}

static enum status check_draft_plan(const struct executor *executor, const struct draft_plan *plan,
                                    int64_t rows) {
    static const char *const names[] = {[DRAFT_SOURCE_STEP] = "the last step",
                                        [DRAFT_SOURCE_DRAFT] = "the last draft pass",
                                        [DRAFT_SOURCE_SAVED] = "the saved rows"};
    CHECK(executor->options.model->draft_limit > 0, STATUS_INTERNAL, "drafting is off");
    CHECK(plan->writes_state_only || rows <= draft_row_limit(executor), STATUS_INTERNAL,
          "a draft pass of %lld rows exceeds the planned %d", (long long)rows, draft_row_limit(executor));
    if (!drafts(executor)) {
        return STATUS_OK; /* the last stage's rows are not known here */
    }
    struct boundary source = draft_source(executor, plan->source);
    for (int64_t i = 0; i < rows; i++) {
        CHECK(plan->source_rows[i] >= 0 && plan->source_rows[i] < source.tensors[0].shape[0], STATUS_INTERNAL,
              "row %lld of a draft pass goes on from row %d of %s, which has %lld rows", (long long)i,
              plan->source_rows[i], names[plan->source], (long long)source.tensors[0].shape[0]);
    }
    return STATUS_OK;
}

enum status executor_run_draft(struct executor *executor, const struct draft_plan *plan, float *logits) {
    struct step_plan batch = {.segments = plan->segments, .segment_count = plan->segment_count};
    int64_t rows = step_plan_row_count(&batch);
    TRY(check_plan(executor, &batch));
    TRY(check_draft_plan(executor, plan, rows));
    TRY(lead(executor, PLAN_KIND_DRAFT, NULL, plan));
    TRY(settle(executor, run_draft(executor, plan, logits)));
    int64_t count = plan->writes_state_only ? 0 : rows * executor->options.model->vocabulary_size;
    CHECK(first_not_finite(logits, count) < 0, STATUS_NOT_FINITE,
          "the MTP layer gave a logit that is not finite: check the files with `sluice inspect --verify`");
    return STATUS_OK;
}

static size_t row_bytes(const struct tensor *tensor) {
    return (size_t)tensor_row_elements(tensor) * dtype_bytes(tensor->dtype);
}

static char *row_at(const struct tensor *tensor, int32_t row) {
    return (char *)tensor->data + (size_t)row * row_bytes(tensor);
}

static enum status check_saved_row(const struct executor *executor, int32_t row) {
    CHECK(row >= 0 && row < executor->saved.tensors[0].shape[0], STATUS_INTERNAL,
          "saved row %d of %lld was asked for", row, (long long)executor->saved.tensors[0].shape[0]);
    return STATUS_OK;
}

enum status executor_save_row(struct executor *executor, int32_t step_row, int32_t saved_row) {
    TRY(check_saved_row(executor, saved_row));
    CHECK(step_row >= 0 && step_row < executor->step_rows, STATUS_INTERNAL,
          "row %d of the last step was to be saved, which has %lld rows", step_row,
          (long long)executor->step_rows);
    for (int i = 0; i < executor->saved.count; i++) {
        const struct tensor *to = &executor->saved.tensors[i];
        TRY(stream_copy_within(executor->queue.stream, row_at(to, saved_row),
                               row_at(&executor->boundary.tensors[i], step_row), row_bytes(to)));
    }
    return STATUS_OK;
}

size_t executor_saved_row_bytes(const struct executor *executor) {
    size_t bytes = 0;
    for (int i = 0; i < executor->saved.count; i++) {
        bytes += row_bytes(&executor->saved.tensors[i]);
    }
    return bytes;
}

enum status executor_read_saved_row(struct executor *executor, int32_t saved_row, void *bytes) {
    char *to = bytes;
    TRY(check_saved_row(executor, saved_row));
    for (int i = 0; i < executor->saved.count; i++) {
        const struct tensor *from = &executor->saved.tensors[i];
        TRY(stream_copy_to_host(executor->queue.stream, to, row_at(from, saved_row), row_bytes(from)));
        to += row_bytes(from);
    }
    return stream_synchronize(executor->queue.stream);
}

enum status executor_write_saved_row(struct executor *executor, int32_t saved_row, const void *bytes) {
    const char *from = bytes;
    TRY(check_saved_row(executor, saved_row));
    for (int i = 0; i < executor->saved.count; i++) {
        const struct tensor *to = &executor->saved.tensors[i];
        TRY(stream_copy_to_device(executor->queue.stream, row_at(to, saved_row), from, row_bytes(to)));
        from += row_bytes(to);
    }
    return stream_synchronize(executor->queue.stream);
}
