/*
 * What the files of parallel/collectives.h share.
 */
#ifndef SLUICE_PARALLEL_COLLECTIVES_INTERNAL_H
#define SLUICE_PARALLEL_COLLECTIVES_INTERNAL_H

#include "parallel/rows.h"

/* Ranks that bring rows together. */
struct gather_group {
    struct comm *comm;
    int count;
};

/* Ranks of the stage. */
struct gather_group parallel_stage_group(const struct step *step);

/* offsets[0 .. ranks]: where each of `ranks` ranks' rows begin among all. */
void parallel_byte_offsets(const struct row_shares *shares, int ranks, size_t row_bytes, size_t *offsets);

/*
 * Collective. All `count` rows, in the step arena, of tensors that hold each rank's share. No rank sends
 * anything if there are no rows.
 */
enum status parallel_gather_tensor(const struct step *step, struct gather_group group,
                                   const struct row_shares *shares, struct tensor own, int64_t count,
                                   struct tensor *out);

/* The same; the rows are there, and `own` is free, when the flight is finished. */
enum status parallel_start_gather(const struct step *step, struct gather_group group,
                                  const struct row_shares *shares, struct tensor own, int64_t count,
                                  struct tensor *out, struct comm_flight *flight);

/*
 * Collective. The own rows of a sum over ranks, from F32 parts (rows, ..) of all rows; `out` is inside of
 * `partial`, whose other rows are undefined afterwards.
 */
enum status parallel_sum_to_own(const struct step *step, struct tensor partial, struct tensor *out);

/* An F32 tensor as activations. */
enum status parallel_round(const struct step *step, const struct tensor *sum, const struct tensor *out);

#endif
