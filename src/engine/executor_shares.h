/*
 * Which rows of a pass this rank works on, and which of them others want.
 *
 * Main layers deal the rows of a step out evenly if there are enough of them (spec parallelism S-1, S-28).
 * Draft passes leave rows where their source rows are: nothing of a boundary ever moves between the ranks of
 * a stage (S-26).
 */
#ifndef SLUICE_ENGINE_EXECUTOR_SHARES_H
#define SLUICE_ENGINE_EXECUTOR_SHARES_H

#include "engine/executor_internal.h"

/* As the rows of a step are dealt out: by their number and what all ranks were opened with. */
struct row_deal executor_deal_step(const struct executor *executor, int64_t rows);

/*
 * Collective where replicas share experts: learns which rows of a pass each expert rank brings, given this
 * replica's `rows`, at most `limit` in each of them. `rows` may be 0.
 */
enum status executor_share_experts(struct executor *executor, int64_t rows, int64_t limit,
                                   const struct row_deal *deal);

/* Rows that this rank needs room for in the boundary of steps of up to row_limit rows (T-15). */
int64_t executor_boundary_rows(const struct executor *executor);

/*
 * Row i of a draft pass is where row source_rows[i] of a boundary is, whose rows were dealt out as `source`
 * says. source_rows: host [count], none of a rank behind one of a higher rank; unused in a dry run.
 */
enum status executor_deal_sources(const struct executor *executor, const struct row_deal *source,
                                  const int32_t *source_rows, int64_t count, struct row_deal *out);

/* The first of `rows` rows that a boundary's memory holds of a pass dealt out as `deal` says; `deal` is kept.
 */
struct boundary executor_own_boundary(const struct executor *executor, const struct boundary *memory,
                                      int64_t rows, const struct row_deal *deal);

/* This rank's share of `rows` rows. */
struct shard_range executor_own_range(const struct executor *executor, int64_t rows,
                                      const struct row_deal *deal);

#endif
