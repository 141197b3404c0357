/*
 * Choosing a token from one row of logits.
 *
 * The choice is the argmax of log P(v) + g(v), where P is the distribution after the mask and all rules of
 * sluice/sampling.h and g is Gumbel noise: a draw from P that is a function of P and the noise's place only
 * (spec parallelism, M-16, coupled). P itself is there for choices of another kind (engine/acceptance.h).
 * Logits are host memory; a row may be longer than the vocabulary, the rest of it is never read. Different
 * workspaces may be used by different threads.
 */
#ifndef SLUICE_ENGINE_SAMPLER_H
#define SLUICE_ENGINE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/candidate_cut.h"
#include "engine/noise.h"
#include "engine/token_counts.h"
#include "sluice/sampling.h"

struct sampler_workspace;

enum { SAMPLER_TOP_MAX = 20 };

struct token_log_probability {
    int32_t token;
    double log_probability;
};

/*
 * Which tokens a row may choose: bit t % 32 of word t / 32 for each token id t it may, whatever the bits
 * beyond the vocabulary. A NULL mask allows all.
 */
typedef uint32_t token_mask_word;

/*
 * P: what the mask and all rules leave of a row of logits. Candidates are sorted by id and lie in the
 * workspace, until its next call. At temperature 0 the likeliest token is the only one.
 */
struct token_distribution {
    struct candidate *candidates; /* their weights mean nothing before token_distribution_weigh */
    size_t count;                 /* at least 1 */
    double temperature;           /* P(v) is proportional to exp(logit / temperature) */
    int32_t largest_token;        /* the likeliest, the lowest id of equals; one of the candidates */
    double largest_logit;
};

/* Scratch memory for one call at a time, 20 bytes per token. Owned by the caller. */
enum status sampler_workspace_create(size_t vocabulary_size, struct sampler_workspace **out);

/* Bytes of a workspace. */
size_t sampler_workspace_bytes(size_t vocabulary_size);

/* Frees and nulls; NULL inside is allowed. */
void sampler_workspace_destroy(struct sampler_workspace **workspace);

/* OUT_OF_RANGE with a sentence that names the option, if one is outside its bounds. */
enum status sampler_check(const struct sluice_sampling *sampling, size_t vocabulary_size);

/* Whether a rule counts tokens: then choosing needs `counts`. */
bool sampler_has_penalties(const struct sluice_sampling *sampling);

/* The number of tokens that the workspace was made for. */
size_t sampler_vocabulary_size(const struct sampler_workspace *workspace);

/*
 * Chooses a token. `counts` is what prompt and output hold, NULL if no penalty is set. The seed is the
 * sampling's; the rest of the noise's place is `choice_index`, the absolute `position` of the chosen token,
 * and `purpose`. NOT_FINITE if a logit, of an allowed token or another, is infinite or no number;
 * UNSUPPORTED if the mask allows no token.
 *
 * Linear in the vocabulary and without allocation: greedy reads the logits once, each of bias or penalties,
 * top_k and top_p adds a fixed number of passes.
 */
enum status sampler_choose_token(struct sampler_workspace *workspace, const struct sluice_sampling *sampling,
                                 const struct token_counts *counts, const token_mask_word *mask,
                                 const float *logits, uint32_t choice_index, uint32_t position,
                                 enum noise_purpose purpose, int32_t *out);

/* The first half of sampler_choose_token, with its arguments and errors. `position` is for the error. */
enum status sampler_find_distribution(struct sampler_workspace *workspace,
                                      const struct sluice_sampling *sampling,
                                      const struct token_counts *counts, const token_mask_word *mask,
                                      const float *logits, uint32_t position, struct token_distribution *out);

/* The second half: the argmax of log P(v) + g(v), the lowest id of equals. */
int32_t token_distribution_draw(const struct token_distribution *distribution,
                                const struct noise_place *place);

/* Makes each candidate's weight its probability: between 0 and 1, in sum 1 but for rounding. */
void token_distribution_weigh(const struct token_distribution *distribution);

/*
 * Log-softmax of the logits as the model gave them, before all rules: of `token` into *chosen, and of the
 * `top_count` (at most SAMPLER_TOP_MAX and the vocabulary) likeliest tokens, in falling order, equal ones by
 * id, into `top`. NOT_FINITE as above.
 */
enum status sampler_log_probabilities(const float *logits, size_t vocabulary_size, int32_t token,
                                      size_t top_count, struct token_log_probability *chosen,
                                      struct token_log_probability *top);

#endif
