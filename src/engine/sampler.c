/* The mask and the rules of sluice/sampling.h over a list of candidates, and the draw. */
#include "engine/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/candidate_cut.h"

/* As in vLLM: a smaller temperature is none. */
static const double GREEDY_TEMPERATURE = 1e-5;

struct sampler_workspace {
    size_t vocabulary_size;
    float *adjusted;              /* [vocabulary_size]: logits after bias and penalties */
    struct candidate *candidates; /* [vocabulary_size] */
};

struct sluice_sampling sluice_sampling_default(void) {
    return (struct sluice_sampling){.temperature = 1.0, .top_p = 1.0, .repetition_penalty = 1.0};
}

size_t sampler_workspace_bytes(size_t vocabulary_size) {
    return sizeof(struct sampler_workspace) + vocabulary_size * (sizeof(float) + sizeof(struct candidate));
}

enum status sampler_workspace_create(size_t vocabulary_size, struct sampler_workspace **out) {
    *out = NULL;
    CHECK(vocabulary_size > 0 && vocabulary_size <= INT32_MAX, STATUS_BAD_ARGUMENT,
          "a vocabulary of %zu tokens cannot be sampled from; it must have 1 to %d", vocabulary_size,
          INT32_MAX);
    struct sampler_workspace *workspace = calloc(1, sizeof *workspace);
    CHECK_MEMORY(workspace);
    workspace->vocabulary_size = vocabulary_size;
    workspace->adjusted = malloc(vocabulary_size * sizeof *workspace->adjusted);
    workspace->candidates = malloc(vocabulary_size * sizeof *workspace->candidates);
    if (workspace->adjusted == NULL || workspace->candidates == NULL) {
        sampler_workspace_destroy(&workspace);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory for sampling from %zu tokens", vocabulary_size);
    }
    *out = workspace;
    return STATUS_OK;
}

void sampler_workspace_destroy(struct sampler_workspace **workspace) {
    if (*workspace != NULL) {
        free((*workspace)->adjusted);
        free((*workspace)->candidates);
        free(*workspace);
        *workspace = NULL;
    }
}

size_t sampler_vocabulary_size(const struct sampler_workspace *workspace) {
    return workspace->vocabulary_size;
}

enum status sampler_check(const struct sluice_sampling *sampling, size_t vocabulary_size) {
    CHECK(isfinite(sampling->temperature) && sampling->temperature >= 0.0, STATUS_OUT_OF_RANGE,
          "temperature is %g; it must be 0 or more", sampling->temperature);
    CHECK(sampling->top_k >= -1, STATUS_OUT_OF_RANGE,
          "top_k is %d; it must be 1 or more, or 0 or -1 for all tokens", sampling->top_k);
    CHECK(sampling->top_p > 0.0 && sampling->top_p <= 1.0, STATUS_OUT_OF_RANGE,
          "top_p is %g; it must be above 0 and at most 1", sampling->top_p);
    CHECK(sampling->min_p >= 0.0 && sampling->min_p <= 1.0, STATUS_OUT_OF_RANGE,
          "min_p is %g; it must be between 0 and 1", sampling->min_p);
    CHECK(isfinite(sampling->repetition_penalty) && sampling->repetition_penalty > 0.0, STATUS_OUT_OF_RANGE,
          "repetition_penalty is %g; it must be above 0", sampling->repetition_penalty);
    CHECK(fabs(sampling->presence_penalty) <= 2.0, STATUS_OUT_OF_RANGE,
          "presence_penalty is %g; it must be between -2 and 2", sampling->presence_penalty);
    CHECK(fabs(sampling->frequency_penalty) <= 2.0, STATUS_OUT_OF_RANGE,
          "frequency_penalty is %g; it must be between -2 and 2", sampling->frequency_penalty);
    for (size_t i = 0; i < sampling->logit_bias_count; i++) {
        const struct sluice_logit_bias *bias = &sampling->logit_bias[i];
        CHECK(bias->token >= 0 && (size_t)bias->token < vocabulary_size, STATUS_OUT_OF_RANGE,
              "logit_bias names token %d; ids are below the vocabulary size %zu", bias->token,
              vocabulary_size);
        CHECK(isfinite(bias->bias), STATUS_OUT_OF_RANGE, "logit_bias of token %d is %g; it must be finite",
              bias->token, (double)bias->bias);
    }
    return STATUS_OK;
}

