/*
 * A service whose answers are written down: given token ids, one or more a step, with log-probabilities.
 *
 * Steps are asked for; a step waits until the tokens of the one before have been taken, so that a test knows
 * what came together. Stop tokens and token limits are kept as an engine keeps them; stop strings are not, so
 * that tokens beyond them come, as with drafts. Any thread. Functions of the fixture assert.
 */
#ifndef SLUICE_TESTS_SUPPORT_SCRIPT_SERVICE_H
#define SLUICE_TESTS_SUPPORT_SCRIPT_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/string_buffer.h"
#include "server/service.h"
#include "text/tokenizer.h"

enum { SCRIPTS_MAX = 16 };

/* What a request asked for, as far as tests look; copied at submission. */
struct script_request {
    int32_t *prompt;
    size_t prompt_count;
    struct sluice_request_options options; /* its pointers must not be followed */
    enum service_grammar grammar;
    struct string_buffer grammar_text;
    struct string_buffer stops;      /* each with a newline behind it */
    struct string_buffer bad_words;  /* the same */
    struct string_buffer logit_bias; /* "id=bias\n" */
    struct string_buffer allowed;    /* "id\n" */
    bool starts_in_reasoning;
    size_t min_tokens;
};

struct script_options {
    const struct tokenizer *tokenizer;
    int64_t context_tokens;
    size_t cached_prompt_tokens; /* what every request reports */
    size_t verified_drafts, accepted_drafts;
};

struct service *script_service_create(const struct script_options *options);

/* The answer to the next request whose place is free: requests take scripts in turn. Copied. */
void script_service_add(struct service *service, const int32_t *ids, size_t count);

/* The same from text; control tokens spelled in it are control tokens. */
void script_service_add_text(struct service *service, const char *text);

/* Forgets scripts and requests. Nothing may be under way. */
void script_service_reset(struct service *service);

/* Tokens that each step brings to each generation; 1 at first. */
void script_service_set_lump(struct service *service, size_t token_count);

/* The next submissions fail with this; OK: no more. UNSUPPORTED concerns grammars only. */
void script_service_set_refusal(struct service *service, enum status status, const char *message);

/* Generations fail with this status once they have so many tokens; OK: no more. */
void script_service_set_failure(struct service *service, enum status status, size_t token_count);

/* One step for all that is under way; false if nothing is. */
bool script_service_step(struct service *service);

/* Waits until so many requests have been submitted since the last reset. */
void script_service_wait_for_requests(struct service *service, size_t count);

size_t script_service_request_count(struct service *service);
const struct script_request *script_service_request(struct service *service, size_t index);
size_t script_service_live_count(struct service *service);

/* What the script says about a token: log-probability by place in its list, likeliest first for tops. */
double script_log_probability(size_t place, size_t rank);

#endif
