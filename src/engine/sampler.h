/*
 * Choosing a token from one row of logits.
 *
 * The choice is the argmax of log P(v) + g(v), where P is the distribution after all rules of
 * sluice/sampling.h and g is Gumbel noise: a draw from P that is a function of P and the noise's place only
 * (spec parallelism, M-16, coupled). Logits are host memory; a row may be longer than the vocabulary, the
 * rest of it is never read. Different workspaces may be used by different threads.
 */
#ifndef SLUICE_ENGINE_SAMPLER_H
#define SLUICE_ENGINE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/noise.h"
#include "engine/token_counts.h"
#include "sluice/sampling.h"

struct sampler_workspace;

enum { SAMPLER_TOP_MAX = 20 };

struct token_log_probability {
    int32_t token;
    double log_probability;
};

/* Scratch memory for one call at a time, 20 bytes per token. Owned by the caller. */
enum status sampler_workspace_create(size_t vocabulary_size, struct sampler_workspace **out);

/* Frees and nulls; NULL inside is allowed. */
void sampler_workspace_destroy(struct sampler_workspace **workspace);

/* OUT_OF_RANGE with a sentence that names the option, if one is outside its bounds. */
enum status sampler_check(const struct sluice_sampling *sampling, size_t vocabulary_size);

/*
 * Chooses a token. `counts` is what prompt and output hold, NULL if no penalty is set. The seed is the
 * sampling's; the rest of the noise's place is `choice_index`, the absolute `position` of the chosen token,
 * and `purpose`. NOT_FINITE if a logit is infinite or no number.
 *
 * Linear in the vocabulary and without allocation: greedy reads the logits once, each of bias or penalties,
 * top_k and top_p adds a fixed number of passes.
 */
enum status sampler_choose_token(struct sampler_workspace *workspace, const struct sluice_sampling *sampling,
                                 const struct token_counts *counts, const float *logits,
                                 uint32_t choice_index, uint32_t position, enum noise_purpose purpose,
                                 int32_t *out);

/*
 * Log-softmax of the logits as the model gave them, before all rules: of `token` into *chosen, and of the
 * `top_count` (at most SAMPLER_TOP_MAX and the vocabulary) likeliest tokens, in falling order, equal ones by
 * id, into `top`. NOT_FINITE as above.
 */
enum status sampler_log_probabilities(const float *logits, size_t vocabulary_size, int32_t token,
                                      size_t top_count, struct token_log_probability *chosen,
                                      struct token_log_probability *top);

#endif
