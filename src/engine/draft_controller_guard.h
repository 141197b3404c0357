/*
 * Whether drafting really brings more tokens per second than not drafting (spec parallelism, M-37).
 *
 * Load is the number of running sequences, kept as it was while they come and go. Per bucket of load: after a
 * period of drafting ticks, up to 2048, a probe of 16 ticks without it is due, of 6 if drafting is clearly
 * faster. Two probes in a row that were faster forbid drafting for a hold time, twice as long each time it
 * happens again. The guard sees measured seconds, not the estimates that the choice is made from. Until
 * drafting is clearly ahead in a bucket, periods are short.
 */
#ifndef SLUICE_ENGINE_DRAFT_CONTROLLER_GUARD_H
#define SLUICE_ENGINE_DRAFT_CONTROLLER_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/draft_controller_costs.h"

enum { GUARD_PROBE_TICKS = 16, GUARD_SHORT_PROBE_TICKS = 6, GUARD_PERIOD_TICKS = 2048 };

/* All zero: nothing was seen. */
struct guard_bucket {
    int64_t draft_ticks; /* since the last probe */
    double draft_tokens;
    double draft_seconds;
    int32_t period_ticks; /* 0: the first one */
    int32_t losses;       /* probes in a row that beat drafting */
    int64_t held_until;   /* tick before which drafting is forbidden */
    int64_t hold_ticks;   /* of the next hold; 0: the first one */
};

struct draft_guard {
    struct guard_bucket buckets[COST_POINTS];
    int32_t probe_ticks;
    double probe_tokens;
    double probe_seconds;
    double probe_gain; /* tokens per second of drafting over those of the last probe; 0: none yet */
    int64_t trips;
};

/* The load of a tick after that of the tick before (0: none). */
int32_t draft_guard_load(int32_t load_before, int32_t sequence_count);

/* Whether a probe should begin. */
bool draft_guard_is_due(const struct draft_guard *guard, int32_t load);

/* Whether drafting is forbidden. */
bool draft_guard_holds(const struct draft_guard *guard, int32_t load, int64_t tick);

/* A tick in the midst of drafting, without prompts. */
void draft_guard_add_drafting(struct draft_guard *guard, int32_t load, double tokens, double seconds);

/* Forgets the ticks of a probe that is begun. */
void draft_guard_begin_probe(struct draft_guard *guard);

/* A tick of a probe that verified no drafts and had no prompts. True: it was the last and the verdict is in.
 */
bool draft_guard_add_probe(struct draft_guard *guard, int32_t load, double tokens, double seconds,
                           int64_t tick);

/* Gives up a probe that does not come to its end: the next is due after another period. */
void draft_guard_abandon_probe(struct draft_guard *guard, int32_t load);

#endif
