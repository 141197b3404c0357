/* What the metrics say of the pipeline. */
#ifndef SLUICE_SERVER_METRICS_STAGES_H
#define SLUICE_SERVER_METRICS_STAGES_H

#include "server/metrics_sample.h"
#include "sluice/engine.h"

/* Times of stages; bytes on links, if there are any; experts that moved, if stages have several ranks. */
void metrics_write_stages(const struct metrics_text *text, const struct sluice_engine_stats *stats,
                          double imbalance);

#endif
