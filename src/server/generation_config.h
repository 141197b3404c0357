/*
 * How requests are sampled that say nothing of it: as the model's authors recommend (generation_config.json),
 * as an operator does, or as vLLM's own defaults have it; and the model's end tokens.
 */
#ifndef SLUICE_SERVER_GENERATION_CONFIG_H
#define SLUICE_SERVER_GENERATION_CONFIG_H

#include <stdint.h>

#include "base/status.h"
#include "sluice/sampling.h"

enum { END_TOKENS_MAX = 16 };

struct generation_config {
    struct sluice_sampling sampling; /* temperature, top_p, top_k, min_p, repetition_penalty */
    int64_t token_limit;             /* of every answer (max_new_tokens); -1: none */
    int32_t end_tokens[END_TOKENS_MAX];
    int end_token_count;
};

/* What an operator chose (--generation-config, --override-generation-config); NULL inside: the model's. */
struct generation_choice {
    const char *source;    /* "auto": the model's folder, "vllm": no file, else another folder */
    const char *overrides; /* JSON object: keys of generation_config.json that hold instead */
};

/* What is wrong with a choice whatever the model is: USAGE names the key or the file. */
enum status generation_choice_check(const struct generation_choice *choice);

/*
 * Reads both files of the model's folder; a missing generation_config.json leaves the defaults. `choice`
 * NULL: none. Fields that nobody could sample by are refused in overrides, and passed over in files.
 */
enum status generation_config_load(const char *model, const struct generation_choice *choice,
                                   struct generation_config *out);

#endif
