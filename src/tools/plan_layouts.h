/* Layouts for a machine: all that can run are planned, the fastest are kept. */
#ifndef SLUICE_TOOLS_PLAN_LAYOUTS_H
#define SLUICE_TOOLS_PLAN_LAYOUTS_H

#include "tools/plan.h"

enum { PLAN_LAYOUTS_MAX = 8 };

/* The fastest layouts that fit, best first. */
struct plan_layouts {
    struct plan plans[PLAN_LAYOUTS_MAX];
    int count;
    int tried; /* that pass the checks */
    int fitting;
    struct plan
        nearest; /* of those that do not fit, the one that lacks least; if count is 0 and tried is not */
};

/*
 * Plans every layout of all the machine's devices: tensor parallelism of each valid size, any number of
 * stages, replicas for the rest. request->sequence_limit sequences are shared by the replicas; its mesh
 * counts for nothing. Expert and sequence parallelism are on wherever there are ranks for them. Keeps the
 * `wanted` best by tokens per second. Owned: plan_layouts_deinit, also after a failure.
 */
enum status plan_layouts_find(const struct plan_model *model, const struct plan_machine *machine,
                              const struct plan_request *request, const struct plan_step_bytes *step,
                              int wanted, struct plan_layouts *out);
void plan_layouts_deinit(struct plan_layouts *layouts);

/* One machine size of a table. */
struct plan_scale_row {
    int rank_count;
    int32_t sequence_limit; /* of all replicas */
    bool fits;
    struct plan plan; /* the best layout if `fits`, else the nearest; empty if none passed the checks */
};

enum { PLAN_SCALE_MAX = 16 };

struct plan_scale {
    struct plan_scale_row rows[PLAN_SCALE_MAX];
    int count;
};

/*
 * The best layout for each number of ranks: "16,32,64". The sequences of the request are those of the first
 * one and grow with the ranks. USAGE if the text is no list of ascending numbers that fill hosts. Owned:
 * plan_scale_deinit, also after a failure.
 */
enum status plan_scale_make(const struct plan_model *model, const struct plan_machine *machine,
                            const struct plan_request *request, const struct plan_step_bytes *step,
                            const char *rank_counts, struct plan_scale *out);
void plan_scale_deinit(struct plan_scale *scale);

#endif
