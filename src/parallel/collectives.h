/*
 * Where ranks share the work of a step: what a model asks for by meaning, and one rank gets for nothing.
 *
 * Between attentions each rank works on its own rows, which are its share of them or all (parallel/rows.h);
 * one definition of a model serves both. All functions are collective: every rank of the stage calls them in
 * the same order in the same step, also those without rows. Sums are fp32 and go in the tree that the
 * weights' leaves begin (tensor/leaves.h), so that the bits depend neither on how many ranks there are nor on
 * how rows are dealt out (spec parallelism S-3, S-4, 6.1 L1). In a dry run tags are checked and memory is
 * planned, and nothing moves.
 */
#ifndef SLUICE_PARALLEL_COLLECTIVES_H
#define SLUICE_PARALLEL_COLLECTIVES_H

#include "parallel/rows.h"

/* All rows from own ones; `out` is in the step arena, or the rows themselves where every rank has all (S-2).
 */
enum status parallel_gather_rows(const struct step *step, const struct placed_rows *own,
                                 struct placed_rows *out);

/* Own rows of what all ranks have; a view (S-1). */
enum status parallel_shard_rows(const struct step *step, const struct placed_rows *full,
                                struct placed_rows *out);

/*
 * The rows that the first projections of a layer's attention run on, given own rows: all of them, which are
 * gathered here, or own ones, of whose projections the caller makes all rows by parallel_complete_rows (spec
 * 3.6). `layer`: by number; the draft layer comes behind the model's.
 */
enum status parallel_rows_for_attention(const struct step *step, int layer, const struct placed_rows *own,
                                        struct placed_rows *out);

/* All rows, from own ones or from what is all rows already. */
enum status parallel_complete_rows(const struct step *step, const struct placed_rows *rows,
                                   struct tensor *out);

/* Own rows, from all rows or from what are own rows already. */
enum status parallel_reduce_to_own(const struct step *step, const struct placed_rows *rows,
                                   struct placed_rows *out);

/*
 * The rows that a chain of products is to run on, given own rows: the own ones, or all of them if ranks share
 * the columns of `last`, the last matrix of the chain (spec 3.5).
 */
enum status parallel_rows_for_product(const struct step *step, const struct weight *last,
                                      const struct placed_rows *own, struct placed_rows *out);

/* Element type of a product: fp32 where ranks share the columns, so that a sum is owed, else activations'. */
enum dtype parallel_product_dtype(const struct step *step, const struct weight *weight);

/* Tags `product`, of parallel_product_dtype, of `weight` and `x`. Where ranks share columns x is all rows. */
enum status parallel_tag_product(const struct step *step, const struct weight *weight,
                                 const struct placed_rows *x, struct tensor product, struct placed_rows *out);

/* Own rows (rows, width) of a product: of the sum where one is owed (S-3), else the product itself. */
enum status parallel_sum_rows(const struct step *step, const struct placed_rows *product,
                              struct placed_rows *out);

/* Rows that are wanted on all ranks, such as those whose logits are: who has which. */
struct picked_rows {
    const int32_t *rows; /* device: which of the own rows [own_count]; NULL: the first ones */
    int64_t own_count;
    int64_t count;                   /* on all ranks together */
    const struct row_shares *shares; /* of the wanted rows, in their order; NULL: every rank has them all */
};

/* All picked rows (count, width) from the own ones (own_count, width). */
enum status parallel_gather_picked(const struct step *step, const struct picked_rows *picked,
                                   struct tensor own, struct tensor *out);

#endif
