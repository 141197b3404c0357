/*
 * Rows go to experts that lie on several ranks, and results come back, while the caller computes something
 * else (spec parallelism 5.2, E-23): between two of these calls it does what needs neither.
 *
 *     parallel_send_to_experts   rows start
 *     ...
 *     parallel_run_experts       rows have come; experts compute; results start
 *     ...
 *     parallel_take_results      results have come
 *
 * Collective, as all of parallel/collectives.h. One rank alone computes in the first call. The step arena may
 * be released to a mark before it only after the last. Bits depend on nothing of this.
 */
#ifndef SLUICE_PARALLEL_EXPERT_TRIP_H
#define SLUICE_PARALLEL_EXPERT_TRIP_H

#include "parallel/expert_routes.h"
#include "parallel/rows.h"

enum expert_way {
    EXPERT_WAY_HERE,     /* nobody else has experts */
    EXPERT_WAY_SUM,      /* every expert is cut: each rank has a part of every result */
    EXPERT_WAY_GATHER,   /* every rank has all rows, and wants all results */
    EXPERT_WAY_EXCHANGE, /* each rank brings rows of its own */
};

/* For parallel/ to know. */
struct expert_trip {
    const struct step *step;
    enum expert_way way;
    struct moe_experts_args args; /* of the rows that this rank brings */
    struct moe_experts_args here; /* of those that it computes */
    struct expert_routes routes;
    struct comm_flight flight; /* of rows, then of results */
    void *received;            /* results as they come in */
    struct tensor all_results; /* of all rows, where ranks that have them all bring an even share each */
};

/*
 * op_moe_experts over experts that lie on several ranks, for own rows: args->bank holds this rank's experts,
 * or its part of all of them, or all where they move; args->x is rows->tensor, and args->out, of activation
 * type, has the own rows. Each result comes from where its expert is, by itself (E-9 strict). `args` is
 * copied; what it points to is borrowed until the end.
 *
 * Replicas may share experts: then rows of a step are those of all of them, and where the ranks of a replica
 * each have all of its rows, each brings its even share of these (S-27). A replica without rows takes part
 * with none (E-19).
 */
enum status parallel_send_to_experts(const struct step *step, const struct placed_rows *rows,
                                     const struct moe_experts_args *args, const struct layer_experts *layer,
                                     struct expert_trip *out);
enum status parallel_run_experts(struct expert_trip *trip);
enum status parallel_take_results(struct expert_trip *trip);

#endif
