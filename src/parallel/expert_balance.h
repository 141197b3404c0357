/*
 * Where whole experts lie when they move with what is asked of them (spec parallelism 5.1, 5.5).
 *
 * Every rank can read every expert's weights; which ones it computes, and so keeps in memory, is a placement:
 * for each layer and expert the ranks that have it. There may be more places than experts, so that those that
 * are wanted most lie on several ranks. A result depends neither on where it was computed nor on how many
 * places there are (E-17): placements decide about time and memory only.
 *
 * A balance belongs to one rank of a stage. All ranks of a stage have equal ones: they see the same picks of
 * the same steps, and one of them chooses the next placement for all (E-14).
 */
#ifndef SLUICE_PARALLEL_EXPERT_BALANCE_H
#define SLUICE_PARALLEL_EXPERT_BALANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct expert_balance_shape {
    int layer_count; /* that have experts; the draft layer is one */
    int expert_count;
    int rank_count;
    int place_count; /* of a layer, on all ranks: the experts, and copies (E-1) */
};

struct expert_balance {
    struct expert_balance_shape shape;
    /* Bit r of [layer * expert_count + expert]: rank r has it. */
    uint64_t *holders;
    uint64_t *next_holders; /* the placement to be, or the present one */
    uint64_t *counts;       /* rows that picked an expert; halved whenever a placement is chosen (E-13) */
    int *copies;            /* [expert_count]: scratch */
};

/* Places that rank `rank` has in each layer: no rank has over one more than another. */
int expert_balance_places(const struct expert_balance_shape *shape, int rank);

/* Whether rank `rank` has the expert at first: place p of all, in order, is for expert p modulo their number
 * (E-2). */
bool expert_balance_starts_with(const struct expert_balance_shape *shape, int rank, int expert);

/* All layers are placed as they start. Owned: expert_balance_deinit, also of a zeroed struct. */
enum status expert_balance_init(struct expert_balance *balance, const struct expert_balance_shape *shape);
void expert_balance_deinit(struct expert_balance *balance);

/* Bytes of a placement. */
size_t expert_balance_bytes(const struct expert_balance *balance);

/* The rank that computes a pick of row `row` of a step: of those that have the expert, all in turn (E-3). */
int expert_balance_owner(const struct expert_balance *balance, int layer, int32_t expert, int64_t row);

/* A row picked the expert. */
void expert_balance_count(struct expert_balance *balance, int layer, int32_t expert);

/* What the fullest rank of a layer computes over what it would if all computed the same; 1: nothing was
 * picked. `holders`: of the layer. */
double expert_balance_skew(const struct expert_balance *balance, int layer, const uint64_t *holders);

/* Mean of the same over the layers of which something was picked, as experts lie now; 1: of none. */
double expert_balance_mean_skew(const struct expert_balance *balance);

/*
 * Chooses next_holders by the counts, and halves these. Copies go to the experts with most rows for each that
 * has them, and then each, the fullest first, to the emptiest rank that has place and lacks it; ties by lower
 * numbers. A layer stays as it is unless that makes its fullest rank clearly emptier.
 */
void expert_balance_choose(struct expert_balance *balance);

/* Whether a rank has the expert in the next placement only. */
bool expert_balance_is_new(const struct expert_balance *balance, int layer, int expert, int rank);

/* From now on experts lie as next_holders says. */
void expert_balance_switch(struct expert_balance *balance);

#endif
