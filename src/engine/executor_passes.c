/* Passes over the model: main layers, head, draft layer, and what stages hand on. */
#include "base/clock.h"
#include "engine/batch_upload.h"
#include "engine/executor_balance.h"
#include "engine/executor_internal.h"
#include "engine/executor_shares.h"

/* Rows of a boundary whose logits are wanted. */
struct head_pass {
    enum status (*forward)(const struct model *, const struct step *, const struct boundary *,
                           const struct picked_rows *, struct tensor *);
    const struct boundary *boundary; /* the rows of it that are here */
    const int32_t *rows;             /* host [count], ascending, counted over all ranks; NULL: row i */
    int32_t count;
    float *logits; /* host; NULL in a dry run */
};

struct step executor_make_step(struct executor *executor, const struct batch_view *batch,
                               const struct row_deal *deal) {
    const struct executor_ranks *ranks = executor->options.ranks;
    const struct row_shares *shares = deal->is_shared ? &deal->shares : NULL;
    return (struct step){.queue = &executor->queue,
                         .batch = batch,
                         .states = executor->options.states->rows,
                         .activation = numerics_activation_dtype(executor->options.numerics),
                         .ranks = ranks == NULL ? NULL : &ranks->step,
                         .shares = shares,
                         .expert_shares =
                             executor_shares_experts(executor) ? &executor->expert_shares : shares};
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

/* Number `index` of the wanted rows; a dry run has no list. */
static int64_t wanted_row(const struct executor *executor, const struct head_pass *head, int64_t index) {
    return head->rows == NULL || executor->queue.is_dry ? index : head->rows[index];
}

/* Of `count` wanted rows from number `first`, those that each rank has. */
static enum status share_wanted(const struct executor *executor, const struct step *step,
                                const struct head_pass *head, int32_t first, int32_t count,
                                struct row_shares *out) {
    int rank = 0;
    *out = (struct row_shares){.first = {0}};
    for (int32_t i = 0; i < count; i++) {
        int64_t row = wanted_row(executor, head, first + i);
        CHECK(i == 0 || row > wanted_row(executor, head, first + i - 1), STATUS_INTERNAL,
              "logits of row %lld were asked for behind those of a later row", (long long)row);
        for (; rank < row_shares_owner(step->shares, step->ranks->count, row); rank++) {
            out->first[rank + 1] = i;
        }
    }
    for (; rank < step->ranks->count; rank++) {
        out->first[rank + 1] = count;
    }
    return STATUS_OK;
}

/* The wanted rows that this rank has: in `boundary`, by index or one behind the other. */
static enum status pick_shared(struct executor *executor, const struct step *step,
                               const struct head_pass *head, int32_t first, int32_t count,
                               struct boundary *boundary, struct row_shares *shares,
                               struct picked_rows *out) {
    int rank = executor->queue.is_dry ? 0 : step->ranks->rank;
    TRY(share_wanted(executor, step, head, first, count, shares));
    int64_t own_first = first + shares->first[rank];
    int64_t begin = step->shares->first[rank];
    *out = (struct picked_rows){
        .own_count = shares->first[rank + 1] - shares->first[rank], .count = count, .shares = shares};
    if (head->rows == NULL) {
        *boundary = executor_slice_boundary(head->boundary, out->own_count == 0 ? 0 : own_first - begin,
                                            out->own_count);
        return STATUS_OK;
    }
    for (int64_t i = 0; i < out->own_count && !executor->queue.is_dry; i++) {
        executor->own_rows[i] = (int32_t)(head->rows[own_first + i] - begin);
    }
    return upload_rows(executor, executor->own_rows, out->own_count, &out->rows);
}

static enum status pick_rows(struct executor *executor, const struct step *step, const struct head_pass *head,
                             int32_t first, int32_t count, struct boundary *boundary,
                             struct row_shares *shares, struct picked_rows *out) {
    *boundary = *head->boundary;
    *out = (struct picked_rows){.own_count = count, .count = count};
    if (step->shares != NULL) {
        return pick_shared(executor, step, head, first, count, boundary, shares, out);
    }
    if (head->rows == NULL) {
        *boundary = executor_slice_boundary(head->boundary, first, count);
        return STATUS_OK;
    }
    return upload_rows(executor, head->rows + first, count, &out->rows);
}

/* `count` of the wanted rows from `first`. */
static enum status run_head_block(struct executor *executor, const struct step *step,
                                  const struct head_pass *head, int32_t first, int32_t count) {
    const struct model *model = executor->options.model;
    const struct executor_ranks *ranks = executor->options.ranks;
    size_t mark = device_arena_mark(&executor->arena);
    struct boundary boundary;
    struct row_shares shares;
    struct picked_rows picked;
    struct tensor out;
    TRY(pick_rows(executor, step, head, first, count, &boundary, &shares, &picked));
    bool is_whole = ranks == NULL || comm_size(ranks->step.tensor) == 1;
    TRY(DEVICE_ARENA_TENSOR(&executor->arena, DTYPE_F32, &out, count,
                            is_whole ? model->vocabulary_size : ranks->vocabulary_part));
    TRY(head->forward(model, step, &boundary, &picked, &out));
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

/* What this stage computes, once the boundary of the one before is there. */
static enum status run_own_layers(struct executor *executor, const struct step *step,
                                  struct boundary *boundary, const struct pass *pass) {
    const struct model *model = executor->options.model;
    if (executor_is_on_first_stage(executor)) {
        TRY(model->family->forward_embed(model, step, boundary));
    }
    TRY(model->family->forward_layers(model, step, boundary, executor->first_layer, executor->end_layer));
    return executor_is_on_last_stage(executor) ? run_main_head(executor, step, boundary, pass) : STATUS_OK;
}

static enum status run_main_layers(struct executor *executor, const struct batch_view *batch,
                                   const struct pass *pass) {
    struct executor_ranks *ranks = executor->options.ranks;
    if (ranks != NULL && !executor->queue.is_dry) {
        TRY(executor_balance_begin_step(ranks, executor->options.model));
    }
    executor->step_deal = executor_deal_step(executor, batch->row_count);
    TRY(executor_share_experts(executor, batch->row_count, executor->options.row_limit,
                               &executor->step_deal));
    struct step step = executor_make_step(executor, batch, &executor->step_deal);
    struct boundary boundary =
        executor_own_boundary(executor, executor_boundary(executor), batch->row_count, &executor->step_deal);
    if (!executor_is_on_first_stage(executor)) {
        double began = clock_seconds();
        TRY(executor_receive_boundary(executor, &boundary));
        rank_meter_add_wait(&executor->meter, began);
        tick_trace_add(executor_trace(executor), TRACE_RECEIVE, began);
    }
    double began = tick_trace_now(executor_trace(executor));
    TRY(run_own_layers(executor, &step, &boundary, pass));
    tick_trace_add(executor_trace(executor), TRACE_STEP, began);
    if (executor_is_on_last_stage(executor)) {
        return STATUS_OK;
    }
    began = clock_seconds();
    TRY(executor_send_boundary(executor, &boundary));
    rank_meter_add_send(&executor->meter, began);
    tick_trace_add(executor_trace(executor), TRACE_SEND, began);
    return STATUS_OK;
}

void executor_find_origin(const struct executor *executor, enum draft_source source,
                          struct draft_origin *out) {
    int last = executor->last_drafted;
    switch (source) {
    case DRAFT_SOURCE_STEP:
        *out = (struct draft_origin){.rows = executor->step_rows, .deal = executor->step_deal};
        out->boundary =
            executor_own_boundary(executor, executor_boundary(executor), out->rows, &executor->step_deal);
        break;
    case DRAFT_SOURCE_DRAFT:
        *out = (struct draft_origin){.rows = executor->drafted_rows, .deal = executor->drafted_deal[last]};
        out->boundary = executor_own_boundary(executor, &executor->drafted[last], out->rows,
                                              &executor->drafted_deal[last]);
        break;
    case DRAFT_SOURCE_SAVED:
        *out = (struct draft_origin){.boundary = executor->saved, .rows = executor->options.saved_row_limit};
        break;
    }
}

/* The source rows of the rows that this rank has, counted as `origin`'s boundary counts them. */
static enum status upload_source_rows(struct executor *executor, const struct draft_plan *plan,
                                      const struct draft_origin *origin, struct shard_range own,
                                      const int32_t **out) {
    if (!origin->deal.is_shared) {
        return upload_rows(executor, plan->source_rows, own.count, out);
    }
    for (int64_t i = 0; i < own.count && !executor->queue.is_dry; i++) {
        executor->own_rows[i] = (int32_t)(plan->source_rows[own.first + i] -
                                          origin->deal.shares.first[executor->options.ranks->step.rank]);
    }
    return upload_rows(executor, executor->own_rows, own.count, out);
}

static enum status run_draft_layer(struct executor *executor, const struct batch_view *batch,
                                   const struct pass *pass) {
    const struct model *model = executor->options.model;
    const struct draft_plan *plan = pass->draft;
    int next = 1 - executor->last_drafted;
    int64_t rows = batch->row_count;
    struct row_deal state_deal;
    struct row_deal *deal = plan->writes_state_only ? &state_deal : &executor->drafted_deal[next];
    struct draft_origin origin;
    const int32_t *in_rows;
    executor_find_origin(executor, plan->source, &origin);
    TRY(executor_deal_sources(executor, &origin.deal, plan->source_rows, rows, deal));
    TRY(upload_source_rows(executor, plan, &origin, executor_own_range(executor, rows, deal), &in_rows));
    if (plan->writes_state_only) {
        struct step state_step = executor_make_step(executor, batch, deal);
        return model->family->forward_draft_state(model, &state_step, &origin.boundary, in_rows);
    }
    TRY(executor_share_experts(executor, rows, executor_draft_row_limit(executor), deal));
    struct step step = executor_make_step(executor, batch, deal);
    struct boundary out = executor_own_boundary(executor, &executor->drafted[next], rows, deal);
    TRY(model->family->forward_draft(model, &step, &origin.boundary, in_rows, &out));
    return run_head(executor, &step,
                    &(struct head_pass){.forward = model->family->forward_draft_head,
                                        .boundary = &out,
                                        .count = (int32_t)rows,
                                        .logits = pass->logits});
}

/* Which layers the pass is for. */
static enum status run_part(struct executor *executor, const struct batch_view *batch,
                            const struct pass *pass) {
    if (pass->is_head_only) {
        struct step step = executor_make_step(executor, batch, &executor->step_deal);
        struct boundary boundary = executor_own_boundary(executor, executor_boundary(executor),
                                                         executor->step_rows, &executor->step_deal);
        return run_main_head(executor, &step, &boundary, pass);
    }
    return pass->draft != NULL ? run_draft_layer(executor, batch, pass)
                               : run_main_layers(executor, batch, pass);
}

static enum status run_model(struct executor *executor, const struct pass *pass) {
    struct batch_view batch;
    TRY(batch_upload(pass->plan, executor->staging, executor->queue.stream, &executor->arena, &batch));
    TRY(run_part(executor, &batch, pass));
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
