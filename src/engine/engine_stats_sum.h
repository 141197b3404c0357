/*
 * Sums of statistics: over the replicas of an engine, over the workers of a server, over the runs of a
 * benchmark. Every field of sluice_engine_stats is either a counter or a gauge.
 */
#ifndef SLUICE_ENGINE_ENGINE_STATS_SUM_H
#define SLUICE_ENGINE_ENGINE_STATS_SUM_H

#include "sluice/engine.h"

/* Adds the counters, what only grows; with `sign` -1 takes them away. The larger number of stages stays. */
void engine_stats_add_counters(struct sluice_engine_stats *sum, const struct sluice_engine_stats *more,
                               int sign);

/*
 * Adds the gauges: what goes up and down. Of those that have no sum the largest is kept: gains of draft
 * probes, what the last step drafted, imbalances.
 */
void engine_stats_add_gauges(struct sluice_engine_stats *sum, const struct sluice_engine_stats *more);

/* One stage's counters and gauge: times, bytes and moves add up, of imbalances the larger one stays. */
void stage_stats_add(struct sluice_stage_stats *sum, const struct sluice_stage_stats *more);

#endif
