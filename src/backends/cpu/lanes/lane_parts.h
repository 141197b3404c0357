/*
 * Parts of sixteen lanes that fit a register of the instruction set, for inner loops: compilers make poor
 * code of wider vectors. Lane-wise steps give the same bits in parts as in whole.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_LANE_PARTS_H
#define SLUICE_BACKENDS_CPU_LANES_LANE_PARTS_H

#include "backends/cpu/lanes/lanes.h"

enum {
#if defined(__AVX512F__)
    PART = 16,
#elif defined(__AVX2__)
    PART = 8,
#else
    PART = 4,
#endif
};

typedef float lane_part __attribute__((vector_size(PART * sizeof(float))));
typedef uint32_t lane_part_bits __attribute__((vector_size(PART * sizeof(uint32_t))));
typedef int32_t lane_part_integers __attribute__((vector_size(PART * sizeof(int32_t))));
typedef uint16_t lane_part_halves __attribute__((vector_size(PART * sizeof(uint16_t))));
typedef uint8_t lane_part_bytes __attribute__((vector_size(PART)));

static inline lane_part lane_part_load(const float *from) {
    lane_part value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline void lane_part_store(float *to, lane_part value) {
    memcpy(to, &value, sizeof value);
}

static inline lane_part lane_part_from_bits(lane_part_bits bits) {
    lane_part value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline lane_part_bits lane_part_to_bits(lane_part value) {
    lane_part_bits bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline lane_part_bits lane_part_load_bytes(const unsigned char *from) {
    lane_part_bytes bytes;
    memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(bytes, lane_part_bits);
}

static inline lane_part lane_part_load_bf16(const unsigned char *from) {
    lane_part_halves halves;
    memcpy(&halves, from, sizeof halves);
    return lane_part_from_bits(__builtin_convertvector(halves, lane_part_bits) << 16);
}

#endif
