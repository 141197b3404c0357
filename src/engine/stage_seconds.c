/* See the header: one maximum, with the draft layer and without. */
#include "engine/stage_seconds.h"

void stage_seconds_add(struct stage_seconds *stages, double seconds) {
    stages->slowest_before = seconds > stages->slowest_before ? seconds : stages->slowest_before;
    stages->all_before += seconds;
}

static double tick_of(const struct stage_seconds *stages, double last, int32_t ticks_under_way) {
    double slowest = last > stages->slowest_before ? last : stages->slowest_before;
    double share = (stages->all_before + last) / ticks_under_way;
    return slowest > share ? slowest : share;
}

struct tick_seconds stage_seconds_of_tick(const struct stage_seconds *stages, int32_t ticks_under_way) {
    double step = tick_of(stages, stages->last, ticks_under_way);
    double whole = tick_of(stages, stages->last + stages->draft, ticks_under_way);
    return (struct tick_seconds){.step = step, .draft = whole - step};
}
