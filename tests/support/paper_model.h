/*
 * A model on paper: it runs round plans without a device, and notices whatever a plan gets wrong.
 *
 * Its state is what a real one's is addressed by: pages hold the token of each position, rings the last ones
 * with their positions, saved rows and draft rings what was last committed to them. A row's next token is a
 * hash of all tokens as its slot's pages and ring say them, so that a wrong page, slot or position gives
 * another text. Every row checks that its history is there. Asserts.
 */
#ifndef SLUICE_TESTS_SUPPORT_PAPER_MODEL_H
#define SLUICE_TESTS_SUPPORT_PAPER_MODEL_H

#include <stdint.h>

#include "engine/round_plan.h"

enum { PAPER_WINDOW = 6, PAPER_VOCABULARY = 1000 };

struct paper_model_options {
    int32_t slot_count; /* snapshots included */
    int32_t page_count;
    int32_t page_tokens;
    int32_t context_tokens;
    int32_t draft_limit;
    int32_t draft_quality; /* of 100 drafts, how many are right */
    uint64_t seed;         /* of the drafts' quality */
    double row_seconds;    /* that a step is said to take for each row; 0: all steps take the same */
};

struct paper_model;

struct paper_model *paper_model_create(const struct paper_model_options *options);
void paper_model_destroy(struct paper_model *model);

/* Runs the plan. `out` is valid until the next run. */
void paper_model_run(struct paper_model *model, const struct round_plan *plan, struct round_result *out);

/* The token after these. */
int32_t paper_model_next_token(const int32_t *tokens, int32_t count);

/* Rows of prompts and answers that were run. */
int64_t paper_model_row_count(const struct paper_model *model);

#endif
