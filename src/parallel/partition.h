/*
 * Which layers each pipeline stage owns (spec parallelism 2.1).
 *
 * A partition is an array first_layers of P + 1 numbers: stage s owns layers first_layers[s] up to, and
 * without, first_layers[s + 1]. A stage owns at least one layer, but for the last one, which has the head.
 * Pure functions; any thread.
 */
#ifndef SLUICE_PARALLEL_PARTITION_H
#define SLUICE_PARALLEL_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Two layers of which the later one reads what the earlier one left: no cut may come between (P-8). */
struct partition_dependency {
    int earlier_layer;
    int later_layer;
};

/* What stages cost in one more kind of step. */
struct partition_load {
    const double *layer_costs; /* [layer_count] */
    double first_cost;
    double last_cost;
    double tokens; /* that such a step is expected to bring, for each of a step of the first kind */
};

enum partition_objective {
    PARTITION_BY_COST,  /* the smallest largest cost */
    PARTITION_BY_PAGES, /* the most state, that is, the smallest largest share of pages; then by cost (P-38)
                         */
};

/* What stages cost and hold. Costs have any unit, such as seconds of a step. */
struct partition_input {
    int layer_count;
    const double *layer_costs; /* [layer_count] */
    double first_cost;         /* besides layers, of the first stage: embedding */
    double last_cost;          /* of the last one: norm, head, draft layer */
    const double *layer_bytes; /* [layer_count]: weights and state on one rank; NULL: memory is no matter */
    double stage_bytes;        /* of any stage: activations, boundary buffers */
    double first_bytes;        /* besides, of the first stage */
    double last_bytes;         /* of the last one */
    double byte_limit;         /* of a stage */
    const double *byte_limits; /* [stages]: of each; NULL: byte_limit is for all */
    /* NULL, or steps that may be run instead of these, such as with drafts, which may be refused. Where they
       promise a fifth more tokens in the time, each with the best partition for it alone, a stage costs the
       larger of both, in parts of what that partition costs; else there will be few of them, and they count
       for nothing. */
    const struct partition_load *other;
    enum partition_objective objective;
    const double *layer_page_bytes; /* by pages: [layer_count], what a page of state takes of layer_bytes */
    double last_page_bytes;         /* the same, of the draft layer */
    const struct partition_dependency *dependencies;
    int dependency_count;
};

/*
 * The partition that serves the objective best, of those that fit into memory and keep dependent layers
 * together (P-3, P-5). Among equals the most even one (least sum of squares), then the one with fewer layers
 * on the last stage, then on the first, then on the second and so on. BAD_CONFIG if there are more stages
 * than P-1 or dependencies allow; OUT_OF_MEMORY if no partition fits. first_layers: [stage_count + 1].
 */
enum status partition_choose(const struct partition_input *input, int stage_count, int *first_layers);

/*
 * What the dearest stage of a partition costs, over that of the one that partition_choose chooses. Infinite
 * for one that memory or dependencies forbid. Errors as there.
 */
enum status partition_loss(const struct partition_input *input, int stage_count, const int *first_layers,
                           double *loss);

/*
 * Whether the other kind of steps has a say in what partition_choose chooses: false if there is none, or it
 * promises too little. Errors as there.
 */
enum status partition_weighs_other(const struct partition_input *input, int stage_count, bool *weighs);

/*
 * The partition that a user wrote: "12,12,12,7", as many layers as the model has on as many stages (P-2).
 * USAGE says what is wrong with it.
 */
enum status partition_parse(const char *text, int layer_count, int stage_count, int *first_layers);

/* The same, if it keeps dependent layers together (P-8); else BAD_CONFIG with two that it separates. */
enum status partition_read(const struct partition_input *input, const char *text, int stage_count,
                           int *first_layers);

/* What stage `stage` costs, and what it holds. */
double partition_stage_cost(const struct partition_input *input, int stage_count, const int *first_layers,
                            int stage);
double partition_stage_bytes(const struct partition_input *input, int stage_count, const int *first_layers,
                             int stage);

/* Largest over mean stage cost: 1 for a perfect balance (P-4). */
double partition_imbalance(const struct partition_input *input, int stage_count, const int *first_layers);

#endif
