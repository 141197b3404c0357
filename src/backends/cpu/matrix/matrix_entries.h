/*
 * Entries of the three matrix operations over a kernel that takes bf16 activations, in native numerics.
 */
#ifndef SLUICE_BACKENDS_CPU_MATRIX_MATRIX_ENTRIES_H
#define SLUICE_BACKENDS_CPU_MATRIX_MATRIX_ENTRIES_H

#include "backends/cpu/cpu_features.h"
#include "backends/cpu/matrix/matrix_kernel.h"

/*
 * Defines linear_<set>, grouped_linear_<set> and moe_experts_<set>. `takes(weight)` says whether the kernel
 * reads a weight's format.
 */
#define MATRIX_ENTRIES(set, arithmetic_id, needed, kernel, takes)                                 \
    static bool linear_can_run(const void *arguments) {                                           \
        const struct linear_args *args = arguments;                                               \
        return args->x.dtype == DTYPE_BF16 && takes(args->weight);                                \
    }                                                                                             \
    static enum status linear_run(const struct kernel_env *env, const void *args) {               \
        return matrix_linear_run(kernel, true, env, args);                                        \
    }                                                                                             \
    static size_t linear_workspace(const void *args, unsigned thread_count) {                     \
        return matrix_linear_workspace(kernel, args, thread_count);                               \
    }                                                                                             \
    static bool grouped_linear_can_run(const void *arguments) {                                   \
        const struct grouped_linear_args *args = arguments;                                       \
        return args->x.dtype == DTYPE_BF16 && takes(args->weight);                                \
    }                                                                                             \
    static enum status grouped_linear_run(const struct kernel_env *env, const void *args) {       \
        return matrix_grouped_linear_run(kernel, env, args);                                      \
    }                                                                                             \
    static size_t grouped_linear_workspace(const void *args, unsigned thread_count) {             \
        return matrix_grouped_linear_workspace(kernel, args, thread_count);                       \
    }                                                                                             \
    static bool moe_experts_can_run(const void *arguments) {                                      \
        const struct moe_experts_args *args = arguments;                                          \
        return args->x.dtype == DTYPE_BF16 && takes(args->bank->gate) && takes(args->bank->up) && \
               takes(args->bank->down);                                                           \
    }                                                                                             \
    static enum status moe_experts_run(const struct kernel_env *env, const void *args) {          \
        return matrix_moe_experts_run(kernel, true, env, args);                                   \
    }                                                                                             \
    static size_t moe_experts_workspace(const void *args, unsigned thread_count) {                \
        return matrix_moe_experts_workspace(kernel, args, thread_count);                          \
    }                                                                                             \
    MATRIX_ENTRY(OP_LINEAR, linear, set, arithmetic_id, needed)                                   \
    MATRIX_ENTRY(OP_GROUPED_LINEAR, grouped_linear, set, arithmetic_id, needed)                   \
    MATRIX_ENTRY(OP_MOE_EXPERTS, moe_experts, set, arithmetic_id, needed)

#define MATRIX_ENTRY(op_id, operation, set, arithmetic_id, needed)                       \
    const struct op_entry operation##_##set = {.op = (op_id),                            \
                                               .name = #operation "_" #set,              \
                                               .arithmetic = (arithmetic_id),            \
                                               .modes = OP_MODE_NATIVE,                  \
                                               .features = (needed),                     \
                                               .run = operation##_run,                   \
                                               .workspace_bytes = operation##_workspace, \
                                               .can_run = operation##_can_run};

#endif
