/* In every float format here a value is not finite exactly when all bits of one mask are set. */
#include "weights/payload_check.h"

#include <stdint.h>
#include <string.h>

static void note(struct payload_problem *problem, size_t index) {
    if (problem->count++ == 0) {
        problem->first_index = index;
    }
}

static void scan_bytes(const unsigned char *data, size_t count, unsigned mask,
                       struct payload_problem *problem) {
    for (size_t i = 0; i < count; i++) {
        if ((data[i] & mask) == mask) {
            note(problem, i);
        }
    }
}

static void scan_16_bits(const unsigned char *data, size_t count, unsigned mask,
                         struct payload_problem *problem) {
    for (size_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, data + i * sizeof bits, sizeof bits);
        if ((bits & mask) == mask) {
            note(problem, i);
        }
    }
}

static void scan_32_bits(const unsigned char *data, size_t count, uint32_t mask,
                         struct payload_problem *problem) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, data + i * sizeof bits, sizeof bits);
        if ((bits & mask) == mask) {
            note(problem, i);
        }
    }
}

static void scan_positive(const unsigned char *data, size_t count, struct payload_problem *problem) {
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, data + i * sizeof value, sizeof value);
        if (!(value > 0.0f && value <= 0x1.fffffep127f)) {
            note(problem, i);
        }
    }
}

static void scan_expert_ids(const unsigned char *data, size_t count, enum dtype dtype, int64_t limit,
                            struct payload_problem *problem) {
    for (size_t i = 0; i < count; i++) {
        int64_t value;
        if (dtype == DTYPE_I32) {
            int32_t narrow;
            memcpy(&narrow, data + i * sizeof narrow, sizeof narrow);
            value = narrow;
        } else {
            memcpy(&value, data + i * sizeof value, sizeof value);
        }
        if (value < 0 || value >= limit) {
            note(problem, i);
        }
    }
}

bool payload_find_problem(const struct tensor_spec *spec, enum dtype dtype, const unsigned char *data,
                          size_t bytes, struct payload_problem *out) {
    struct payload_problem problem = {.text = "is not finite"};
    size_t count = bytes / dtype_bytes(dtype);
    bool is_scale = spec != NULL && spec->role == TENSOR_BLOCK_SCALE;
    bool is_expert_table = spec != NULL && spec->role == TENSOR_EXPERT_TABLE;
    if (is_expert_table && (dtype == DTYPE_I64 || dtype == DTYPE_I32)) {
        problem.text = "is no expert id";
        scan_expert_ids(data, count, dtype, spec->value_limit, &problem);
    } else if (dtype == DTYPE_F8_E8M0) {
        problem.text = "is the scale byte 255, which is NaN";
        scan_bytes(data, count, 0xFF, &problem);
    } else if (dtype == DTYPE_F8_E4M3) {
        problem.text = "is an E4M3 code of NaN";
        scan_bytes(data, count, 0x7F, &problem);
    } else if (dtype == DTYPE_F32 && is_scale) {
        problem.text = "is a scale that is not finite and positive";
        scan_positive(data, count, &problem);
    } else if (dtype == DTYPE_F32) {
        scan_32_bits(data, count, 0x7F800000u, &problem);
    } else if (dtype == DTYPE_BF16) {
        scan_16_bits(data, count, 0x7F80u, &problem);
    } else if (dtype == DTYPE_F16) {
        scan_16_bits(data, count, 0x7C00u, &problem);
    }
    if (problem.count > 0) {
        *out = problem;
    }
    return problem.count > 0;
}
