/*
 * What replicas that share experts agree on before each tick (spec parallelism 5.6).
 *
 * The leaders of all replicas, which are threads of one process, exchange one small record each, and all come
 * to the same result: whether there
 * is a tick, and how many draft passes it has. Each takes part in a tick with its own rows or without any.
 * Ticks stop when nobody has rows and nothing is under way; who has work then calls the others to the next
 * exchange (engine/engine_loop.c), and until then nobody does anything.
 */
#ifndef SLUICE_ENGINE_LOCKSTEP_H
#define SLUICE_ENGINE_LOCKSTEP_H

#include <stdbool.h>

#include "comm/comm.h"

/* What one replica brings. */
struct lockstep_wish {
    int32_t rows; /* of its next tick; 0: nothing is planned */
    int32_t draft_passes;
    int32_t in_flight; /* ticks that it has not finished */
    bool is_ending;    /* its engine closes */
};

/* What all agreed on. */
struct lockstep_tick {
    int64_t rows;         /* of all replicas; 0: there is no tick now */
    int32_t draft_passes; /* the most that one of them wants (M-39) */
    bool is_idle;         /* no tick, and none under way anywhere: everyone may sleep */
    bool is_end;          /* all are ending */
};

/*
 * Collective. `leaders`: the group of all replicas' leaders; NULL: one replica, which agrees with itself.
 * `number`: of the exchange, equal everywhere; INTERNAL names a replica that is at another one.
 */
enum status lockstep_agree(struct comm *leaders, uint64_t number, const struct lockstep_wish *own,
                           struct lockstep_tick *out);

#endif
