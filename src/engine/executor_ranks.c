/* Deadlines change on the rank's own thread, between two steps. */
#include "engine/executor_ranks.h"

enum { WARM_UP_TICKS = 8 };

static void set_deadline(struct comm *comm, double seconds) {
    if (comm != NULL) {
        comm_set_deadline(comm, seconds);
    }
}

void executor_ranks_begin_tick(struct executor_ranks *ranks, uint64_t number) {
    if (ranks->watch != NULL) {
        atomic_store(&ranks->watch->tick, number);
    }
    if (number == WARM_UP_TICKS && ranks->deadline_seconds > 0) {
        set_deadline(ranks->control, ranks->deadline_seconds);
        set_deadline(ranks->step.tensor, ranks->deadline_seconds);
        set_deadline(ranks->pipeline, ranks->deadline_seconds);
    }
}
