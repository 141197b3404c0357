/*
 * What is evaluated: a model that answers chats and gives log-probabilities, on a server or in this process.
 */
#ifndef SLUICE_TOOLS_EVAL_SOURCE_H
#define SLUICE_TOOLS_EVAL_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "lib/json.h"
#include "sluice/engine.h"
#include "text/chat_encoder_v4.h"
#include "text/token_list.h"
#include "text/tokenizer.h"
#include "tools/api_client.h"

struct eval_answer {
    const char *error; /* NULL: answered */
    const char *text;  /* without reasoning; valid during the call */
    size_t length;
    bool is_cut; /* by its length */
    int64_t prompt_tokens, output_tokens;
};

/* Conversations to answer. */
struct eval_questions {
    const struct json *conversations; /* array of arrays of messages */
    int64_t max_tokens;
    int64_t concurrency; /* so many at once */
    double temperature;
    uint64_t seed;
    bool is_thinking, is_thinking_given;
    /* An answer, in any order, on the caller's thread. */
    void (*on_answer)(void *context, size_t index, const struct eval_answer *answer);
    void *context;
};

struct eval_source {
    void *self;
    const char *name;  /* address or folder; borrowed from the source */
    const char *model; /* "" if the name says it */
    /* Answers all; failed answers are no errors. */
    enum status (*answer)(void *self, const struct eval_questions *questions);
    /* Appends the tokens of a text; control tokens spelled in it are those tokens. */
    enum status (*tokenize)(void *self, const char *text, size_t length, struct token_list *out);
    /* Log-probability of each token but the first, given those before it: `out` has `count` places. */
    enum status (*score)(void *self, const int32_t *tokens, size_t count, double *out);
    void (*close)(void *self);
};

/* A server. Refused requests (429, 503) are sent again some times. Owned: eval_source_close. */
enum status eval_source_open_server(const struct api_client_options *options, struct eval_source *out);

struct eval_engine_options {
    struct sluice_engine_options engine; /* context_tokens 0: what is needed */
    const struct tokenizer *tokenizer;   /* borrowed */
    struct chat_encode_options chat;
    const int32_t *end_tokens; /* borrowed */
    size_t end_token_count;
};

/* A model in this process, loaded when it is first asked. Owned: eval_source_close. */
enum status eval_source_open_engine(const struct eval_engine_options *options, struct eval_source *out);

/* Nothing to do for a zeroed struct. */
void eval_source_close(struct eval_source *source);

#endif