bool sampler_has_penalties(const struct sluice_sampling *sampling) {
    return sampling->repetition_penalty != 1.0 || sampling->presence_penalty != 0.0 ||
           sampling->frequency_penalty != 0.0;
}

static void apply_penalties(const struct sluice_sampling *sampling, const struct token_counts *counts,
                            float *logits) {
    float repetition = (float)sampling->repetition_penalty;
    float frequency = (float)sampling->frequency_penalty;
    float presence = (float)sampling->presence_penalty;
    for (size_t token = 0; token < counts->vocabulary_size; token++) {
        uint32_t output_count = counts->output_counts[token];
        if (output_count == 0 && !token_counts_is_in_prompt(counts, token)) {
            continue;
        }
        float logit = logits[token];
        logit = logit > 0.0f ? logit / repetition : logit * repetition;
        if (output_count > 0) {
            logit -= frequency * (float)output_count;
            logit -= presence;
        }
        logits[token] = logit;
    }
}

/* The logits after bias and penalties: `logits` itself if neither is set. */
static const float *adjust_logits(struct sampler_workspace *workspace, const struct sluice_sampling *sampling,
                                  const struct token_counts *counts, const float *logits) {
    if (sampling->logit_bias_count == 0 && !sampler_has_penalties(sampling)) {
        return logits;
    }
    float *adjusted = workspace->adjusted;
    memcpy(adjusted, logits, workspace->vocabulary_size * sizeof *adjusted);
    for (size_t i = 0; i < sampling->logit_bias_count; i++) {
        adjusted[sampling->logit_bias[i].token] += sampling->logit_bias[i].bias;
    }
    if (sampler_has_penalties(sampling)) {
        apply_penalties(sampling, counts, adjusted);
    }
    return adjusted;
}

static bool is_allowed(const token_mask_word *mask, size_t token) {
    return mask == NULL || (mask[token / 32] >> (token % 32) & 1) != 0;
}

/* Whether a logit is above `limit` or not finite. Without branches: compilers make vectors of it. */
static bool has_larger(const float *logits, size_t count, float limit) {
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        found |= (uint32_t) !(logits[i] <= limit) | (uint32_t)(logits[i] < -FLT_MAX);
    }
    return found != 0;
}

/* The same as find_largest of tokens `first` to `end`, where *largest is the best so far. */
static enum status find_larger(const float *logits, const token_mask_word *mask, size_t first, size_t end,
                               int32_t *largest) {
    for (size_t token = first; token < end; token++) {
        CHECK(isfinite(logits[token]), STATUS_NOT_FINITE,
              "the logit of token %zu is %g; the weights are damaged, or a bias or penalty is too large",
              token, (double)logits[token]);
        if (is_allowed(mask, token) && (*largest < 0 || logits[token] > logits[*largest])) {
            *largest = (int32_t)token;
        }
    }
    return STATUS_OK;
}

/* The allowed token with the largest logit, the lowest id of equals; -1 if none is allowed. */
static enum status find_largest(const float *logits, const token_mask_word *mask, size_t vocabulary_size,
                                int32_t *out) {
    enum { BLOCK_TOKENS = 64 }; /* few blocks have a larger one than those before */
    int32_t largest = -1;
    for (size_t first = 0; first < vocabulary_size; first += BLOCK_TOKENS) {
        size_t count = vocabulary_size - first < BLOCK_TOKENS ? vocabulary_size - first : BLOCK_TOKENS;
        if (largest < 0 || has_larger(logits + first, count, logits[largest])) {
            TRY(find_larger(logits, mask, first, first + count, &largest));
        }
    }
    *out = largest;
    return STATUS_OK;
}

