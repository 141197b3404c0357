/*
 * Which drafts pay: the number of drafts per sequence that makes tokens come fastest (spec parallelism,
 * M-33).
 *
 * The drafts that could be made, likeliest first, are taken one after the other; each adds its chance to the
 * tokens of a round and its row and draft passes to the seconds. The round is the steady state: it verifies
 * such drafts and makes the next ones. In a tick with prompt rows drafts are charged what they add to it.
 * What the draft layer does for prompts is charged to every token.
 */
#ifndef SLUICE_ENGINE_DRAFT_CONTROLLER_CHOICE_H
#define SLUICE_ENGINE_DRAFT_CONTROLLER_CHOICE_H

#include <stdint.h>

#include "engine/draft_controller.h"
#include "engine/draft_controller_acceptance.h"
#include "engine/draft_controller_costs.h"

enum { DRAFT_LEARNING_SEQUENCES = 8 }; /* enough to learn from: more cost more and teach little */

struct draft_choice; /* scratch memory of one decision at a time */

/*
 * By length of the longest draft; length 0 is a tick without anything of the draft layer. The prompt rows of
 * a tick are paid for anyway: a decision compares what rows cost without them, plus what drafts add with
 * them.
 */
struct draft_values {
    int32_t length_max;                 /* longest that room and limit allow */
    int32_t best_length;                /* 0 if no drafts pay, or if step costs are unknown */
    double gain[DRAFT_LIMIT_MAX + 1];   /* tokens per second over those without drafts, up to length_max */
    int32_t taken[DRAFT_LIMIT_MAX + 1]; /* likeliest drafts to take for it */
    double broad_gain;    /* best gain with a draft for each of up to DRAFT_LEARNING_SEQUENCES; 0: no room */
    double plain_seconds; /* without drafts and prompts; 0: unknown */
    double plain_rate;    /* tokens per second of that */
    double step_seconds;  /* without drafts, with prompts */
    double catch_up_seconds; /* what WARM adds */
};

enum status draft_choice_create(int32_t slot_count, int32_t draft_limit, struct draft_choice **out);
void draft_choice_destroy(struct draft_choice **choice);

/* Values of all lengths up to `limit` for the coming tick of at least one candidate. */
void draft_choice_evaluate(struct draft_choice *choice, const struct draft_costs *costs,
                           const struct draft_acceptance *acceptance, const struct draft_tick *tick,
                           int32_t limit, struct draft_values *values);

/* Writes drafts[i] per candidate: the `taken` likeliest drafts of the last evaluation. */
void draft_choice_assign(const struct draft_choice *choice, int32_t taken, int32_t candidate_count,
                         int32_t *drafts);

#endif
