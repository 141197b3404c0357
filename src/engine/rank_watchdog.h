/*
 * Watches over ranks that are threads: one that gets nowhere is named in time (spec parallelism D-5, F-1).
 *
 * A rank gets on when it begins an operation or one of the tasks of a kernel, so that computing may take as
 * long as it needs. While a round is under way a rank that neither waits nor gets on for the deadline hangs;
 * where all that work wait for each other for so long, none ever will get on. Then the groups of all ranks
 * are aborted with one sentence, which is also in the log. In the first ticks the deadline is longer: they
 * may read weights from a slow disk. Ranks that are processes are watched from outside
 * (launch/job_supervisor.h).
 */
#ifndef SLUICE_ENGINE_RANK_WATCHDOG_H
#define SLUICE_ENGINE_RANK_WATCHDOG_H

#include "base/worker_pool.h"
#include "engine/executor_ranks.h"
#include "ops/op_queue.h"

/* What a rank is at: written by it, read by the watchdog. Zeroed: at nothing. */
struct rank_pulse {
    struct comm_watch wait; /* of all its groups */
    struct op_pulse ops;
    atomic_bool is_working;         /* at its part of a round */
    const struct worker_pool *pool; /* set before it works; NULL: none */
};

struct watched_member {
    const struct rank_pulse *pulse;
    const struct executor_ranks *ranks;
};

struct rank_watchdog;

/*
 * Starts a thread that looks at `count` ranks, which are borrowed. Owned: rank_watchdog_stop.
 * deadline_seconds: above 0.
 */
enum status rank_watchdog_start(const struct watched_member *members, int count, double deadline_seconds,
                                struct rank_watchdog **out);

/* Whether ranks were aborted, and the one that was named has not got on since. Any thread. */
bool rank_watchdog_is_hanging(const struct rank_watchdog *watchdog);

/* Ends the thread, frees and nulls; NULL inside is allowed. */
void rank_watchdog_stop(struct rank_watchdog **watchdog);

#endif
