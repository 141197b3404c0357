/* Bytes on the links, by the formulas of spec parallelism 3.4, 5.2 and P-14. Pure functions; any thread. */
#ifndef SLUICE_TOOLS_PLAN_TRAFFIC_H
#define SLUICE_TOOLS_PLAN_TRAFFIC_H

#include <stdbool.h>

#include "tools/plan.h"

/* What a step moves, and in which form. */
struct plan_traffic_input {
    struct mesh_shape mesh;
    bool has_sequence_parallelism;
    bool is_strict; /* one result per token and expert returns, else one per token and rank (E-9) */
    double rows;    /* of the step, on one replica */
    double logit_rows;
    double hidden_size;
    double boundary_row_bytes;
    double vocabulary_size;
    double expert_picks;     /* 0: no experts */
    double activation_bytes; /* of an element that is gathered */
    double partial_bytes;    /* of an element of a partial sum */
    double dispatch_bytes;   /* of an element on its way to experts */
    double combine_bytes;    /* and back */
};

/* Bytes that one rank sends. */
struct plan_traffic plan_traffic_make(const struct plan_traffic_input *input);

/* The input of a step of `rows` rows of a plan: strict sums, as the engine has them. */
struct plan_traffic_input plan_traffic_input_of(const struct plan *plan, double rows, double logit_rows);

#endif
