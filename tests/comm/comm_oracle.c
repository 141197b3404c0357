#include "comm/comm_oracle.h"

static uint64_t mix(uint64_t value) {
    value += 0x9E3779B97F4A7C15u;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
}

static uint64_t number(uint64_t seed, uint64_t first, uint64_t second) {
    return mix(mix(mix(seed) + first) + second);
}

float oracle_value(uint64_t seed, int rank, int64_t index) {
    uint64_t bits = number(seed, (uint64_t)rank, (uint64_t)index);
    float value = (float)(int32_t)(bits & 0xFFFFFF) - 8388608.0f;
    for (unsigned scale = (unsigned)(bits >> 60); scale > 0; scale--) {
        value *= 0.25f;
    }
    return value;
}

static float sum_ranks(uint64_t seed, int first, int count, int64_t index) {
    if (count == 1) {
        return oracle_value(seed, first, index);
    }
    int left = 1;
    while (left * 2 < count) {
        left *= 2;
    }
    return sum_ranks(seed, first, left, index) + sum_ranks(seed, first + left, count - left, index);
}

float oracle_sum(uint64_t seed, int size, int64_t index) {
    return sum_ranks(seed, 0, size, index);
}

int oracle_number(uint64_t seed, int place, int limit) {
    return (int)(number(seed, 0x517E, (uint64_t)place) % (uint64_t)limit);
}

void oracle_fill(unsigned char *bytes, uint64_t seed, int from, int to, int count) {
    for (int i = 0; i < count; i++) {
        bytes[i] = (unsigned char)number(seed, (uint64_t)from * 1000 + (uint64_t)to, (uint64_t)i);
    }
}