/* Makes each candidate's weight exp((logit - largest) / temperature); returns their sum. */
static double weigh_candidates(struct candidate *candidates, size_t count, double largest_logit,
                               double temperature) {
    double total = 0.0;
    for (size_t i = 0; i < count; i++) {
        candidates[i].weight = exp(((double)candidates[i].logit - largest_logit) / temperature);
        total += candidates[i].weight;
    }
    return total;
}

/* Lists the allowed tokens that min_p, top_k and top_p leave; the largest is among them. */
static size_t list_candidates(struct candidate *candidates, const struct sluice_sampling *sampling,
                              const token_mask_word *mask, const float *logits, size_t vocabulary_size,
                              double largest_logit) {
    double temperature = sampling->temperature;
    double lowest = sampling->min_p > 0.0 ? log(sampling->min_p) : -INFINITY;
    size_t count = 0;
    for (size_t token = 0; token < vocabulary_size; token++) {
        if (is_allowed(mask, token) && ((double)logits[token] - largest_logit) / temperature >= lowest) {
            candidates[count++] = (struct candidate){(int32_t)token, logits[token], 1.0};
        }
    }
    if (sampling->top_k > 0 && (size_t)sampling->top_k < count) {
        count = candidate_cut(candidates, count, (double)sampling->top_k);
    }
    if (sampling->top_p < 1.0) {
        double total = weigh_candidates(candidates, count, largest_logit, temperature);
        count = candidate_cut(candidates, count, sampling->top_p * total);
    }
    return count;
}

enum status sampler_find_distribution(struct sampler_workspace *workspace,
                                      const struct sluice_sampling *sampling,
                                      const struct token_counts *counts, const token_mask_word *mask,
                                      const float *logits, uint32_t position,
                                      struct token_distribution *out) {
    size_t vocabulary_size = workspace->vocabulary_size;
    TRY(sampler_check(sampling, vocabulary_size));
    CHECK(!sampler_has_penalties(sampling) || (counts != NULL && counts->vocabulary_size == vocabulary_size),
          STATUS_BAD_ARGUMENT, "penalties need token counts of the same vocabulary, %zu tokens",
          vocabulary_size);
    const float *adjusted = adjust_logits(workspace, sampling, counts, logits);
    int32_t largest_token = -1;
    TRY(find_largest(adjusted, mask, vocabulary_size, &largest_token));
    CHECK(largest_token >= 0, STATUS_UNSUPPORTED,
          "the request's constraint allows none of the %zu tokens at position %u; it must leave one, such as "
          "the end of the text",
          vocabulary_size, position);
    *out = (struct token_distribution){.candidates = workspace->candidates,
                                       .count = 1,
                                       .temperature = 1.0,
                                       .largest_token = largest_token,
                                       .largest_logit = (double)adjusted[largest_token]};
    if (sampling->temperature < GREEDY_TEMPERATURE) {
        out->candidates[0] = (struct candidate){largest_token, adjusted[largest_token], 1.0};
        return STATUS_OK;
    }
    out->temperature = sampling->temperature;
    out->count =
        list_candidates(out->candidates, sampling, mask, adjusted, vocabulary_size, out->largest_logit);
    return STATUS_OK;
}

void token_distribution_weigh(const struct token_distribution *distribution) {
    double total = weigh_candidates(distribution->candidates, distribution->count,
                                    distribution->largest_logit, distribution->temperature);
    for (size_t i = 0; i < distribution->count; i++) {
        distribution->candidates[i].weight /= total;
    }
}

