/*
 * What an instruction set brings to matrix operations, and the operations built on it.
 *
 * Linear maps, block-diagonal maps and experts differ in which inputs meet which weight rows; the arithmetic
 * is one: a block of weight rows times packed inputs. The operations are written once (linear_matrix.c,
 * grouped_linear_matrix.c, moe_experts_matrix.c) over this table of functions.
 */
#ifndef SLUICE_BACKENDS_CPU_MATRIX_MATRIX_KERNEL_H
#define SLUICE_BACKENDS_CPU_MATRIX_MATRIX_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/grouped_linear.h"
#include "ops/linear.h"
#include "ops/moe_experts.h"

/* Weight rows that a kernel multiplies at once at most, and results that a sink gets at once. */
enum { MATRIX_BLOCK_ROWS = 32, MATRIX_SINK_ROWS = 16 };

/* Packing one column costs as much as touching so many bytes. */
enum { MATRIX_PACK_BYTES = 8 };

/* Takes `row_count` (at most MATRIX_SINK_ROWS) results of one input, for weight rows from `first_row`. */
struct matrix_sink {
    void (*take)(const void *context, int64_t input, int64_t first_row, int64_t row_count,
                 const float *values);
    const void *context;
};

/*
 * Every result is the sum over the columns in one order that does not depend on how many inputs or rows there
 * are: the leaves of the plan each in the kernel's order, from +0.0, then the plan's additions. Weights may
 * be unaligned. Functions run on several threads at once.
 */
struct matrix_kernel {
    /* Bytes of a packed input row, a multiple of 64. */
    size_t (*packed_bytes)(int64_t columns);

    /* Packs a row of activations for this weight; with `rounds`, ACT8 goes first. */
    void (*pack)(const struct weight *weight, bool rounds, enum dtype dtype, const void *row, void *packed);

    /* Scratch of one thread for weights of `columns`, a multiple of 64. */
    size_t (*scratch_bytes)(int64_t columns);

    /* Weight rows first_row.. (at most MATRIX_BLOCK_ROWS) times `count` packed inputs, one behind the other.
     */
    void (*multiply)(const struct weight *weight, const struct leaf_plan *leaves, int64_t first_row,
                     int64_t row_count, const void *inputs, int64_t count, void *scratch,
                     const struct matrix_sink *sink);

    /* out[i] = routing * swiglu(gate[i], up[i]) with gate and up rounded to `dtype` first; out rounded to it.
     */
    void (*gate)(const float *gate, const float *up, int64_t count, float clamp, float routing,
                 enum dtype dtype, void *out);

    /* Writes results as `dtype` (F32, or BF16 rounded). */
    void (*store)(enum dtype dtype, void *out, int64_t index, int64_t count, const float *values);
};

/* The operations; `rounds`: native numerics, inputs of quantised weights go through ACT8. */
enum status matrix_linear_run(const struct matrix_kernel *kernel, bool rounds, const struct kernel_env *env,
                              const struct linear_args *args);
size_t matrix_linear_workspace(const struct matrix_kernel *kernel, const struct linear_args *args,
                               unsigned thread_count);

enum status matrix_grouped_linear_run(const struct matrix_kernel *kernel, const struct kernel_env *env,
                                      const struct grouped_linear_args *args);
size_t matrix_grouped_linear_workspace(const struct matrix_kernel *kernel,
                                       const struct grouped_linear_args *args, unsigned thread_count);

enum status matrix_moe_experts_run(const struct matrix_kernel *kernel, bool rounds,
                                   const struct kernel_env *env, const struct moe_experts_args *args);
size_t matrix_moe_experts_workspace(const struct matrix_kernel *kernel, const struct moe_experts_args *args,
                                    unsigned thread_count);

static inline int64_t matrix_block_count(int64_t rows) {
    return (rows + MATRIX_BLOCK_ROWS - 1) / MATRIX_BLOCK_ROWS;
}

/* The order of a weight's sums. */
static inline struct leaf_plan matrix_leaves(const struct weight *weight) {
    return leaf_plan_make(&weight->leaves, weight->columns);
}

/* Rows of block `block` of `rows`. */
static inline int64_t matrix_block_rows(int64_t rows, int64_t block) {
    int64_t left = rows - block * MATRIX_BLOCK_ROWS;
    return left < MATRIX_BLOCK_ROWS ? left : MATRIX_BLOCK_ROWS;
}

#endif
