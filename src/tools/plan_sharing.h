/*
 * How the ranks of a tensor group share rows in a planned layout: as was asked for, else as the engine
 * chooses. Pure functions.
 */
#ifndef SLUICE_TOOLS_PLAN_SHARING_H
#define SLUICE_TOOLS_PLAN_SHARING_H

#include "parallel/step.h"
#include "tools/plan.h"

/* Whether the rows of a step of so many are shared. */
bool plan_shares_rows(const struct plan_request *request, double rows);

/* Rows of the largest step whose rows are not shared. */
int64_t plan_unshared_rows(const struct plan_request *request);

/* Rows of the boundary of the largest step that a rank has room for (T-15). */
int64_t plan_boundary_rows(const struct plan_request *request);

/* Whether every rank has the shared experts whole (spec parallelism 3.5). */
bool plan_has_whole_shared_experts(const struct model *model, const struct plan_request *request);

/* Whether experts can move, which takes several ranks that have whole ones. */
bool plan_moves_experts(const struct plan_request *request);

/* Places of a layer beyond its experts. */
int plan_expert_copies(const struct plan_request *request);

/* How shared rows get to their experts. */
enum expert_exchange plan_expert_exchange(const struct model *model, const struct plan_request *request);

/* Whether attentions that want `rows` gather what their first projections give, rather than rows (S-15). */
bool plan_gathers_late(const struct plan_request *request, const struct attention_rows *rows);

/* How fast the tensor groups of a layout are on a machine; of groups on several hosts if any is. */
struct sharing_rates plan_sharing_rates(const struct plan_machine *machine, const struct mesh_shape *mesh);

/* Layers whose attention gathers alike; bytes are those of a row. */
struct plan_gather {
    int first_layer;
    int layer_count;
    bool is_late;
    size_t early_bytes;  /* the row itself, */
    size_t late_bytes;   /* what its first projections give, */
    size_t chosen_bytes; /* and besides, either way, which entries it attends to */
    double operations;   /* of its first projections, which early gathering has all ranks compute */
};

/*
 * The kind of layers after the one that `out` holds, by first layer; `out` zeroed: the first. False behind
 * the last, and where no step's rows are shared.
 */
bool plan_next_gather(const struct model *model, const struct plan_request *request, struct plan_gather *out);

#endif
