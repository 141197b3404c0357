/* The boundary after each layer, for comparison with recorded streams. Asserts. */
#ifndef SLUICE_TESTS_SUPPORT_LAYER_TRACE_H
#define SLUICE_TESTS_SUPPORT_LAYER_TRACE_H

#include <stdint.h>

#include "engine/engine_core.h"

struct layer_trace {
    /* streams: (rows, elements of a row) after the layer, as floats; valid during the call */
    void (*take)(void *context, int layer, const float *streams, int64_t rows, int64_t width);
    void *context;
};

/* Runs `count` tokens from position 0 in slot 0 through the model layer by layer. Uses the engine's state. */
void layer_trace_run(struct engine_core *engine, const int32_t *tokens, int32_t count,
                     const struct layer_trace *trace);

#endif
