/* Passes over the model: main layers, head, draft layer, and what stages hand on. */
#include "engine/batch_upload.h"
#include "engine/executor_internal.h"
#include "parallel/shard.h"

/* Rows of a boundary whose logits are wanted. */
struct head_pass {
    enum status (*forward)(const struct model *, const struct step *, const struct boundary *,
                           const int32_t *, struct tensor *);
    const struct boundary *boundary;
    const int32_t *rows; /* host [count]; NULL: row i */
    int32_t count;
    float *logits; /* host; NULL in a dry run */
};

struct step executor_make_step(struct executor *executor, const struct batch_view *batch) {
    const struct executor_ranks *ranks = executor->options.ranks;
    return (struct step){.queue = &executor->queue,
                         .batch = batch,
                         .states = executor->options.states->rows,
                         .activation = numerics_activation_dtype(executor->options.numerics),
                         .ranks = ranks == NULL ? NULL : &ranks->step};
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
        boundary = executor_slice_boundary(head->boundary, first, count);
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

enum status executor_wait_for_buffer(struct executor *executor, int buffer) {
    for (int i = 0; i < BOUNDARY_TENSORS_MAX; i++) {
        if (executor->sends[buffer][i].state != NULL) {
            TRY(comm_wait(executor->options.ranks->pipeline, &executor->sends[buffer][i]));
        }
    }
    return STATUS_OK;
}

/* The boundary of the stage before; nothing moves in a dry run. */
static enum status receive_boundary(struct executor *executor, const struct boundary *boundary) {
    const struct executor_ranks *ranks = executor->options.ranks;
    for (int i = 0; i < boundary->count && !executor->queue.is_dry; i++) {
        struct comm_request request;
        TRY(comm_start_receive(ranks->pipeline, executor->queue.stream, ranks->stage - 1,
                               boundary->tensors[i].data, tensor_bytes(&boundary->tensors[i]), &request));
        TRY(comm_wait(ranks->pipeline, &request));
    }
    return STATUS_OK;
}

/* Starts to send the boundary to the stage behind, which is not waited for (P-20). */
static enum status send_boundary(struct executor *executor, const struct boundary *boundary) {
    const struct executor_ranks *ranks = executor->options.ranks;
    for (int i = 0; i < boundary->count && !executor->queue.is_dry; i++) {
        TRY(comm_start_send(ranks->pipeline, executor->queue.stream, ranks->stage + 1,
                            boundary->tensors[i].data, tensor_bytes(&boundary->tensors[i]),
                            &executor->sends[executor->buffer][i]));
    }
    return STATUS_OK;
}

/* Logits go from the last stage's first rank to the leader, if these are two. */
enum status executor_pass_logits(struct executor *executor, int64_t rows, float *logits) {
    struct executor_ranks *ranks = executor->options.ranks;
    struct comm_request request = {NULL};
    if (ranks == NULL || ranks->stage_count == 1 || executor->queue.is_dry || rows == 0) {
        return STATUS_OK;
    }
    size_t bytes = (size_t)(rows * executor->options.model->vocabulary_size) * sizeof *logits;
    int source = executor_ranks_chooser(ranks);
    if (executor_is_leader(executor)) {
        TRY(comm_start_receive(ranks->control, executor->queue.stream, source, logits, bytes, &request));
    } else if (comm_rank(ranks->control) == source) {
        TRY(stream_synchronize(executor->queue.stream));
        TRY(comm_start_send(ranks->control, executor->queue.stream, 0, logits, bytes, &request));
    }
    return comm_wait(ranks->control, &request);
}

static enum status run_main_head(struct executor *executor, const struct step *step,
                                 const struct boundary *boundary, const struct pass *pass) {
    return run_head(executor, step,
                    &(struct head_pass){.forward = executor->options.model->family->forward_head,
                                        .boundary = boundary,
                                        .rows = pass->plan->logit_rows,
                                        .count = pass->plan->logit_row_count,
                                        .logits = pass->logits});
}

static enum status run_main_layers(struct executor *executor, const struct step *step,
                                   const struct pass *pass) {
    const struct model *model = executor->options.model;
    const struct executor_ranks *ranks = executor->options.ranks;
    struct boundary boundary =
        executor_slice_boundary(executor_boundary(executor), 0, step->batch->row_count);
    TRY(executor_is_on_first_stage(executor) ? model->family->forward_embed(model, step, &boundary)
                                             : receive_boundary(executor, &boundary));
    TRY(model->family->forward_layers(model, step, &boundary, ranks == NULL ? 0 : ranks->first_layer,
                                      ranks == NULL ? model->layer_count : ranks->end_layer));
    if (!executor_is_on_last_stage(executor)) {
        return send_boundary(executor, &boundary);
    }
    return run_main_head(executor, step, &boundary, pass);
}

/* What the rows of a draft pass go on from, with the rows that hold something. */
struct boundary executor_draft_source(const struct executor *executor, enum draft_source source) {
    switch (source) {
    case DRAFT_SOURCE_STEP:
        return executor_slice_boundary(executor_boundary(executor), 0, executor->step_rows);
    case DRAFT_SOURCE_DRAFT:
        return executor_slice_boundary(&executor->drafted[executor->last_drafted], 0, executor->drafted_rows);
    case DRAFT_SOURCE_SAVED:
        break;
    }
    return executor->saved;
}

static enum status run_draft_layer(struct executor *executor, const struct step *step,
                                   const struct pass *pass) {
    const struct model *model = executor->options.model;
    int64_t rows = step->batch->row_count;
    struct boundary in = executor_draft_source(executor, pass->draft->source);
    const int32_t *in_rows;
    TRY(upload_rows(executor, pass->draft->source_rows, rows, &in_rows));
    if (pass->draft->writes_state_only) {
        return model->family->forward_draft_state(model, step, &in, in_rows);
    }
    struct boundary out = executor_slice_boundary(&executor->drafted[1 - executor->last_drafted], 0, rows);
    TRY(model->family->forward_draft(model, step, &in, in_rows, &out));
    return run_head(executor, step,
                    &(struct head_pass){.forward = model->family->forward_draft_head,
                                        .boundary = &out,
                                        .count = (int32_t)rows,
                                        .logits = pass->logits});
}

/* Which layers the pass is for. */
static enum status run_part(struct executor *executor, const struct step *step, const struct pass *pass) {
    if (pass->is_head_only) {
        struct boundary boundary =
            executor_slice_boundary(executor_boundary(executor), 0, executor->step_rows);
        return run_main_head(executor, step, &boundary, pass);
    }
    return pass->draft != NULL ? run_draft_layer(executor, step, pass)
                               : run_main_layers(executor, step, pass);
}

static enum status run_model(struct executor *executor, const struct pass *pass) {
    struct batch_view batch;
    TRY(batch_upload(pass->plan, executor->staging, executor->queue.stream, &executor->arena, &batch));
    struct step step = executor_make_step(executor, &batch);
    TRY(run_part(executor, &step, pass));
    if (!executor->queue.is_dry) {
        TRY(stream_synchronize(executor->queue.stream));
    }
    return STATUS_OK;
}

/* A step gives its memory back whether it succeeded or not. */
enum status executor_run_pass(struct executor *executor, const struct pass *pass) {
    size_t mark = device_arena_mark(&executor->arena);
    enum status status = run_model(executor, pass);
    device_arena_release(&executor->arena, mark);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
