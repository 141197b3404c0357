/*
 * The parts run in an arena that only counts, each by itself: stages combine them. Where ranks share rows,
 * small steps are not shared, and may take more on a rank than large ones that are.
 */
#include "tools/plan_step.h"

#include <stdlib.h>

#include "backends/backend_registry.h"
#include "base/worker_pool.h"
#include "engine/batch_upload.h"
#include "engine/state_pool.h"
#include "parallel/expert_balance.h"
#include "tools/plan_sharing.h"
#include "weights/tensor_part.h"

enum { LOGIT_ROWS_AT_ONCE = 16 };

struct dry_run {
    const struct model *model;
    const struct plan_request *request;
    struct op_table table;
    struct device_arena arena;
    struct op_queue queue;
    struct state_pool states;
    struct step_ranks ranks; /* of a tensor group, and of an expert group */
};

/* Rows of one pass. */
struct dry_rows {
    int64_t count;
    bool is_shared;
    int64_t own; /* of the first rank */
};

/* `boundaries`: what a part works on, and what a draft pass writes; own rows. */
typedef enum status (*part_runner)(const struct dry_run *run, const struct step *step,
                                   struct boundary *boundaries);

static enum status alloc_boundary(struct dry_run *run, int64_t rows, struct boundary *out) {
    run->model->family->describe_boundary(run->model, numerics_activation_dtype(run->request->numerics), rows,
                                          out);
    for (int i = 0; i < out->count; i++) {
        TRY(device_arena_alloc(&run->arena, tensor_bytes(&out->tensors[i]), &out->tensors[i].data));
    }
    return STATUS_OK;
}

static enum status run_embedding(const struct dry_run *run, const struct step *step,
                                 struct boundary *boundary) {
    return run->model->family->forward_embed(run->model, step, boundary);
}

static enum status run_layers(const struct dry_run *run, const struct step *step, struct boundary *boundary) {
    return run->model->family->forward_layers(run->model, step, boundary, 0, run->model->layer_count);
}

/* Logits of the columns that a rank has, and of all columns where these come together. */
static enum status alloc_logits(const struct dry_run *run, int64_t count, struct tensor *logits) {
    int ranks = run->ranks.count;
    int64_t own = shard_cut_vocabulary(run->model->vocabulary_size, 0, ranks).count;
    return DEVICE_ARENA_TENSOR(run->queue.arena, DTYPE_F32, logits, count,
                               ranks == 1 ? run->model->vocabulary_size : own);
}

static enum status run_logits(const struct dry_run *run, const struct step *step,
                              const struct boundary *boundary, int64_t rows, bool is_draft) {
    const struct model_family *family = run->model->family;
    int64_t count = rows < LOGIT_ROWS_AT_ONCE ? rows : LOGIT_ROWS_AT_ONCE;
    int64_t own = boundary->tensors[0].shape[0] < count ? boundary->tensors[0].shape[0] : count;
    struct boundary source = *boundary;
    void *indices = NULL;
    struct tensor logits;
    struct tensor all_columns;
    struct picked_rows picked = {.own_count = own, .count = count, .shares = step->shares};
    for (int i = 0; i < source.count && is_draft; i++) {
        source.tensors[i] = tensor_slice(&source.tensors[i], 0, own);
    }
    if (!is_draft) {
        TRY(device_arena_alloc(step->queue->arena, (size_t)own * sizeof(int32_t), &indices));
    }
    picked.rows = indices;
    TRY(alloc_logits(run, count, &logits));
    TRY(is_draft ? family->forward_draft_head(run->model, step, &source, &picked, &logits)
                 : family->forward_head(run->model, step, &source, &picked, &logits));
    return run->ranks.count == 1 ? STATUS_OK
                                 : DEVICE_ARENA_TENSOR(run->queue.arena, DTYPE_F32, &all_columns, count,
                                                       run->model->vocabulary_size);
}

static enum status run_head(const struct dry_run *run, const struct step *step, struct boundary *boundary) {
    return run_logits(run, step, boundary, step->batch->row_count, false);
}

/* A pass over all rows that writes state only. */
static enum status run_draft_state(const struct dry_run *run, const struct step *step,
                                   struct boundary *boundary) {
    void *rows;
    int64_t own = parallel_own_range(step).count;
    TRY(device_arena_alloc(step->queue->arena, (size_t)own * sizeof(int32_t), &rows));
    return run->model->family->forward_draft_state(run->model, step, boundary, rows);
}

