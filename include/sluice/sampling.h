/*
 * How the next token is chosen from the model's logits. The rules and their order are those of vLLM.
 */
#ifndef SLUICE_SAMPLING_H
#define SLUICE_SAMPLING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Added to the logit of one token. */
struct sluice_logit_bias {
    int32_t token;
    float bias;
};

/*
 * In the order in which they work: logit bias, repetition penalty, frequency penalty, presence penalty,
 * temperature, min_p, top_k, top_p. Where logits are equal, the lower token id comes first.
 */
struct sluice_sampling {
    /* 0 and more; below 1e-5 the largest logit wins and the fields from min_p on mean nothing. */
    double temperature;
    /* Keeps the likeliest top_k tokens. 0 and -1: all. */
    int32_t top_k;
    /* Keeps the likeliest tokens until their probabilities reach top_p, above 0 to 1. 1: all. */
    double top_p;
    /* Drops tokens less probable than min_p times the likeliest one, 0 to 1. 0: none. */
    double min_p;
    /* Divides positive and multiplies negative logits of tokens in prompt or output; above 0. 1: off. */
    double repetition_penalty;
    /* Subtracted from the logit of each token in the output, -2 to 2. */
    double presence_penalty;
    /* Subtracted once for each time the token is in the output, -2 to 2. */
    double frequency_penalty;
    /* Borrowed while the sampling is in use; NULL if the count is 0. */
    const struct sluice_logit_bias *logit_bias;
    size_t logit_bias_count;
    /* The same seed, choice index, prompt and options give the same text. */
    uint64_t seed;
};

/* Temperature 1, seed 0, everything else off. */
struct sluice_sampling sluice_sampling_default(void);

#ifdef __cplusplus
}
#endif

#endif