int32_t token_distribution_draw(const struct token_distribution *distribution,
                                const struct noise_place *place) {
    int32_t largest_token = distribution->largest_token;
    uint32_t words[NOISE_BLOCK_TOKENS];
    uint32_t block = (uint32_t)largest_token / NOISE_BLOCK_TOKENS;
    noise_block(place, block, words);
    /* The likeliest token goes first: most others cannot beat it, which a bound shows without logarithms. */
    int32_t best_token = largest_token;
    double best_score = noise_gumbel(words[largest_token % NOISE_BLOCK_TOKENS]);
    double highest_noise = noise_gumbel_bound(UINT32_MAX);
    for (size_t i = 0; i < distribution->count; i++) {
        const struct candidate *candidate = &distribution->candidates[i];
        int32_t token = candidate->token;
        double scaled = ((double)candidate->logit - distribution->largest_logit) / distribution->temperature;
        if (scaled + highest_noise < best_score) {
            continue;
        }
        if ((uint32_t)token / NOISE_BLOCK_TOKENS != block) {
            block = (uint32_t)token / NOISE_BLOCK_TOKENS;
            noise_block(place, block, words);
        }
        uint32_t word = words[token % NOISE_BLOCK_TOKENS];
        if (scaled + noise_gumbel_bound(word) < best_score) {
            continue;
        }
        double score = scaled + noise_gumbel(word);
        if (score > best_score || (score == best_score && token < best_token)) {
            best_score = score;
            best_token = token;
        }
    }
    return best_token;
}

enum status sampler_choose_token(struct sampler_workspace *workspace, const struct sluice_sampling *sampling,
                                 const struct token_counts *counts, const token_mask_word *mask,
                                 const float *logits, uint32_t choice_index, uint32_t position,
                                 enum noise_purpose purpose, int32_t *out) {
    struct token_distribution distribution;
    TRY(sampler_find_distribution(workspace, sampling, counts, mask, logits, position, &distribution));
    const struct noise_place place = {sampling->seed, choice_index, position, purpose};
    *out = token_distribution_draw(&distribution, &place);
    return STATUS_OK;
}

/* Keeps `top` sorted; a token goes behind those with the same logit, whose ids are lower. */
static void insert_top(struct token_log_probability *top, size_t count, size_t capacity,
                       struct token_log_probability entry) {
    size_t place = count < capacity ? count : capacity - 1;
    while (place > 0 && top[place - 1].log_probability < entry.log_probability) {
        top[place] = top[place - 1];
        place--;
    }
    top[place] = entry;
}

enum status sampler_log_probabilities(const float *logits, size_t vocabulary_size, int32_t token,
                                      size_t top_count, struct token_log_probability *chosen,
                                      struct token_log_probability *top) {
    CHECK(token >= 0 && (size_t)token < vocabulary_size, STATUS_OUT_OF_RANGE,
          "token %d is not in the vocabulary of %zu tokens", token, vocabulary_size);
    CHECK(top_count <= SAMPLER_TOP_MAX && top_count <= vocabulary_size, STATUS_OUT_OF_RANGE,
          "%zu likeliest tokens are asked for; at most %d of a vocabulary of %zu can be", top_count,
          SAMPLER_TOP_MAX, vocabulary_size);
    int32_t largest_token = 0;
    TRY(find_largest(logits, NULL, vocabulary_size, &largest_token));
    double largest_logit = (double)logits[largest_token];
    double total = 0.0;
    for (size_t i = 0; i < vocabulary_size; i++) {
        struct token_log_probability entry = {(int32_t)i, (double)logits[i] - largest_logit};
        total += exp(entry.log_probability);
        if (i < top_count || (top_count > 0 && entry.log_probability > top[top_count - 1].log_probability)) {
            insert_top(top, i, top_count, entry);
        }
    }
    double log_total = log(total);
    for (size_t i = 0; i < top_count; i++) {
        top[i].log_probability -= log_total;
    }
    *chosen = (struct token_log_probability){token, (double)logits[token] - largest_logit - log_total};
    return STATUS_OK;
}
