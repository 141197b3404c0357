/* Largest magnitude, scale exponent by bits, codes. */
#include "tensor/quantize.h"

#include <math.h>

#include "tensor/number_format.h"

static float largest_magnitude(const float *values, int64_t count) {
    float largest = 0.0f;
    for (int64_t i = 0; i < count; i++) {
        float magnitude = fabsf(values[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

int act8_encode_block(const float *values, int64_t count, uint8_t *codes) {
    int exponent = act8_scale_exponent(largest_magnitude(values, count));
    float inverse = f32_power_of_two(-exponent);
    for (int64_t i = 0; i < count; i++) {
        codes[i] = e4m3_encode(values[i] * inverse);
    }
    return exponent;
}

int act4_encode_block(const float *values, int64_t count, uint8_t *codes) {
    int exponent = act4_scale_exponent(largest_magnitude(values, count));
    float inverse = f32_power_of_two(-exponent);
    for (int64_t i = 0; i < count; i++) {
        codes[i] = e2m1_encode(values[i] * inverse);
    }
    return exponent;
}

void act8_round(float *values, int64_t count, int64_t block) {
    for (int64_t first = 0; first < count; first += block) {
        int64_t length = count - first < block ? count - first : block;
        int exponent = act8_scale_exponent(largest_magnitude(values + first, length));
        float inverse = f32_power_of_two(-exponent);
        float scale = f32_power_of_two(exponent);
        for (int64_t i = first; i < first + length; i++) {
            values[i] = e4m3_decode(e4m3_encode(values[i] * inverse)) * scale;
        }
    }
}

void act4_round(float *values, int64_t count, int64_t block) {
    for (int64_t first = 0; first < count; first += block) {
        int64_t length = count - first < block ? count - first : block;
        int exponent = act4_scale_exponent(largest_magnitude(values + first, length));
        float inverse = f32_power_of_two(-exponent);
        float scale = f32_power_of_two(exponent);
        for (int64_t i = first; i < first + length; i++) {
            values[i] = e2m1_decode(e2m1_encode(values[i] * inverse)) * scale;
        }
    }
}
