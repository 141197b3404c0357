/* Bytes on the links, by the formulas of spec parallelism 3.4, 5.2 and P-14. Pure functions; any thread. */
#ifndef SLUICE_TOOLS_PLAN_TRAFFIC_H
#define SLUICE_TOOLS_PLAN_TRAFFIC_H

#include <stdbool.h>

#include "parallel/step.h"
#include "tools/plan.h"

/* What a step moves, and in which form. */
struct plan_traffic_input {
    struct mesh_shape mesh;
    bool shares_rows; /* sequence parallelism, in this step */
    bool has_whole_shared_experts;
    bool is_strict; /* one result per token and expert returns, else one per token and rank (E-9) */
    enum expert_exchange exchange;
    double rows; /* of the step, on one replica */
    double logit_rows;
    double hidden_size;
    double attention_row_bytes; /* gathered for attention per row; the mean over layers */
    double boundary_row_bytes;
    double vocabulary_size;
    double expert_picks;     /* 0: no experts */
    double activation_bytes; /* of an element that is gathered */
    double partial_bytes;    /* of an element of a partial sum */
    double dispatch_bytes;   /* of an element on its way to experts */
    double combine_bytes;    /* and back */
};

/* Bytes that one rank sends; the mean over the ranks of a group. */
struct plan_traffic plan_traffic_make(const struct plan_traffic_input *input);

/* The input of a step of `rows` rows of a plan: in the forms that the engine has. */
struct plan_traffic_input plan_traffic_input_of(const struct plan *plan, double rows, double logit_rows);

#endif
