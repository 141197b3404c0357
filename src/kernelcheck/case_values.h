/*
 * For generators: operands filled with the numbers of the case's style.
 *
 * `id` tells operands of one case apart: each has numbers of its own. Rows depend on (seed, id, sequence,
 * position), weights on (seed, id) alone.
 */
#ifndef SLUICE_KERNELCHECK_CASE_VALUES_H
#define SLUICE_KERNELCHECK_CASE_VALUES_H

#include "kernelcheck/kernel_case.h"
#include "ops/chunk_rows.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

/* A tensor and the operand it lies in. */
struct case_tensor {
    struct tensor tensor;
    size_t operand;
};

/* The element type of activations in the case's numerics. */
enum dtype case_activation(const struct kernel_case *kernel_case);

/* In CASE_EXTREME rows differ in size by powers of two: for operations whose results scale with the row. */
enum case_range { CASE_SAME_SIZE, CASE_ROWS_DIFFER };

/* The numbers of one row. */
void case_row_values(const struct kernel_case *kernel_case, unsigned id, int32_t sequence, int32_t position,
                     enum case_range range, float *out, int64_t count);

/* An input: one row per row of the plan, (rows, shape[1], shape[2]); a 0 leaves the axis out. */
enum status case_add_rows(struct kernel_case *kernel_case, unsigned id, enum dtype dtype,
                          enum case_range range, int64_t outer, int64_t width, struct case_tensor *out);

/* An input of `count` rows whatever the plan, to take rows from by index: (count, outer, width). */
enum status case_add_source(struct kernel_case *kernel_case, unsigned id, enum dtype dtype,
                            enum case_range range, int64_t count, int64_t outer, int64_t width,
                            struct tensor *out);

/* Device integers, one per row of the plan, in [first, first + count): some of them more than once. */
enum status case_add_picks(struct kernel_case *kernel_case, unsigned id, int64_t first, int64_t count,
                           const int32_t **out);

/* An output of that shape, contents NaN. Any of the axes behind the rows may be 0: left out. */
enum status case_add_result(struct kernel_case *kernel_case, enum dtype dtype, int64_t outer, int64_t width,
                            const struct tolerance *tolerance, struct tensor *out);

/* Makes an input an output as well. */
enum status case_mark_result(struct kernel_case *kernel_case, const struct case_tensor *tensor,
                             const struct tolerance *tolerance);

/* Device integers, at no multiple of a vector. */
enum status case_add_integers(struct kernel_case *kernel_case, const int32_t *values, int64_t count,
                              const int32_t **out);

/* Fills the case's batch view from its plan; slots are not in order. */
enum status case_add_batch(struct kernel_case *kernel_case);

/* A weight without scales whose values are `size` times the style's. */
enum status case_add_plain(struct kernel_case *kernel_case, unsigned id, enum dtype dtype, int64_t rows,
                           int64_t columns, float size, struct weight *out);

/* A weight of the shape's format (types from the shape). */
enum status case_add_weight(struct kernel_case *kernel_case, unsigned id, int64_t rows, int64_t columns,
                            struct weight *out);

/* Stores row `row` of the state's memory: what case_row_values gives for (id, sequence, position). */
enum status case_put_row(struct kernel_case *kernel_case, const struct state_rows *state, size_t operand,
                         int64_t row, unsigned id, int32_t sequence, int32_t position);

/*
 * The plan's rows as a step holds them, and a ring with up to `history` positions in front of each segment.
 * `ring_operand` may be NULL.
 */
enum status case_add_chunk(struct kernel_case *kernel_case, unsigned id, struct row_layout layout,
                           int64_t ring_rows, int64_t history, struct chunk_rows *out, size_t *ring_operand);

/* The slot of a segment. */
int64_t case_slot(const struct kernel_case *kernel_case, int segment);

/* A copy of `bytes` in the case's arena, for what arguments point to. NULL if memory is out. */
void *case_keep(struct kernel_case *kernel_case, const void *bytes, size_t count);

#endif
