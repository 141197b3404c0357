/*
 * Whole experts move between the ranks of a stage while these serve (spec parallelism 5.5).
 *
 * Every so many steps a stage's first rank chooses where experts are to lie, by what was picked since, and
 * tells the others; each begins to read what it is to get from the files. Some steps later, at the beginning
 * of the same step, all of them switch. Nothing stops, no bit changes, and stages do so by themselves.
 */
#ifndef SLUICE_ENGINE_EXECUTOR_BALANCE_H
#define SLUICE_ENGINE_EXECUTOR_BALANCE_H

#include "engine/executor_ranks.h"

/*
 * What the options ask for. OUT_OF_RANGE says what cannot be. Nothing to do where experts stay or lie on one
 * rank. Owned: executor_balance_deinit.
 */
enum status executor_balance_init(struct executor_ranks *ranks,
                                  const struct sluice_parallel_options *parallel, const struct model *model);
void executor_balance_deinit(struct executor_ranks *ranks);

/* Whether whole experts move in ranks of such options. */
bool executor_balance_is_wanted(const struct sluice_parallel_options *parallel);

/* Collective. A step of the stage begins, on all of its ranks. */
enum status executor_balance_begin_step(struct executor_ranks *ranks, const struct model *model);

#endif
