/* What an answer reports to the metrics. */
#ifndef SLUICE_SERVER_ANSWER_METRICS_H
#define SLUICE_SERVER_ANSWER_METRICS_H

#include "server/answer.h"
#include "server/metrics.h"

/* Tokens of the item came. */
void answer_metrics_take(struct answer_item *item, size_t token_count);

/* The item has ended, or was given up: METRICS_ABORT and METRICS_ERROR. */
void answer_metrics_end(const struct answer_item *item, enum metrics_finish finish);

#endif
