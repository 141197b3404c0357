/*
 * A leader that is no rank of its replica.
 *
 * Such a leader plans and takes in what was chosen, as any leader does (engine/round.h), but it has no stage,
 * no weights and no device; plans go to the first rank of all stages. Replicas that share experts have one
 * where they have several stages: so they agree on the next tick while their first stages compute this one
 * (spec parallelism E-18). And where they are processes: the one that opens the engine has the requests of
 * all replicas, and leads those that it is no rank of from here.
 */
#ifndef SLUICE_ENGINE_OUTSIDE_LEADER_H
#define SLUICE_ENGINE_OUTSIDE_LEADER_H

#include "engine/engine_core.h"

/* Zeroed: none. It stays where it is once it is open. */
struct outside_leader {
    struct executor_ranks ranks;
    struct engine_core *core;
};

/*
 * What it has in common with `first`, the first rank of all, is copied from there; groups are the caller's.
 * `number`: after those of all ranks.
 */
void outside_leader_place(struct outside_leader *leader, const struct executor_ranks *first, int replica,
                          int number);

/* After outside_leader_place. Owned: outside_leader_close. */
enum status outside_leader_open(struct outside_leader *leader, const struct sluice_engine_options *options);

/* Another context, before anything runs; as engine_core_set_context. */
enum status outside_leader_set_context(struct outside_leader *leader, int64_t context_tokens);

/* Host memory of its runner, and of its part of a timeline. */
size_t outside_leader_bytes(const struct outside_leader *leader);

/* Leaves its groups, then frees; nothing happens if it was never opened. */
void outside_leader_leave(struct outside_leader *leader);
void outside_leader_close(struct outside_leader *leader);

#endif
