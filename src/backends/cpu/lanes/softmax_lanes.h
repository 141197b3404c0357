/*
 * Softmax of one row of logits beside an attention sink (spec deepseek-v4, sparse attention), short of the
 * division, which is cheaper on the values.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_SOFTMAX_LANES_H
#define SLUICE_BACKENDS_CPU_LANES_SOFTMAX_LANES_H

#include <math.h>
#include <stdint.h>

#include "backends/cpu/lanes/lanes.h"

/* `count` up to whole registers of lanes. */
LANES_INLINE int64_t lanes_whole(int64_t count) {
    return (count + LANES - 1) / LANES * LANES;
}

/*
 * Logits to numerators exp(logit - largest), in place; returns the denominator, the sink's share in it.
 * Writes lanes_whole(count) elements; those from count are 0.
 */
LANES_INLINE float lanes_softmax_numerators(float *logits, int64_t count, float sink) {
    int64_t whole = lanes_whole(count);
    for (int64_t n = count; n < whole; n++) {
        logits[n] = -INFINITY;
    }
    f32x16 largest = lanes_splat(sink);
    for (int64_t n = 0; n < whole; n += LANES) {
        largest = lanes_max(lanes_load(logits + n), largest);
    }
    float shift = lanes_largest(largest);
    f32x16 sum = {0};
    for (int64_t n = 0; n < whole; n += LANES) {
        f32x16 numerator = lanes_exp(lanes_load(logits + n) - shift);
        sum += numerator;
        lanes_store(logits + n, numerator);
    }
    return lanes_sum(sum) + lanes_exp(lanes_splat(sink - shift))[0];
}

#endif
