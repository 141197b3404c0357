/* Why one layout is faster than another, in a sentence: what a token's time goes to, and what else differs.
 */
#ifndef SLUICE_TOOLS_PLAN_REASONS_H
#define SLUICE_TOOLS_PLAN_REASONS_H

#include "tools/plan.h"

/* What a token's time goes to, all sequences together. */
enum plan_cause {
    PLAN_CAUSE_READING,
    PLAN_CAUSE_COMPUTING,
    PLAN_CAUSE_LINKS,   /* in the slowest stage, or the boundaries if they are slower than any */
    PLAN_CAUSE_UNEVEN,  /* stages that wait for the slowest one */
    PLAN_CAUSE_WAITING, /* too few groups in flight for the stages */
    PLAN_CAUSE_COUNT,
};

/* Seconds by cause; their sum is one over the plan's tokens per second. */
void plan_reasons_split(const struct plan *plan, double seconds[PLAN_CAUSE_COUNT]);

/* One line without its end: why `plan` is the best, if it is `best`; else what it loses and gains beside it.
 */
void plan_reasons_append(const struct plan *plan, const struct plan *best, struct string_buffer *out);

#endif
