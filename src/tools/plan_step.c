/* The parts run in an arena that only counts, each by itself: stages combine them. */
#include "tools/plan_step.h"

#include <stdlib.h>

#include "backends/backend_registry.h"
#include "base/worker_pool.h"
#include "engine/batch_upload.h"
#include "engine/state_pool.h"
#include "weights/tensor_part.h"

enum { LOGIT_ROWS_AT_ONCE = 16 };

struct dry_run {
    const struct model *model;
    const struct plan_step_shape *shape;
    struct op_table table;
    struct device_arena arena;
    struct op_queue queue;
    struct state_pool states;
};

/* `boundaries`: what a part works on, and what a draft pass writes. */
typedef enum status (*part_runner)(const struct dry_run *run, const struct step *step,
                                   struct boundary *boundaries);

static enum status alloc_boundary(struct dry_run *run, int64_t rows, struct boundary *out) {
    run->model->family->describe_boundary(run->model, numerics_activation_dtype(run->shape->numerics), rows,
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

static enum status run_logits(const struct dry_run *run, const struct step *step,
                              const struct boundary *boundary, int64_t rows, bool is_draft) {
    const struct model_family *family = run->model->family;
    int64_t count = rows < LOGIT_ROWS_AT_ONCE ? rows : LOGIT_ROWS_AT_ONCE;
    struct boundary source = *boundary;
    void *indices;
    struct tensor logits;
    for (int i = 0; i < source.count; i++) {
        source.tensors[i] = tensor_slice(&source.tensors[i], 0, is_draft ? count : rows);
    }
    struct picked_rows picked = {.own_count = count, .count = count};
    TRY(device_arena_alloc(step->queue->arena, (size_t)count * sizeof(int32_t), &indices));
    TRY(DEVICE_ARENA_TENSOR(step->queue->arena, DTYPE_F32, &logits, count, run->model->vocabulary_size));
    picked.rows = is_draft ? NULL : indices;
    return is_draft ? family->forward_draft_head(run->model, step, &source, &picked, &logits)
                    : family->forward_head(run->model, step, &source, &picked, &logits);
}

static enum status run_head(const struct dry_run *run, const struct step *step, struct boundary *boundary) {
    return run_logits(run, step, boundary, step->batch->row_count, false);
}

/* A pass over all rows that writes state only. */
static enum status run_draft_state(const struct dry_run *run, const struct step *step,
                                   struct boundary *boundary) {
    void *rows;
    TRY(device_arena_alloc(step->queue->arena, (size_t)step->batch->row_count * sizeof(int32_t), &rows));
    return run->model->family->forward_draft_state(run->model, step, boundary, rows);
}

/* A pass with logits, one row per segment. */
static enum status run_draft(const struct dry_run *run, const struct step *step, struct boundary *boundary) {
    void *rows;
    TRY(device_arena_alloc(step->queue->arena, (size_t)step->batch->row_count * sizeof(int32_t), &rows));
    TRY(run->model->family->forward_draft(run->model, step, boundary, rows, &boundary[1]));
    return run_logits(run, step, &boundary[1], step->batch->row_count, true);
}

/* The most that a part takes at once for so many rows. */
static enum status measure(struct dry_run *run, part_runner part, int64_t row_count, uint64_t *out) {
    const struct step_segment segment = {.row_count = (int32_t)row_count};
    const struct step_plan plan = {.segments = &segment, .segment_count = 1};
    struct batch_view batch;
    struct boundary boundaries[2];
    device_arena_init_planning(&run->arena);
    TRY(alloc_boundary(run, row_count, &boundaries[0]));
    TRY(alloc_boundary(run, row_count, &boundaries[1]));
    size_t boundary_bytes = device_arena_mark(&run->arena);
    TRY(batch_upload(&plan, NULL, NULL, &run->arena, &batch));
    struct step step = {.queue = &run->queue,
                        .batch = &batch,
                        .states = run->states.rows,
                        .activation = numerics_activation_dtype(run->shape->numerics)};
    TRY(part(run, &step, boundaries));
    *out = run->arena.high_water - boundary_bytes;
    return STATUS_OK;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static enum status measure_parts(struct dry_run *run, struct plan_step_bytes *out) {
    int64_t rows = run->shape->row_limit;
    int64_t draft_rows = run->shape->segment_limit < rows ? run->shape->segment_limit : rows;
    uint64_t state_pass = 0;
    out->batch = batch_upload_count(0, run->shape->segment_limit) * sizeof(int32_t);
    TRY(measure(run, run_embedding, rows, &out->embedding));
    TRY(measure(run, run_layers, rows, &out->layers));
    TRY(measure(run, run_head, rows, &out->head));
    if (run->model->draft_limit > 0) {
        TRY(measure(run, run_draft_state, rows, &state_pass));
        TRY(measure(run, run_draft, draft_rows, &out->draft));
        out->draft = larger(out->draft, state_pass);
    }
    return STATUS_OK;
}

/* Kernels are chosen by how weights are stored; nothing reads the bytes, so that all may lie in one place. */
static enum status bind_placeholders(const struct plan_model *model) {
    static const char nothing[1] = {0};
    struct loaded_tensor *loaded = calloc(model->list.count, sizeof *loaded);
    CHECK_MEMORY(loaded);
    for (size_t i = 0; i < model->list.count; i++) {
        loaded[i] = (struct loaded_tensor){.dtype = model->list.specs[i].dtype,
                                           .data = nothing,
                                           .part = tensor_part_of(&model->list, i, NULL)};
    }
    enum status status = model->model->family->bind(model->model, &model->list, loaded);
    free(loaded);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status plan_step_measure(const struct plan_model *model, const struct plan_step_shape *shape,
                              struct plan_step_bytes *out) {
    enum status status = STATUS_OK;
    const struct backend *backend;
    struct worker_pool *workers = NULL;
    struct dry_run run = {.model = model->model, .shape = shape};
    const struct state_pool_options options = {.sequence_slot_count = shape->segment_limit,
                                               .context_tokens = shape->context_tokens,
                                               .page_tokens = shape->page_tokens};
    *out = (struct plan_step_bytes){0};
    TRY_GOTO(bind_placeholders(model));
    TRY_GOTO(backend_find("cpu", &backend));
    TRY_GOTO(backend->build_table(shape->numerics, "auto", &run.table));
    TRY_GOTO(state_pool_init(&run.states, NULL, &model->states, shape->numerics, &options));
    TRY_GOTO(worker_pool_create(shape->thread_count, &workers));
    run.queue = (struct op_queue){.table = &run.table, .pool = workers, .arena = &run.arena, .is_dry = true};
    TRY_GOTO(measure_parts(&run, out));
fail:
    worker_pool_destroy(&workers);
    state_pool_deinit(&run.states);
    return status;
}
