/* Given options override what the model recommends. */
#include "cli/request_options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static enum status parse_logit_bias(const char *text, struct cli_sampling *out) {
    size_t count = 1;
    for (const char *at = text; *at != '\0'; at++) {
        count += *at == ',';
    }
    out->logit_bias = calloc(count, sizeof *out->logit_bias);
    CHECK_MEMORY(out->logit_bias);
    for (size_t i = 0; i < count; i++) {
        char *end = NULL;
        errno = 0;
        long token = strtol(text, &end, 10);
        bool has_token = end != text && *end == '=' && errno == 0 && token >= 0 && token <= INT32_MAX;
        const char *value = has_token ? end + 1 : text;
        float bias = strtof(value, &end);
        CHECK(has_token && end != value && (*end == ',' || *end == '\0'), STATUS_USAGE,
              "--logit-bias: \"%s\" does not read ID=BIAS", text);
        out->logit_bias[i] = (struct sluice_logit_bias){(int32_t)token, bias};
        text = end + 1;
    }
    out->sampling.logit_bias = out->logit_bias;
    out->sampling.logit_bias_count = count;
    return STATUS_OK;
}

enum status cli_sampling_init(struct cli_sampling *out, const struct cli_options *options,
                              const struct generation_config *recommended) {
    *out = (struct cli_sampling){.sampling = recommended->sampling};
    struct sluice_sampling *sampling = &out->sampling;
    sampling->temperature = options->temperature_given ? options->temperature : sampling->temperature;
    sampling->top_p = options->top_p_given ? options->top_p : sampling->top_p;
    sampling->top_k = options->top_k_given ? (int32_t)options->top_k : sampling->top_k;
    sampling->min_p = options->min_p_given ? options->min_p : sampling->min_p;
    if (options->repetition_penalty_given) {
        sampling->repetition_penalty = options->repetition_penalty;
    }
    sampling->presence_penalty = options->presence_penalty;
    sampling->frequency_penalty = options->frequency_penalty;
    sampling->seed = (uint64_t)options->seed;
    return options->logit_bias == NULL ? STATUS_OK : parse_logit_bias(options->logit_bias, out);
}

void cli_sampling_deinit(struct cli_sampling *out) {
    free(out->logit_bias);
    *out = (struct cli_sampling){0};
}

struct chat_encode_options cli_chat_options(const struct cli_options *options) {
    static const char *const efforts[] = {"none", "low", "high", "max"};
    struct chat_encode_options chat = chat_encode_options_default();
    chat.release = CHAT_RELEASE_PREVIEW;
    if (options->reasoning_effort_given) {
        (void)chat_encode_options_set_effort(&chat, efforts[options->reasoning_effort]);
    }
    if (options->thinking_given) {
        chat.is_thinking = options->thinking;
    }
    return chat;
}
