#include "support/layer_trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/batch_upload.h"
#include "support/model_fixture.h"
#include "tensor/elements.h"

/* What one pass needs beside the engine. */
struct tracer {
    struct engine_core *engine;
    struct device_arena arena;
    struct op_queue queue;
    int32_t *staging;
    const struct layer_trace *trace; /* NULL in the dry run */
};

static void hand_out(struct tracer *tracer, const struct tensor *streams, int layer) {
    size_t bytes = tensor_bytes(streams);
    void *raw = malloc(bytes);
    float *values = calloc((size_t)tensor_elements(streams), sizeof *values);
    assert_non_null(raw);
    assert_non_null(values);
    EXPECT_OK(stream_copy_to_host(tracer->engine->stream, raw, streams->data, bytes));
    EXPECT_OK(stream_synchronize(tracer->engine->stream));
    elements_decode(streams->dtype, raw, tensor_elements(streams), values);
    tracer->trace->take(tracer->trace->context, layer, values, streams->shape[0],
                        tensor_row_elements(streams));
    free(raw);
    free(values);
}

static void run_layers(struct tracer *tracer, const struct step_plan *plan) {
    const struct model *model = tracer->engine->model;
    struct batch_view batch;
    struct boundary boundary;
    enum dtype activation = numerics_activation_dtype((enum numerics)tracer->engine->options.numerics);
    EXPECT_OK(batch_upload(plan, tracer->staging, tracer->queue.stream, &tracer->arena, &batch));
    model->family->describe_boundary(model, activation, batch.row_count, &boundary);
    EXPECT_OK(
        device_arena_alloc(&tracer->arena, tensor_bytes(&boundary.tensors[0]), &boundary.tensors[0].data));
    struct step step = {.queue = &tracer->queue,
                        .batch = &batch,
                        .states = tracer->engine->states.rows,
                        .activation = activation};
    EXPECT_OK(model->family->forward_embed(model, &step, &boundary));
    for (int layer = 0; layer < model->layer_count; layer++) {
        EXPECT_OK(model->family->forward_layers(model, &step, &boundary, layer, layer + 1));
        if (tracer->trace != NULL) {
            hand_out(tracer, &boundary.tensors[0], layer);
        }
    }
}

void layer_trace_run(struct engine_core *engine, const int32_t *tokens, int32_t count,
                     const struct layer_trace *trace) {
    struct step_segment segment = {0, 0, count, tokens};
    struct step_plan plan = {.segments = &segment, .segment_count = 1};
    struct tracer tracer = {.engine = engine};
    struct op_table table;
    EXPECT_OK(engine->backend->build_table((enum numerics)engine->options.numerics,
                                           engine->options.cpu_features, &table));
    tracer.queue = (struct op_queue){.table = &table, .pool = engine->pool, .is_dry = true};
    tracer.queue.arena = &tracer.arena;
    tracer.staging = calloc(batch_upload_count(count, 1), sizeof *tracer.staging);
    assert_non_null(tracer.staging);
    device_arena_init_planning(&tracer.arena);
    run_layers(&tracer, &plan);
    EXPECT_OK(device_arena_init(&tracer.arena, engine->device, tracer.arena.high_water));
    tracer.queue.is_dry = false;
    tracer.queue.stream = engine->stream;
    tracer.trace = trace;
    run_layers(&tracer, &plan);
    device_arena_deinit(&tracer.arena);
    free(tracer.staging);
}
