/*
 * Numbers about a conversation, for people: the line below each answer, and /stats.
 *
 * Pure functions that append text.
 */
#ifndef SLUICE_CLI_CHAT_STATUS_H
#define SLUICE_CLI_CHAT_STATUS_H

#include <stdint.h>

#include "base/string_buffer.h"
#include "sluice/engine.h"
#include "sluice/request.h"

/*
 * One line without its end: whether the answer was cut, tokens of the prompt and how many of them were
 * cached, new tokens and their rate after the first, the time to the first, accepted drafts. What was not
 * measured is left out.
 */
void chat_status_append_answer(struct string_buffer *out, const struct sluice_request_state *state,
                               size_t prompt_tokens);

/* If `used` tokens leave less than an eighth of the context: a sentence that says so and what to do. */
void chat_status_append_warning(struct string_buffer *out, int64_t used, int64_t context_tokens);

/* Several lines: what the engine has done and where its memory is. */
void chat_status_append_engine(struct string_buffer *out, const struct sluice_engine_facts *facts,
                               const struct sluice_engine_stats *stats);

#endif