/* A pass with logits, one row per segment. */
static enum status run_draft(const struct dry_run *run, const struct step *step, struct boundary *boundary) {
    void *rows;
    int64_t own = parallel_own_range(step).count;
    TRY(device_arena_alloc(step->queue->arena, (size_t)own * sizeof(int32_t), &rows));
    TRY(run->model->family->forward_draft(run->model, step, boundary, rows, &boundary[1]));
    return run_logits(run, step, &boundary[1], step->batch->row_count, true);
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static int64_t draft_rows(const struct plan_request *request) {
    return request->sequence_limit < request->step_tokens ? request->sequence_limit : request->step_tokens;
}

/* Whatever a rank's own rows: those of other replicas may be as many as a pass can have. */
static int64_t rows_at_experts(const struct dry_run *run, bool is_draft) {
    return run->request->mesh.data * (is_draft ? draft_rows(run->request) : run->request->step_tokens);
}

/* The most that a part takes at once for such rows, if it is more than `out`. */
static enum status measure(struct dry_run *run, part_runner part, struct dry_rows rows, uint64_t *out) {
    const struct step_segment segment = {.row_count = (int32_t)rows.count};
    const struct step_plan plan = {.segments = &segment, .segment_count = 1};
    struct row_shares shares = {.first = {0, rows.own}};
    struct row_shares expert_shares = {
        .first = {0, rows.is_shared ? rows.own : shard_cut_rows(rows.count, 0, run->ranks.count).count}};
    shares.first[run->ranks.count] = rows.count;
    expert_shares.first[run->ranks.expert_rank_count] = rows_at_experts(run, part == run_draft);
    struct batch_view batch;
    struct boundary boundaries[2];
    device_arena_init_planning(&run->arena);
    for (int i = 0; i < 2; i++) {
        TRY(alloc_boundary(run, rows.own, &boundaries[i]));
        boundaries[i].layout = rows.is_shared ? ROWS_SHARD : ROWS_FULL;
        boundaries[i].shares = rows.is_shared ? &shares : NULL;
    }
    size_t boundary_bytes = device_arena_mark(&run->arena);
    TRY(batch_upload(&plan, NULL, NULL, &run->arena, &batch));
    struct step step = {.queue = &run->queue,
                        .batch = &batch,
                        .states = run->states.rows,
                        .activation = numerics_activation_dtype(run->request->numerics),
                        .ranks = run->ranks.expert_rank_count == 1 ? NULL : &run->ranks,
                        .shares = boundaries[0].shares,
                        .expert_shares = boundaries[0].shares};
    if (run->ranks.expert_rank_count > run->ranks.count) {
        step.expert_shares = &expert_shares;
    }
    TRY(part(run, &step, boundaries));
    *out = larger(*out, run->arena.high_water - boundary_bytes);
    return STATUS_OK;
}

static struct dry_rows unshared(int64_t count) {
    return (struct dry_rows){.count = count, .own = count};
}

/* Rows of a pass that goes on from those of the largest step, of which ranks may have a share each. */
static struct dry_rows rows_of(const struct dry_run *run, int64_t count) {
    struct dry_rows rows = unshared(count);
    int64_t limit = run->request->step_tokens;
    if (plan_shares_rows(run->request, (double)limit)) {
        int64_t share = shard_cut_rows(limit, 0, run->ranks.count).count;
        rows.is_shared = true;
        rows.own = share < count ? share : count;
    }
    return rows;
}

/* A part of the largest step, and of the largest one that is not shared. */
static enum status measure_step(struct dry_run *run, part_runner part, uint64_t *out) {
    int64_t limit = run->request->step_tokens;
    int64_t most_unshared = plan_unshared_rows(run->request);
    TRY(measure(run, part, rows_of(run, limit), out));
    return most_unshared < 1 || most_unshared >= limit ? STATUS_OK
                                                       : measure(run, part, unshared(most_unshared), out);
}

static enum status measure_drafts(struct dry_run *run, uint64_t *out) {
    const struct plan_request *request = run->request;
    int64_t limit = request->step_tokens;
    int64_t rows = draft_rows(request);
    TRY(measure(run, run_draft_state, rows_of(run, limit), out));
    TRY(measure(run, run_draft, rows_of(run, rows), out));
    if (plan_shares_rows(request, (double)limit)) {
        TRY(measure(run, run_draft_state, unshared(rows), out));
        TRY(measure(run, run_draft, unshared(rows), out));
    }
    return STATUS_OK;
}

static enum status measure_parts(struct dry_run *run, struct plan_step_bytes *out) {
    out->batch = batch_upload_count(0, run->request->sequence_limit) * sizeof(int32_t);
    TRY(measure_step(run, run_embedding, &out->embedding));
    TRY(measure_step(run, run_layers, &out->layers));
    TRY(measure_step(run, run_head, &out->head));
    return run->model->draft_limit > 0 ? measure_drafts(run, &out->draft) : STATUS_OK;
}

/* Of all layers, then the draft layer. Owned. */
static enum status choose_gathers(const struct dry_run *run, bool **out) {
    const struct model *model = run->model;
    bool *late = calloc((size_t)model->layer_count + 1, sizeof *late);
    CHECK_MEMORY(late);
    for (int layer = 0; layer <= model->layer_count; layer++) {
        struct attention_rows rows;
        model->family->describe_attention_rows(model, numerics_activation_dtype(run->request->numerics),
                                               layer, &rows);
        late[layer] = plan_gathers_late(run->request, &rows);
    }
    *out = late;
    return STATUS_OK;
}

/* Kernels are chosen by how weights are stored; nothing reads the bytes, so that all may lie in one place. */
static enum status bind_placeholders(const struct plan_model *model, const struct plan_request *request) {
    static const char nothing[1] = {0};
    const int first_layers[2] = {0, model->model->layer_count}; /* every rank has all layers here */
    struct shard_layout layout = {.mesh = request->mesh,
                                  .first_layers = first_layers,
                                  .has_draft = model->model->draft_limit > 0,
                                  .expert_count = (int)model->model->expert_count,
                                  .has_movable_experts = plan_moves_experts(request),
                                  .has_whole_shared_experts =
                                      plan_has_whole_shared_experts(model->model, request)};
    layout.mesh.pipeline = 1;
    struct loaded_tensor *loaded = calloc(model->list.count, sizeof *loaded);
    CHECK_MEMORY(loaded);
    for (size_t i = 0; i < model->list.count; i++) {
        struct tensor_part part = tensor_part_of(&model->list, i, &layout);
        loaded[i] = (struct loaded_tensor){
            .dtype = model->list.specs[i].dtype, .data = part.is_here ? nothing : NULL, .part = part};
    }
    enum status status = model->model->family->bind(model->model, &model->list, loaded);
    free(loaded);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status plan_step_measure(const struct plan_model *model, const struct plan_request *request,
                              struct plan_step_bytes *out) {
    enum status status = STATUS_OK;
    const struct backend *backend;
    struct worker_pool *workers = NULL;
    bool *gathers_late = NULL;
    struct dry_run run = {.model = model->model, .request = request};
    struct expert_balance balance = {0}; /* nothing is picked in a dry run */
    const struct state_pool_options options = {.sequence_slot_count = request->sequence_limit,
                                               .context_tokens = request->context_tokens,
                                               .page_tokens = request->page_tokens};
    *out = (struct plan_step_bytes){0};
    run.ranks =
        (struct step_ranks){.count = request->mesh.tensor,
                            .expert_rank_count = request->mesh.has_expert_parallelism
                                                     ? mesh_group_size(&request->mesh, MESH_GROUP_EXPERT)
                                                     : request->mesh.tensor,
                            .has_expert_parallelism = request->mesh.has_expert_parallelism,
                            .exchange = plan_expert_exchange(model->model, request),
                            .numerics = request->numerics,
                            .balance = plan_moves_experts(request) ? &balance : NULL};
    TRY_GOTO(choose_gathers(&run, &gathers_late));
    run.ranks.gathers_late = gathers_late;
    TRY_GOTO(bind_placeholders(model, request));
    TRY_GOTO(backend_find("cpu", &backend));
    TRY_GOTO(backend->build_table(request->numerics, "auto", &run.table));
    TRY_GOTO(state_pool_init(&run.states, NULL, &model->states, request->numerics, &options));
    TRY_GOTO(worker_pool_create(request->thread_count, &workers));
    run.queue = (struct op_queue){.table = &run.table, .pool = workers, .arena = &run.arena, .is_dry = true};
    TRY_GOTO(measure_parts(&run, out));
fail:
    worker_pool_destroy(&workers);
    state_pool_deinit(&run.states);
    free(gathers_late);
    return status;
}
