/* Both lossless modes of spec parallelism M-16. A draft is accepted exactly if its row's token equals it. */
#include "engine/acceptance.h"

#include <math.h>
#include <stddef.h>

/* Weights add up to `total`, above 0. `uniform`, between 0 and 1, says how far into them the token lies. */
static int32_t find_by_weight(const struct token_distribution *distribution, double total, double uniform) {
    double target = uniform * total;
    double sum = 0.0;
    int32_t token = -1;
    for (size_t i = 0; i < distribution->count; i++) {
        if (distribution->candidates[i].weight > 0.0) {
            token = distribution->candidates[i].token;
            sum += distribution->candidates[i].weight;
            if (sum > target) {
                break;
            }
        }
    }
    return token;
}

/* Q of a token; `probabilities` NULL: all of it lies on the draft. */
static double draft_probability(const float *probabilities, int32_t draft, int32_t token) {
    if (probabilities == NULL) {
        return token == draft ? 1.0 : 0.0;
    }
    return (double)probabilities[token];
}

static double find_weight(const struct token_distribution *distribution, int32_t token) {
    for (size_t i = 0; i < distribution->count; i++) {
        if (distribution->candidates[i].token == token) {
            return distribution->candidates[i].weight;
        }
    }
    return 0.0;
}

/* Draws from P - Q where that is positive; the weights are P, and are overwritten. */
static int32_t draw_correction(const struct token_distribution *target, const float *probabilities,
                               int32_t draft, double uniform) {
    double total = 0.0;
    for (size_t i = 0; i < target->count; i++) {
        struct candidate *candidate = &target->candidates[i];
        candidate->weight =
            fmax(candidate->weight - draft_probability(probabilities, draft, candidate->token), 0.0);
        total += candidate->weight;
    }
    if (total > 0.0) {
        return find_by_weight(target, total, uniform);
    }
    /* P and Q are equal but for rounding: what is left of their difference says nothing, so P itself. */
    token_distribution_weigh(target);
    return find_by_weight(target, 1.0, uniform);
}

/* The token of a row with a draft: the draft, or another one, which refuses it. */
static enum status choose_by_rejection(const struct token_distribution *target,
                                       const struct verify_rows *rows, int32_t row, uint64_t seed,
                                       int32_t *token) {
    int32_t draft = rows->drafts[row];
    const float *probabilities = rows->distributions == NULL ? NULL : rows->distributions[row].probabilities;
    double drawn_with = draft_probability(probabilities, draft, draft);
    CHECK(drawn_with > 0.0, STATUS_BAD_ARGUMENT,
          "draft %d, token %d, has probability %g in the distribution that it should come from; pass the one "
          "it was drawn from",
          row, draft, drawn_with);
    struct noise_place place = {seed, rows->choice_index, rows->first_position + (uint32_t)row,
                                NOISE_PURPOSE_ACCEPT};
    token_distribution_weigh(target);
    if (noise_uniform(&place) * drawn_with < find_weight(target, draft)) {
        *token = draft;
        return STATUS_OK;
    }
    place.purpose = NOISE_PURPOSE_CORRECTION;
    *token = draw_correction(target, probabilities, draft, noise_uniform(&place));
    return STATUS_OK;
}

static enum status choose_row(struct sampler_workspace *workspace, const struct sluice_sampling *sampling,
                              const struct token_counts *counts, const struct verify_rows *rows, int32_t row,
                              int32_t *token) {
    size_t vocabulary_size = sampler_vocabulary_size(workspace);
    const float *logits = rows->logits + (size_t)row * vocabulary_size;
    const token_mask_word *mask = rows->masks == NULL ? NULL : rows->masks[row];
    uint32_t position = rows->first_position + (uint32_t)row;
    struct token_distribution target;
    TRY(sampler_find_distribution(workspace, sampling, counts, mask, logits, position, &target));
    if (row < rows->draft_count) {
        int32_t draft = rows->drafts[row];
        CHECK(draft >= 0 && (size_t)draft < vocabulary_size, STATUS_OUT_OF_RANGE,
              "draft %d is token %d, which is not in the vocabulary of %zu tokens", row, draft,
              vocabulary_size);
        if (rows->mode == DRAFT_SAMPLING_REJECTION) {
            return choose_by_rejection(&target, rows, row, sampling->seed, token);
        }
    }
    const struct noise_place place = {sampling->seed, rows->choice_index, position, NOISE_PURPOSE_TOKEN};
    *token = token_distribution_draw(&target, &place);
    return STATUS_OK;
}

enum status acceptance_verify(struct sampler_workspace *workspace, const struct sluice_sampling *sampling,
                              struct token_counts *counts, const struct verify_rows *rows, int32_t *tokens,
                              int32_t *token_count) {
    *token_count = 0;
    for (int32_t row = 0; row <= rows->draft_count; row++) {
        TRY(choose_row(workspace, sampling, counts, rows, row, &tokens[row]));
        if (counts != NULL) {
            TRY(token_counts_add_output(counts, tokens[row]));
        }
        *token_count = row + 1;
        if (row < rows->draft_count && tokens[row] != rows->drafts[row]) {
            break;
        }
    }
    return STATUS_OK;
}

/* Draws a draft from exactly the numbers that go to `probabilities`. */
static enum status draw_draft(struct sampler_workspace *workspace, const struct sluice_sampling *sampling,
                              const struct token_counts *counts, const float *logits,
                              const struct noise_place *place, float *probabilities, int32_t *out) {
    struct token_distribution drafter;
    TRY(sampler_find_distribution(workspace, sampling, counts, NULL, logits, place->position, &drafter));
    token_distribution_weigh(&drafter);
    size_t vocabulary_size = sampler_vocabulary_size(workspace);
    for (size_t token = 0; token < vocabulary_size; token++) {
        probabilities[token] = 0.0f;
    }
    double total = 0.0;
    for (size_t i = 0; i < drafter.count; i++) {
        struct candidate *candidate = &drafter.candidates[i];
        probabilities[candidate->token] = (float)candidate->weight;
        candidate->weight = (double)probabilities[candidate->token];
        total += candidate->weight;
    }
    *out = find_by_weight(&drafter, total, noise_uniform(place));
    return STATUS_OK;
}

enum status acceptance_draft(struct sampler_workspace *workspace, const struct sluice_sampling *sampling,
                             const struct token_counts *counts, const float *logits, enum draft_sampling mode,
                             uint32_t choice_index, uint32_t position, float *probabilities, int32_t *out) {
    struct sluice_sampling rules = *sampling;
    if (mode == DRAFT_SAMPLING_REJECTION) {
        if (probabilities != NULL) {
            const struct noise_place place = {sampling->seed, choice_index, position, NOISE_PURPOSE_DRAFT};
            return draw_draft(workspace, sampling, counts, logits, &place, probabilities, out);
        }
        rules.temperature = 0.0;
    }
    return sampler_choose_token(workspace, &rules, counts, NULL, logits, choice_index, position,
                                NOISE_PURPOSE_TOKEN, out);
}
