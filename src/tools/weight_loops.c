/* Compiled with WEIGHT_LOOPS_ISA naming the instruction set whose flags it is compiled with. */
#include "tools/weight_loops.h"

#include <string.h>

#include "tensor/number_format.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

/* z(name, index) of A.1: the splitmix64 finaliser. */
static inline uint64_t mix(uint64_t hash, uint64_t index) {
    uint64_t z = hash + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void values(uint64_t hash, uint64_t first, size_t count, double offset, double gain, float *out) {
    for (size_t i = 0; i < count; i++) {
        /* 24 bits: exact as int, which processors turn into a double faster than 64 bits. */
        int32_t bits = (int32_t)(mix(hash, first + i) >> 40);
        double symmetric = 2.0 * (double)bits / 0x1p24 - 1.0;
        out[i] = (float)(offset + gain * symmetric);
    }
}

static void scales(uint64_t hash, uint64_t first, size_t count, int top, unsigned span, unsigned char *out) {
    /* Constant divisors need no division. */
    if (span == 2) {
        for (size_t i = 0; i < count; i++) {
            out[i] = (unsigned char)(top - (int)(mix(hash, first + i) % 2));
        }
    } else {
        for (size_t i = 0; i < count; i++) {
            out[i] = (unsigned char)(top - (int)(mix(hash, first + i) % 3));
        }
    }
}

static void encode_e4m3(const float *restrict source, size_t count, float factor,
                        unsigned char *restrict out) {
    for (size_t i = 0; i < count; i++) {
        out[i] = e4m3_encode(source[i] * factor);
    }
}

static void encode_e2m1(const float *restrict source, size_t group_count, const float *restrict factors,
                        unsigned char *restrict out) {
    for (size_t group = 0; group < group_count; group++) {
        /* Loops of fixed length become vectors without tails. */
        unsigned char codes[WEIGHT_LOOPS_GROUP];
        for (size_t i = 0; i < WEIGHT_LOOPS_GROUP; i++) {
            codes[i] = e2m1_encode(source[i] * factors[group]);
        }
        for (size_t i = 0; i < WEIGHT_LOOPS_GROUP / 2; i++) {
            out[i] = (unsigned char)(codes[2 * i] | (codes[2 * i + 1] << 4));
        }
        source += WEIGHT_LOOPS_GROUP;
        out += WEIGHT_LOOPS_GROUP / 2;
    }
}

static void encode_bf16(const float *restrict source, size_t count, unsigned char *restrict out) {
    for (size_t i = 0; i < count; i++) {
        uint16_t bits = bf16_encode(source[i]);
        memcpy(out + i * sizeof bits, &bits, sizeof bits);
    }
}

static void round_bf16(float *numbers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        numbers[i] = bf16_round(numbers[i]);
    }
}

const struct weight_loops JOIN(weight_loops_, WEIGHT_LOOPS_ISA) = {
    .values = values,
    .scales = scales,
    .encode_e4m3 = encode_e4m3,
    .encode_e2m1 = encode_e2m1,
    .encode_bf16 = encode_bf16,
    .round_bf16 = round_bf16,
};
