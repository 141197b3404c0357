/* Shared arithmetic of the reference kernels. */
#include "ops/reference/reference_math.h"

#include <math.h>

#include "tensor/elements.h"
#include "tensor/number_format.h"

double reference_dot(const float *a, const float *b, int64_t count) {
    double partial[8] = {0.0};
    int64_t whole = count - count % 8;
    for (int64_t i = 0; i < whole; i += 8) {
        for (int lane = 0; lane < 8; lane++) {
            partial[lane] += (double)a[i + lane] * (double)b[i + lane];
        }
    }
    for (int64_t i = whole; i < count; i++) {
        partial[i - whole] += (double)a[i] * (double)b[i];
    }
    double sum = 0.0;
    for (int lane = 0; lane < 8; lane++) {
        sum += partial[lane];
    }
    return sum;
}

float reference_leaf_dot(const struct leaf_plan *leaves, const float *a, const float *b) {
    float sums[LEAF_STACK_MAX];
    int depth = 0;
    for (int s = 0; s < leaves->step_count; s++) {
        const struct leaf_step *step = &leaves->steps[s];
        int64_t first = step->first_column;
        /* A tiny negative number rounds to -0.0; a leaf is never that. */
        float leaf = (float)reference_dot(a + first, b + first, step->end_column - first) + 0.0f;
        depth = leaf_push(sums, depth, leaf, step->merge_count);
    }
    return sums[0];
}

double reference_sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

float reference_swiglu(float gate, float up, float clamp) {
    /* Comparisons, not fminf: a NaN must come through. */
    float a = gate > clamp ? clamp : gate;
    float b = up > clamp ? clamp : up;
    b = b < -clamp ? -clamp : b;
    return (float)((double)a * reference_sigmoid(a) * (double)b);
}

void reference_round(enum dtype dtype, float *values, int64_t count) {
    if (dtype == DTYPE_BF16) {
        for (int64_t i = 0; i < count; i++) {
            values[i] = bf16_round(values[i]);
        }
    }
}

void reference_rms_norm(float *x, const float *weight, int64_t count, float epsilon) {
    double mean = reference_dot(x, x, count) / (double)count;
    double factor = 1.0 / sqrt(mean + (double)epsilon);
    for (int64_t i = 0; i < count; i++) {
        double scaled = (double)x[i] * factor;
        x[i] = (float)(weight == NULL ? scaled : scaled * (double)weight[i]);
    }
}

void reference_rotate(float *head, int64_t width, int64_t position, const struct rope_table *table,
                      int is_inverse) {
    float *rotary = head + width - 2 * table->pair_count;
    for (int pair = 0; pair < table->pair_count; pair++) {
        /* The angle is the fp32 product by definition; the reduction runs in double. */
        double angle = (double)((float)position * table->frequency[pair]);
        double cosine = cos(angle);
        double sine = is_inverse ? -sin(angle) : sin(angle);
        double a = rotary[2 * pair];
        double b = rotary[2 * pair + 1];
        rotary[2 * pair] = (float)(a * cosine - b * sine);
        rotary[2 * pair + 1] = (float)(a * sine + b * cosine);
    }
}

void reference_hadamard(float *x, int64_t width) {
    for (int64_t half = 1; half < width; half *= 2) {
        for (int64_t first = 0; first < width; first += 2 * half) {
            for (int64_t i = first; i < first + half; i++) {
                float sum = x[i] + x[i + half];
                x[i + half] = x[i] - x[i + half];
                x[i] = sum;
            }
        }
    }
    float scale = (float)(1.0 / sqrt((double)width));
    for (int64_t i = 0; i < width; i++) {
        x[i] *= scale;
    }
}

void reference_read(const struct tensor *tensor, int64_t first, int64_t count, float *out) {
    const char *data = tensor->data;
    elements_decode(tensor->dtype, data + (size_t)first * dtype_bytes(tensor->dtype), count, out);
}

void reference_write(const struct tensor *tensor, int64_t first, int64_t count, const float *values) {
    char *data = tensor->data;
    elements_encode(tensor->dtype, values, count, data + (size_t)first * dtype_bytes(tensor->dtype));
}
