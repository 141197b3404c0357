/* The dry run that sizes everything, and the steps. */
#include "engine/executor.h"

#include <math.h>
#include <stdlib.h>

#include "engine/batch_upload.h"
#include "ops/gather_rows.h"
#include "tensor/elements.h"

struct executor {
    struct executor_options options;
    struct op_table table;
    struct op_queue queue;
    struct device_arena arena; /* activations and workspace of a step */
    struct boundary boundary;  /* row_limit rows */
    void *boundary_memory;
    size_t boundary_bytes;
    int32_t *staging; /* batch arrays, then logit rows */
    float *scan;      /* one row of a boundary, to look for values that are not finite */
};

/* A pass over the model: main layers, or the draft layer over the boundary they left. */
struct pass {
    const struct step_plan *plan;
    bool is_draft;
    float *logits; /* host; NULL in a dry run */
};

static struct step make_step(struct executor *executor, const struct batch_view *batch) {
    return (struct step){.queue = &executor->queue,
                         .batch = batch,
                         .states = executor->options.states->rows,
                         .activation = numerics_activation_dtype(executor->options.numerics)};
}

/* The first `rows` rows of a boundary. */
static struct boundary boundary_rows(const struct boundary *boundary, int64_t rows) {
    struct boundary view = *boundary;
    for (int i = 0; i < view.count; i++) {
        view.tensors[i] = tensor_slice(&view.tensors[i], 0, rows);
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

/* Boundary rows `rows` (device, count) of `from`, side by side. */
static enum status gather_boundary(struct executor *executor, const struct boundary *from,
                                   const int32_t *rows, int64_t count, struct boundary *out) {
    TRY(alloc_boundary(executor, count, out));
    for (int i = 0; i < out->count; i++) {
        TRY(op_gather_rows(
            &executor->queue,
            &(struct gather_rows_args){.out = out->tensors[i], .x = from->tensors[i], .rows = rows}));
    }
    return STATUS_OK;
}

/* Logits of `count` rows, whose indices are at `rows` in host memory, to `logits` in host memory. */
static enum status run_head_block(struct executor *executor, const struct step *step,
                                  const struct boundary *boundary, const struct pass *pass,
                                  const int32_t *rows, int64_t count, float *logits) {
    const struct model *model = executor->options.model;
    size_t mark = device_arena_mark(&executor->arena);
    void *device_rows;
    struct boundary picked;
    struct tensor out;
    TRY(device_arena_alloc(&executor->arena, (size_t)count * sizeof *rows, &device_rows));
    if (!executor->queue.is_dry) {
        TRY(stream_copy_to_device(executor->queue.stream, device_rows, rows, (size_t)count * sizeof *rows));
    }
    TRY(gather_boundary(executor, boundary, device_rows, count, &picked));
    TRY(DEVICE_ARENA_TENSOR(&executor->arena, DTYPE_F32, &out, count, model->vocabulary_size));
    if (pass->is_draft) {
        TRY(model->family->forward_draft_head(model, step, &picked, &out));
    } else {
        TRY(model->family->forward_head(model, step, &picked, &out));
    }
    if (!executor->queue.is_dry) {
        TRY(stream_copy_to_host(executor->queue.stream, logits, out.data, tensor_bytes(&out)));
    }
    device_arena_release(&executor->arena, mark);
    return STATUS_OK;
}

static enum status run_head(struct executor *executor, const struct step *step,
                            const struct boundary *boundary, const struct pass *pass) {
    const struct step_plan *plan = pass->plan;
    int32_t limit = executor->options.logit_row_limit;
    for (int32_t first = 0; first < plan->logit_row_count; first += limit) {
        int32_t count = plan->logit_row_count - first < limit ? plan->logit_row_count - first : limit;
        float *logits = pass->logits == NULL
                            ? NULL
                            : pass->logits + (int64_t)first * executor->options.model->vocabulary_size;
        TRY(run_head_block(executor, step, boundary, pass, plan->logit_rows + first, count, logits));
    }
    return STATUS_OK;
}

static enum status run_model(struct executor *executor, const struct pass *pass) {
    const struct model *model = executor->options.model;
    struct batch_view batch;
    TRY(batch_upload(pass->plan, executor->staging, executor->queue.stream, &executor->arena, &batch));
    struct step step = make_step(executor, &batch);
    struct boundary boundary = boundary_rows(&executor->boundary, batch.row_count);
    if (pass->is_draft) {
        struct boundary drafted;
        TRY(alloc_boundary(executor, batch.row_count, &drafted));
        TRY(model->family->forward_draft(model, &step, &boundary, &drafted));
        TRY(run_head(executor, &step, &drafted, pass));
    } else {
        TRY(model->family->forward_embed(model, &step, &boundary));
        TRY(model->family->forward_layers(model, &step, &boundary, 0, model->layer_count));
        TRY(run_head(executor, &step, &boundary, pass));
    }
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

/* The largest step there can be, run without launching anything, gives the arena's size. */
static enum status plan_memory(struct executor *executor) {
    struct step_segment segments[1] = {{.row_count = executor->options.row_limit}};
    const int32_t logit_rows[1] = {0};
    struct step_plan plan = {.segments = segments, .segment_count = 1, .logit_rows = logit_rows};
    plan.logit_row_count = executor->options.logit_row_limit;
    executor->queue.is_dry = true;
    device_arena_init_planning(&executor->arena);
    TRY(alloc_boundary(executor, executor->options.row_limit, &executor->boundary));
    executor->boundary_bytes = executor->arena.used;
    /* Room for the segment arrays of every possible plan. */
    void *unused;
    TRY(device_arena_alloc(
        &executor->arena, batch_upload_count(0, executor->options.segment_limit) * sizeof(int32_t), &unused));
    TRY(run_pass(executor, &(struct pass){.plan = &plan}));
    if (executor->options.model->draft_limit > 0) {
        TRY(run_pass(executor, &(struct pass){.plan = &plan, .is_draft = true}));
    }
    executor->queue.is_dry = false;
    return STATUS_OK;
}

static enum status alloc_memory(struct executor *executor) {
    size_t step_bytes = executor->arena.high_water;
    TRY(device_arena_init(&executor->arena, executor->options.device, step_bytes));
    executor->queue.stream = executor->options.stream;
    TRY(alloc_boundary(executor, executor->options.row_limit, &executor->boundary));
    size_t integers = batch_upload_count(executor->options.row_limit, executor->options.segment_limit);
    executor->staging = calloc(integers, sizeof *executor->staging);
    CHECK_MEMORY(executor->staging);
    executor->scan =
        calloc((size_t)tensor_row_elements(&executor->boundary.tensors[0]), sizeof *executor->scan);
    CHECK_MEMORY(executor->scan);
    return STATUS_OK;
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
        device_arena_deinit(&(*executor)->arena);
        free((*executor)->staging);
        free((*executor)->scan);
        free(*executor);
        *executor = NULL;
    }
}

size_t executor_step_bytes(const struct executor *executor) {
    return executor->arena.capacity;
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
    struct boundary boundary = boundary_rows(&executor->boundary, batch.row_count);
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

enum status executor_run(struct executor *executor, const struct step_plan *plan, float *logits) {
    TRY(check_plan(executor, plan));
    TRY(state_pool_apply(executor->options.states, executor->queue.stream, plan));
    TRY(run_pass(executor, &(struct pass){.plan = plan, .logits = logits}));
    int64_t count = plan->logit_row_count * executor->options.model->vocabulary_size;
    if (first_not_finite(logits, count) >= 0) {
        size_t mark = device_arena_mark(&executor->arena);
        enum status status = explain_not_finite(executor, plan);
        device_arena_release(&executor->arena, mark);
        return error_forward(status, ERROR_HERE);
    }
    return STATUS_OK;
}

enum status executor_run_draft(struct executor *executor, const struct step_plan *plan, float *logits) {
    TRY(check_plan(executor, plan));
    CHECK(executor->options.model->draft_limit > 0, STATUS_INTERNAL, "drafting is off");
    TRY(run_pass(executor, &(struct pass){.plan = plan, .is_draft = true, .logits = logits}));
    CHECK(first_not_finite(logits, plan->logit_row_count * executor->options.model->vocabulary_size) < 0,
          STATUS_NOT_FINITE,
          "the MTP layer gave a logit that is not finite: check the files with `sluice inspect --verify`");
    return STATUS_OK;
}
