/* What a model's authors recommend: generation_config.json, and the end token of config.json. */
#ifndef SLUICE_SERVER_GENERATION_CONFIG_H
#define SLUICE_SERVER_GENERATION_CONFIG_H

#include <stdint.h>

#include "base/status.h"
#include "sluice/sampling.h"

enum { END_TOKENS_MAX = 16 };

struct generation_config {
    struct sluice_sampling sampling; /* temperature, top_p, top_k, min_p, repetition_penalty */
    int32_t end_tokens[END_TOKENS_MAX];
    int end_token_count;
};

/* Reads both files of the folder; a missing generation_config.json leaves the defaults. */
enum status generation_config_load(const char *model, struct generation_config *out);

#endif
