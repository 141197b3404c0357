/* Log-probabilities in the forms that the APIs have. Nothing reports; the buffers tell. One thread at a time.
 */
#ifndef SLUICE_SERVER_LOG_PROBABILITY_JSON_H
#define SLUICE_SERVER_LOG_PROBABILITY_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "server/token_records.h"
#include "text/json_writer.h"
#include "text/tokenizer.h"

struct log_probability_names {
    const struct tokenizer *tokenizer;
    bool are_ids; /* "token_id:17" instead of a token's text */
};

/* {"content": [{"token", "logprob", "bytes", "top_logprobs"}, ...]} of chat, or only the list. */
void log_probability_write_chat(struct json_writer *writer, const char *key,
                                const struct log_probability_names *names,
                                const struct token_records *records);
void log_probability_write_list(struct json_writer *writer, const char *key,
                                const struct log_probability_names *names,
                                const struct token_records *records);

/*
 * {"text_offset", "token_logprobs", "tokens", "top_logprobs"} of completions: `parts` of records, one behind
 * the other. `*offset` are the characters before and, afterwards, with these tokens.
 */
void log_probability_write_completion(struct json_writer *writer, const char *key,
                                      const struct log_probability_names *names,
                                      const struct token_records *const *parts, size_t part_count,
                                      size_t *offset);

/* vLLM's prompt_logprobs: null, then {"id": {"logprob", "rank", "decoded_token"}} for each token. */
void log_probability_write_prompt(struct json_writer *writer, const char *key,
                                  const struct log_probability_names *names,
                                  const struct token_records *records);

#endif
