/*
 * One answer of `sluice chat`: tokens in, reasoning and content shown as they come and kept.
 *
 * One thread. After an error only deinit is allowed.
 */
#ifndef SLUICE_CLI_CHAT_ANSWER_H
#define SLUICE_CLI_CHAT_ANSWER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "cli/answer_view.h"
#include "text/output_parser.h"
#include "text/tokenizer.h"

struct chat_answer {
    const struct tokenizer *tokenizer; /* borrowed */
    struct output_parser parser;
    struct answer_view view;
    struct string_buffer content;
    struct string_buffer reasoning;
};

/* `starts_in_reasoning`: the prompt ends inside the model's thinking. */
void chat_answer_init(struct chat_answer *answer, const struct tokenizer *tokenizer, bool starts_in_reasoning,
                      FILE *stream);
void chat_answer_deinit(struct chat_answer *answer);

/* A token that does not end the answer. BAD_CHECKPOINT if the tokenizer does not know it. */
enum status chat_answer_push(struct chat_answer *answer, int32_t token);

/* Whether the model ended its turn within the text: more tokens change nothing. */
bool chat_answer_is_stopped(const struct chat_answer *answer);

/* The answer is over: shows what was held back and ends the line. */
enum status chat_answer_finish(struct chat_answer *answer);

/* Whether anything was said. */
bool chat_answer_is_empty(const struct chat_answer *answer);

#endif
