/*
 * What the files of parallel/collectives.h share.
 */
#ifndef SLUICE_PARALLEL_COLLECTIVES_INTERNAL_H
#define SLUICE_PARALLEL_COLLECTIVES_INTERNAL_H

#include "parallel/rows.h"

/* Whether one rank does it all. */
bool parallel_is_alone(const struct step *step);

/* offsets[0 .. ranks]: where each rank's rows begin among all. */
void parallel_byte_offsets(const struct step *step, const struct row_shares *shares, size_t row_bytes,
                           size_t *offsets);

/* Collective. All `count` rows, in the step arena, of tensors that hold each rank's share. */
enum status parallel_gather_tensor(const struct step *step, const struct row_shares *shares,
                                   struct tensor own, int64_t count, struct tensor *out);

/*
 * Collective. The own rows of a sum over ranks, from F32 parts (rows, ..) of all rows; `out` is inside of
 * `partial`, whose other rows are undefined afterwards.
 */
enum status parallel_sum_to_own(const struct step *step, struct tensor partial, struct tensor *out);

/* An F32 tensor as activations. */
enum status parallel_round(const struct step *step, const struct tensor *sum, const struct tensor *out);

#endif
