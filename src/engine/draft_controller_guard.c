/* Sums per bucket, compared when a probe ends. */
#include "engine/draft_controller_guard.h"

enum {
    FIRST_PERIOD_TICKS = 24,
    FIRST_PERIOD_ROUNDS = 192, /* fewer sequences: more ticks, for the accepted tokens to average out */
    FIRST_HOLD_TICKS = 1024,
    LONGEST_HOLD_TICKS = 65536,
    LOSSES_TO_TRIP = 2,
};

static const double RECENT_KEEP = 1 - 1.0 / 256; /* ticks of a slower past are not for comparison */
static const double SHORT_PROBE_GAIN = 1.08;
static const double CLEAR_GAIN = 1.2; /* no need to look again soon */
static const double SURE_GAIN = 1.02; /* forgives earlier trips */

int32_t draft_guard_load(int32_t load_before, int32_t sequence_count) {
    bool is_near = 5 * sequence_count >= 4 * load_before && 4 * sequence_count <= 5 * load_before;
    return is_near ? load_before : sequence_count;
}

static int32_t first_period(int32_t load) {
    int32_t ticks = FIRST_PERIOD_ROUNDS / load;
    return ticks > FIRST_PERIOD_TICKS ? ticks : FIRST_PERIOD_TICKS;
}

bool draft_guard_is_due(const struct draft_guard *guard, int32_t load) {
    const struct guard_bucket *bucket = &guard->buckets[cost_point_of(load)];
    int32_t period = bucket->period_ticks > 0 ? bucket->period_ticks : first_period(load);
    return bucket->draft_ticks >= period;
}

bool draft_guard_holds(const struct draft_guard *guard, int32_t load, int64_t tick) {
    return tick < guard->buckets[cost_point_of(load)].held_until;
}

void draft_guard_add_drafting(struct draft_guard *guard, int32_t load, double tokens, double seconds) {
    struct guard_bucket *bucket = &guard->buckets[cost_point_of(load)];
    bucket->draft_ticks++;
    bucket->draft_tokens = RECENT_KEEP * bucket->draft_tokens + tokens;
    bucket->draft_seconds = RECENT_KEEP * bucket->draft_seconds + seconds;
}

static void begin_window(struct guard_bucket *bucket) {
    bucket->draft_ticks = 0;
    bucket->draft_tokens = 0;
    bucket->draft_seconds = 0;
}

void draft_guard_begin_probe(struct draft_guard *guard) {
    guard->probe_ticks = 0;
    guard->probe_tokens = 0;
    guard->probe_seconds = 0;
}

static void trip(struct draft_guard *guard, struct guard_bucket *bucket, int64_t tick) {
    int64_t hold = bucket->hold_ticks > 0 ? bucket->hold_ticks : FIRST_HOLD_TICKS;
    guard->trips++;
    bucket->held_until = tick + 1 + hold;
    bucket->hold_ticks = hold * 2 < LONGEST_HOLD_TICKS ? hold * 2 : LONGEST_HOLD_TICKS;
    bucket->losses = 0;
}

static void judge(struct draft_guard *guard, struct guard_bucket *bucket, int32_t load, int64_t tick) {
    double draft_rate = bucket->draft_tokens / bucket->draft_seconds;
    guard->probe_gain = draft_rate / (guard->probe_tokens / guard->probe_seconds);
    int32_t period = bucket->period_ticks > 0 ? bucket->period_ticks : first_period(load);
    if (guard->probe_gain < 1) {
        bucket->losses++;
        bucket->period_ticks = 0;
        if (bucket->losses >= LOSSES_TO_TRIP) {
            trip(guard, bucket, tick);
        }
        return;
    }
    bucket->losses = 0;
    bucket->hold_ticks = guard->probe_gain >= SURE_GAIN ? 0 : bucket->hold_ticks;
    period = guard->probe_gain >= CLEAR_GAIN ? GUARD_PERIOD_TICKS : 2 * period;
    bucket->period_ticks = period < GUARD_PERIOD_TICKS ? period : GUARD_PERIOD_TICKS;
}

/* Going on without drafts would only cost. */
static bool is_clearly_ahead(const struct draft_guard *guard, const struct guard_bucket *bucket) {
    return bucket->draft_tokens * guard->probe_seconds >
           SHORT_PROBE_GAIN * guard->probe_tokens * bucket->draft_seconds;
}

bool draft_guard_add_probe(struct draft_guard *guard, int32_t load, double tokens, double seconds,
                           int64_t tick) {
    guard->probe_ticks++;
    guard->probe_tokens += tokens;
    guard->probe_seconds += seconds;
    struct guard_bucket *bucket = &guard->buckets[cost_point_of(load)];
    bool is_enough = guard->probe_ticks >= GUARD_PROBE_TICKS ||
                     (guard->probe_ticks >= GUARD_SHORT_PROBE_TICKS && is_clearly_ahead(guard, bucket));
    if (!is_enough) {
        return false;
    }
    if (bucket->draft_seconds > 0 && guard->probe_seconds > 0) {
        judge(guard, bucket, load, tick);
    }
    begin_window(bucket);
    return true;
}

void draft_guard_abandon_probe(struct draft_guard *guard, int32_t load) {
    begin_window(&guard->buckets[cost_point_of(load)]);
}
