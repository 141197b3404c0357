/*
 * Rounds that are run to be timed: many sequences alike, greedy, of which nobody wants the tokens.
 *
 * Every sequence is a segment with pages of its own. Tokens are from all over the vocabulary: equal ones
 * would all go to the same experts, and many rows seem cheap. Rows are left in state that nobody reads.
 */
#ifndef SLUICE_ENGINE_PROFILE_ROUNDS_H
#define SLUICE_ENGINE_PROFILE_ROUNDS_H

#include "engine/round_plan.h"

/* What the rounds of a profile have in common. */
struct profile_rounds_options {
    int32_t sequence_limit;     /* slots 0 to sequence_limit - 1 */
    int32_t row_limit;          /* of a round */
    int32_t pages_per_sequence; /* the first ones of its context: slot s has those from s * that on */
    int32_t first_position;     /* of the first slot's rows; those of each further slot are one behind, */
    int32_t position_spread;    /* and after so many slots there again */
    int64_t vocabulary_size;
};

struct profile_rounds {
    struct profile_rounds_options options;
    struct step_segment *steps;       /* [sequence_limit] */
    struct round_segment *segments;   /* the same */
    struct step_page_update *updates; /* [sequence_limit * pages_per_sequence] */
    struct round_start *starts;       /* [sequence_limit] */
    int32_t *logit_rows;              /* [row_limit] */
    int32_t *tokens;                  /* [row_limit] */
    struct sequence_rules rules;      /* greedy */
};

/* One round. */
struct profile_shape {
    int32_t sequences;
    int32_t rows;            /* of all of them, shared out evenly; at least one each */
    int32_t verified_drafts; /* the last rows of each */
    int32_t next_drafts;     /* that each makes; 0: the draft layer catches up on all rows instead */
    bool has_draft_layer;    /* else nothing of it runs */
};

/* Owned: profile_rounds_deinit, also after a failure. `rounds` must not move. */
enum status profile_rounds_init(struct profile_rounds *rounds, const struct profile_rounds_options *options);
void profile_rounds_deinit(struct profile_rounds *rounds);

/* The round's plan, valid until the next one is asked for. */
struct round_plan profile_rounds_plan(struct profile_rounds *rounds, const struct profile_shape *shape);

#endif
