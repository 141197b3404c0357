/*
 * How likely drafts are to be accepted (spec parallelism, M-35, M-36).
 *
 * By draft position, the share of drafts that were accepted among those whose predecessors were: exponential
 * averages per temperature class. A position that nobody has tried is taken to be a little worse than the one
 * before. Every sequence has its own average of refusals against those that its class expects, and is better
 * or worse at all positions by that factor. How much of it is believed depends on how much sequences have
 * differed beyond chance: among equal ones, giving the luckiest the longest drafts would only lose.
 */
#ifndef SLUICE_ENGINE_DRAFT_CONTROLLER_ACCEPTANCE_H
#define SLUICE_ENGINE_DRAFT_CONTROLLER_ACCEPTANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { ACCEPTANCE_POSITIONS = 16, ACCEPTANCE_CLASSES = 4 };

/* Temperatures 0, up to 0.5, up to 1, and above. */
struct acceptance_class {
    float reached[ACCEPTANCE_POSITIONS]; /* drafts whose predecessors were accepted; older ones count less */
    float accepted[ACCEPTANCE_POSITIONS];
    float expected[ACCEPTANCE_POSITIONS]; /* chance of a draft that is reached */
};

/* Refused drafts: at most one a round. */
struct refusals {
    float seen;
    float expected;
};

struct acceptance_sequence {
    struct refusals recent; /* older ones count less */
    struct refusals all;
    int32_t temperature_class;
    int32_t state_rows; /* rows of the draft layer written since it last stood still, up to a window */
};

struct draft_acceptance {
    int32_t slot_count;
    struct acceptance_sequence *sequences;
    struct acceptance_class classes[ACCEPTANCE_CLASSES];
    float spread_sum; /* squared differences of sequences' refusals beyond chance, and the squares expected */
    float spread_weight;
};

enum status draft_acceptance_init(struct draft_acceptance *acceptance, int32_t slot_count);
void draft_acceptance_deinit(struct draft_acceptance *acceptance);

/* A sequence begins; `has_state`: the draft layer saw its prompt. */
void draft_acceptance_start(struct draft_acceptance *acceptance, int32_t slot, double temperature,
                            bool has_state);

/* The slot's drafts of a tick. Without any, what is known of the sequence slowly fades. */
void draft_acceptance_observe(struct draft_acceptance *acceptance, int32_t slot, int32_t verified,
                              int32_t accepted);

/* Ends a tick of drafting. Positions that no sequence tried fade, much more slowly. */
void draft_acceptance_end_tick(struct draft_acceptance *acceptance, int32_t verified_most);

/* `rows` of the draft layer's state were written for the slot; 0: the layer stood still and starts anew. */
void draft_acceptance_note_state(struct draft_acceptance *acceptance, int32_t slot, int32_t rows);

/* Makes all that is known weigh little against what comes next: for a new try after a long pause. */
void draft_acceptance_doubt(struct draft_acceptance *acceptance);

/* chances[j], j below `count`: that drafts 0 to j of the slot are all accepted. */
void draft_acceptance_chances(const struct draft_acceptance *acceptance, int32_t slot, int32_t count,
                              float *chances);

#endif
