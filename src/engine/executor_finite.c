/* Looking for the place where a value first went wrong. */
#include <math.h>

#include "engine/batch_upload.h"
#include "engine/executor_internal.h"
#include "tensor/elements.h"

int64_t executor_first_not_finite(const float *values, int64_t count) {
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
    struct tensor streams = executor_boundary(executor)->tensors[0];
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
        *out = executor_first_not_finite(executor->scan, width) >= 0 ? row : -1;
    }
    return STATUS_OK;
}

/* Runs the step once more, layer by layer, to say where a value first went wrong. */
static enum status explain_not_finite(struct executor *executor, const struct step_plan *plan) {
    const struct model *model = executor->options.model;
    struct batch_view batch;
    TRY(batch_upload(plan, executor->staging, executor->queue.stream, &executor->arena, &batch));
    static const struct row_deal all_rows = {.is_shared = false};
    struct step step = executor_make_step(executor, &batch, &all_rows);
    struct boundary boundary = executor_slice_boundary(executor_boundary(executor), 0, batch.row_count);
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
    return executor_first_not_finite(logits, count) < 0 ? STATUS_OK
                                                        : executor_explain_not_finite(executor, plan);
}
