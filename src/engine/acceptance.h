/*
 * From the logits of a request's verify rows to the tokens it goes on with (spec parallelism 4.4).
 *
 * Row j predicts the token at first_position + j and was computed with drafts 0..j-1 as input. The tokens are
 * those that plain sampling, one row at a time, would have chosen (greedy and coupled), or have its
 * distribution (rejection): a draft is accepted or the first refused row gives the correction, and after the
 * last accepted draft the next row gives one token more. Penalties count accepted tokens, row by row (M-19).
 * At temperature 0 both modes are greedy. Logits are only read, so log-probabilities come from the same rows
 * as without drafts (M-20).
 *
 * Linear in the vocabulary per row and without allocation. Different workspaces may be used by different
 * threads.
 */
#ifndef SLUICE_ENGINE_ACCEPTANCE_H
#define SLUICE_ENGINE_ACCEPTANCE_H

#include <stdint.h>

#include "base/status.h"
#include "engine/sampler.h"
#include "engine/token_counts.h"
#include "sluice/sampling.h"

enum draft_sampling {
    DRAFT_SAMPLING_COUPLED,   /* accept what the row itself draws with its noise (default) */
    DRAFT_SAMPLING_REJECTION, /* accept with probability min(1, P / Q), correct from max(P - Q, 0) */
};

/* Q, the distribution that a draft was drawn from (rejection). */
struct draft_distribution {
    const float *probabilities; /* [vocabulary]; NULL: the draft was chosen greedily (one-hot) */
};

struct verify_rows {
    const float *logits;   /* (draft_count + 1, vocabulary) */
    const int32_t *drafts; /* [draft_count]; NULL if there are none */
    int32_t draft_count;
    const struct draft_distribution *distributions; /* [draft_count]; NULL: all one-hot, or coupled */
    const token_mask_word *const *masks; /* [draft_count + 1], each NULL or a mask; NULL: no masks */
    enum draft_sampling mode;
    uint32_t choice_index;
    uint32_t first_position;
};

/*
 * Writes the accepted drafts and the token after them to `tokens` [draft_count + 1] and their number to
 * *token_count (1 to draft_count + 1). `counts`, NULL without penalties, gets the same tokens as output.
 *
 * Rows after the first refused one are not looked at (M-18). For a row that is: NOT_FINITE for its logits,
 * UNSUPPORTED if its mask allows nothing, OUT_OF_RANGE for a draft outside the vocabulary, BAD_ARGUMENT for a
 * draft that its Q does not contain. The tokens before that row have been written and counted even then.
 */
enum status acceptance_verify(struct sampler_workspace *workspace, const struct sluice_sampling *sampling,
                              struct token_counts *counts, const struct verify_rows *rows, int32_t *tokens,
                              int32_t *token_count);

/*
 * Chooses a draft token from the draft layer's logits for `position`, by the same rules. Coupled: with the
 * noise that the verifying row will use, so that equal distributions choose equal tokens; `probabilities` is
 * left alone. Rejection: drawn with noise of its own, and the distribution it was drawn from goes to
 * `probabilities` [vocabulary]; or, if that is NULL, chosen greedily. Errors of sampler_choose_token.
 */
enum status acceptance_draft(struct sampler_workspace *workspace, const struct sluice_sampling *sampling,
                             const struct token_counts *counts, const float *logits, enum draft_sampling mode,
                             uint32_t choice_index, uint32_t position, float *probabilities, int32_t *out);

#endif
