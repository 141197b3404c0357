/* Sums of what several engines, or one after the other, have done. */
#ifndef SLUICE_SERVER_SERVICE_STATS_H
#define SLUICE_SERVER_SERVICE_STATS_H

#include "server/service.h"

/* Adds the counters: what only grows. */
void service_stats_add_counters(struct sluice_engine_stats *sum, const struct sluice_engine_stats *stats);

/*
 * Adds the gauges: what goes up and down. Of those that have no sum the largest is kept: gains of draft
 * probes, numbers of drafts, imbalances.
 */
void service_stats_add_gauges(struct sluice_engine_stats *sum, const struct sluice_engine_stats *stats);

#endif
