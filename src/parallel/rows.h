/*
 * Rows of a step with a tag that says which of them this rank has (spec parallelism G-6).
 *
 * What crosses a collective carries its tag from where it was made: nobody guesses it from a number of rows,
 * which is the same for all rows and for own ones if there is one row (spec B.2). Every collective says what
 * it takes and refuses the rest, also in a dry run. Only rows that exist are dealt out: there is no padding
 * that could get into a sum or to an expert (S-5, S-6).
 */
#ifndef SLUICE_PARALLEL_ROWS_H
#define SLUICE_PARALLEL_ROWS_H

#include "parallel/shard.h"
#include "parallel/step.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

enum rows_layout {
    ROWS_FULL,    /* all rows of the step, the same on every rank */
    ROWS_SHARD,   /* this rank's share of them */
    ROWS_PARTIAL, /* all rows, each a part of a sum over the ranks that is still owed */
};

struct placed_rows {
    struct tensor tensor; /* the first axis is rows */
    enum rows_layout layout;
    const struct row_shares *shares; /* of ROWS_SHARD: how they were dealt out; borrowed */
};

/* All `count` rows dealt out by S-1 over `ranks` ranks. */
struct row_shares row_shares_even(int64_t count, int ranks);

/* The rank that has row `row`. */
int row_shares_owner(const struct row_shares *shares, int ranks, int64_t row);

/* The rows of a step that this rank works on between attentions: its share, or all of them. */
struct shard_range parallel_own_range(const struct step *step);

/* How the step's batch looks to operations on own rows. */
struct batch_view parallel_own_batch(const struct step *step);

/* Results of an operation on rows that gives row i from row i: they are where those were. */
struct placed_rows placed_rows_like(const struct placed_rows *rows, struct tensor tensor);

/* A tensor (own rows, copies, width) of activations in the step arena. */
enum status parallel_own_tensor(const struct step *step, int64_t copies, int64_t width,
                                struct placed_rows *out);

/* INTERNAL unless `rows` are this rank's rows of the step, with no sum owed. `what` begins the sentence. */
enum status parallel_expect_own(const struct step *step, const struct placed_rows *rows, const char *what);

/* INTERNAL unless `rows` are all rows of the step, with no sum owed. */
enum status parallel_expect_full(const struct step *step, const struct placed_rows *rows, const char *what);

#endif
