/*
 * What a layout would hold, send and do on a described machine, worked out before anything is loaded
 * (promise P7; spec parallelism 2.8, 3.4, 6.5).
 *
 * A plan is made from a model without weights, a machine and a request. Memory is counted as the engine
 * counts it. Speed is a model, not a measurement: a step takes what its slowest limit takes (reading weights
 * and state, computing, links), at shares of the machine's limits that the engine aims at. One thread; a plan
 * borrows the model it was made from.
 */
#ifndef SLUICE_TOOLS_PLAN_H
#define SLUICE_TOOLS_PLAN_H

#include "engine/state_pool.h"
#include "parallel/mesh.h"
#include "parallel/sharing_choice.h"
#include "sluice/engine.h"
#include "tools/plan_machine.h"
#include "tools/plan_model.h"
#include "tools/plan_step.h"

/* What the user wants to run. */
struct plan_request {
    struct mesh_shape mesh;
    bool has_sequence_parallelism;
    int32_t shared_rows_min; /* rows that are shared; 0: 4 per rank */
    enum sluice_row_gather row_gather;
    enum sluice_expert_exchange expert_exchange;
    enum sluice_shared_experts shared_experts;
    struct sharing_rates rates; /* of a tensor group, by which the engine would choose how rows are shared; 0:
                                   not known, as to ranks that are threads and have no profile */
    bool has_movable_experts;   /* where whole experts lie on several ranks they may move; with copies, for
                                   which */
    int expert_copies;          /* a layer has so many places more than experts */
    bool has_prefix_cache;
    enum numerics numerics;
    int64_t context_tokens;                /* of the longest sequence */
    int32_t sequence_limit;                /* of one replica */
    int32_t step_tokens;                   /* rows of the largest step */
    int draft_limit;                       /* as the model was read with */
    bool chooses_drafts;                   /* how many, up to the limit; else always as many */
    enum sluice_stage_objective objective; /* of the partition */
    int64_t page_tokens;
    int groups_in_flight;        /* M; 0: one per stage */
    int boundary_buffers;        /* of a middle stage */
    unsigned thread_count;       /* host threads of kernels */
    const char *layer_partition; /* NULL: by cost */
};

/* One rank, native numerics, pages of 128 tokens, the engine's other defaults. */
struct plan_request plan_request_default(void);

/* Bytes that one rank sends in one step of a stage (plan_traffic.c). */
struct plan_traffic {
    double attention_bytes; /* per layer, inside the tensor group */
    double shared_bytes;    /* the same, for the shared expert */
    double route_bytes;     /* per layer with experts, in the expert group: who goes where, */
    double dispatch_bytes;  /* rows on their way, */
    double combine_bytes;   /* and results */
    double boundary_bytes;  /* to the next stage */
    double logit_bytes;     /* on the last stage, inside the tensor group */
};

/* Seconds of one step of a stage, and what they go to. */
struct plan_seconds {
    double total;
    double read; /* as if nothing else took time */
    double compute;
    double link;
};

/* One stage, as its fullest rank. */
struct plan_stage {
    int first_layer;
    int end_layer;
    uint64_t weight_bytes[PLAN_WEIGHTS_COUNT];
    uint64_t slot_bytes;        /* of one sequence */
    uint64_t snapshot_bytes;    /* of one beginning in the prefix cache */
    uint64_t page_bytes;        /* of page_tokens tokens */
    uint64_t state_fixed_bytes; /* all slots, snapshots and page tables */
    uint64_t boundary_bytes;    /* the rotation of boundary buffers (P-19) */
    uint64_t step_bytes;        /* activations and workspace */
    uint64_t draft_bytes;       /* buffers that exist because drafting is on; weights and state apart */
    uint64_t fixed_bytes;       /* everything but pages */
    int64_t page_count;         /* that fit besides; 0 if fixed_bytes alone do not */
    struct plan_seconds decode;
    struct plan_seconds prefill;
};

struct plan_speed {
    double cycle_seconds;             /* of a decoding round of every sequence */
    double tokens_per_round;          /* that a sequence gets in it, accepted drafts included */
    double tokens_per_second;         /* of all replicas */
    double prefill_tokens_per_second; /* the same */
    int64_t running_sequences;        /* of one replica: what speed was worked out for */
    int bottleneck_stage;             /* PLAN_BOUNDARIES: the links between stages */
};

enum { PLAN_BOUNDARIES = -1 };

struct plan {
    const struct plan_model *model;
    struct plan_machine machine;
    struct plan_request request;
    int *first_layers;                          /* [P + 1]; owned */
    struct plan_stage *stages;                  /* [P]; owned */
    double imbalance;                           /* largest over mean decoding time of a stage */
    bool is_group_local[MESH_GROUP_EXPERT + 1]; /* by enum mesh_group: no group leaves its host */
    double decode_hop_seconds;                  /* from stage to stage */
    double prefill_hop_seconds;
    struct plan_traffic decode_traffic; /* of one step of one group */
    struct plan_traffic prefill_traffic;
    int64_t token_capacity; /* of one replica: the least over stages; 0: a single sequence does not fit */
    int fullest_stage;      /* that limits it */
    struct plan_speed speed;
    bool fits;
};

/*
 * Makes a plan. Errors are those of spec 6.5, all but the one for memory: a plan that does not fit is made
 * all the same, with `fits` false; plan_check_memory has the sentence. `step`: of plan_step_measure, for the
 * same request. Owned: plan_deinit, also after a failure.
 */
enum status plan_make(const struct plan_model *model, const struct plan_machine *machine,
                      const struct plan_request *request, const struct plan_step_bytes *step,
                      struct plan *out);
void plan_deinit(struct plan *plan);

/* Full-length sequences of `context_tokens` that one replica can run at once. */
int64_t plan_sessions(const struct plan *plan, int64_t context_tokens);

uint64_t plan_stage_weight_bytes(const struct plan_stage *stage);

/* Bytes of a device that may be used. */
uint64_t plan_usable_bytes(const struct plan_machine *machine);

/* A full sequence's pages. */
int64_t plan_pages_of(const struct plan_request *request, int64_t context_tokens);

#endif
