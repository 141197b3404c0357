/*
 * The inner loops of the weight generator, compiled once per instruction set with the same results.
 *
 * Plain loops that the compiler turns into vectors: arithmetic on doubles and floats is rounded step by step,
 * never fused, so that every set gives the same bits. Any thread.
 */
#ifndef SLUICE_TOOLS_WEIGHT_LOOPS_H
#define SLUICE_TOOLS_WEIGHT_LOOPS_H

#include <stddef.h>
#include <stdint.h>

enum { WEIGHT_LOOPS_GROUP = 32 };

struct weight_loops {
    /* out[i] = offset + gain * v(name, first + i) of spec deepseek-v4 A.1; `hash` is the name's. */
    void (*values)(uint64_t hash, uint64_t first, size_t count, double offset, double gain, float *out);
    /* Scale bytes: top minus z(name, first + i) modulo span, 2 or 3. */
    void (*scales)(uint64_t hash, uint64_t first, size_t count, int top, unsigned span, unsigned char *out);
    /* values[i] times factor as e4m3 codes. */
    void (*encode_e4m3)(const float *values, size_t count, float factor, unsigned char *out);
    /*
     * Groups of 32 values, each times its group's factor, as e2m1 codes: values 2 i and 2 i + 1 of a group in
     * the low and high half of its byte i.
     */
    void (*encode_e2m1)(const float *values, size_t group_count, const float *factors, unsigned char *out);
    /* Nearest bf16, two bytes each. */
    void (*encode_bf16)(const float *values, size_t count, unsigned char *out);
    /* The same, back as floats, four bytes each. */
    void (*round_bf16)(float *values, size_t count);
};

extern const struct weight_loops weight_loops_portable;
extern const struct weight_loops weight_loops_avx2;
extern const struct weight_loops weight_loops_avx512;

/* The fastest loops that this processor runs. */
const struct weight_loops *weight_loops_choose(void);

#endif
