/*
 * What a tick takes of a pipeline's time, from what its stages took (spec parallelism M-34, M-42).
 *
 * With as many ticks under way as there are stages, the slowest stage sets the pace; with one tick, tokens
 * come after all stages have had it. In between a tick takes its share of the way through all of them:
 *
 *     seconds = max(slowest stage, sum of stages / ticks under way)
 *
 * The draft layer runs on the last stage, after its layers, while the others are at other ticks. So it costs
 * what it adds to that maximum: nothing as long as the last stage stays faster than the slowest one.
 */
#ifndef SLUICE_ENGINE_STAGE_SECONDS_H
#define SLUICE_ENGINE_STAGE_SECONDS_H

#include <stdint.h>

/* How long the stages of a tick computed; waits for each other are not in it. */
struct stage_seconds {
    double slowest_before; /* of all stages but the last */
    double all_before;     /* their sum */
    double last;           /* layers, head and choice of the last stage */
    double draft;          /* what it does after them */
};

struct tick_seconds {
    double step;  /* without the draft layer */
    double draft; /* what the draft layer adds */
};

/* One more stage before the last has computed for so long. */
void stage_seconds_add(struct stage_seconds *stages, double seconds);

/* The formula above, with `ticks_under_way` of 1 and more. */
struct tick_seconds stage_seconds_of_tick(const struct stage_seconds *stages, int32_t ticks_under_way);

#endif
