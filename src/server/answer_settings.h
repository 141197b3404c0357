/*
 * What a request asks of its answer, whichever API it came through: sampling, ends, limits, what is reported.
 *
 * Everything lives in the request's arena. One thread at a time.
 */
#ifndef SLUICE_SERVER_ANSWER_SETTINGS_H
#define SLUICE_SERVER_ANSWER_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "server/api.h"
#include "server/generation_config.h"
#include "server/request_reader.h"
#include "server/service.h"
#include "sluice/sampling.h"
#include "text/stop_text.h"

enum { STOP_STRINGS_MAX = 64, CHOICES_MAX = 128 };

struct answer_settings {
    struct sluice_sampling sampling;
    int64_t token_limit;    /* -1: what the context leaves */
    bool is_answer_dropped; /* max_tokens 0: only the prompt is wanted */
    int64_t choice_count;
    const struct stop_string *stops;
    size_t stop_count;
    bool includes_stop;
    const int32_t *end_tokens; /* the model's; none with ignore_eos */
    size_t end_token_count;
    bool ignores_end;
    const int32_t *stop_tokens; /* those of the request, then end_tokens */
    size_t stop_token_count;
    size_t own_stop_token_count; /* the first ones */
    int64_t min_tokens;
    const int32_t *allowed_tokens;
    size_t allowed_token_count;
    const struct service_text *bad_words;
    size_t bad_word_count;
    enum service_grammar grammar;
    struct service_text grammar_text;
    char grammar_field[READER_PARAMETER_BYTES]; /* of the request, that asks for it */
    bool is_grammar_optional;             /* the answer goes on without it if the service cannot do it */
    int64_t log_probability_count;        /* -1: none are reported */
    int64_t prompt_log_probability_count; /* the same */
    int64_t priority;
    bool skips_prefix_cache;
    bool skips_special_tokens;
    int64_t
        prompt_token_limit; /* the prompt's last tokens that are kept; 0: all, -1: what the context holds */

    bool is_streaming;
    bool includes_usage; /* streams: a last chunk with it */
    bool is_usage_continuous;
    bool returns_token_ids;
    bool returns_tokens_as_ids; /* in log-probabilities */
    bool has_echo;

    bool is_chat; /* the text is split into reasoning, content and tool calls */
    bool starts_in_reasoning;
    bool are_tools_enabled;
    bool is_reasoning_hidden;
};

/* What holds if the request says nothing: the model's recommendations, a seed of its own. */
struct answer_settings answer_settings_default(const struct api_options *options,
                                               const struct generation_config *recommended, uint64_t seed);

/*
 * Reads the fields that chat and completions share (spec http-api 4), length and log-probabilities
 * excepted, and refuses those that would change the answer and are not supported.
 */
enum status answer_settings_read(struct answer_settings *settings, struct request_reader *reader,
                                 const struct generation_config *recommended, struct arena *arena);

/* Reads only a temperature, top_p and top_k by their names: what all APIs have in common. */
enum status answer_settings_read_sampling(struct answer_settings *settings, struct request_reader *reader);

/* Reads stop strings from a string or a list of them. */
enum status answer_settings_read_stops(struct answer_settings *settings, struct request_reader *reader,
                                       const char *name, struct arena *arena);

#endif
