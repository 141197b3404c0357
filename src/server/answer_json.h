/* Pieces of JSON that chat and completions write alike, and the framing of event streams. */
#ifndef SLUICE_SERVER_ANSWER_JSON_H
#define SLUICE_SERVER_ANSWER_JSON_H

#include "server/answer.h"
#include "server/log_probability_json.h"
#include "text/json_writer.h"

/* "id", "object", "created", "model" of an object that is open. */
void answer_write_head(struct json_writer *writer, const struct answer *answer, const char *object);

/* {"prompt_tokens", "completion_tokens", ...} */
void answer_write_usage(struct json_writer *writer, const char *key, const struct answer *answer);

/* "finish_reason" and "stop_reason". */
void answer_write_finish(struct json_writer *writer, const struct answer_choice *choice);

/* "token_ids" of what the records hold. */
void answer_write_token_ids(struct json_writer *writer, const struct token_records *records);

struct log_probability_names answer_names(const struct answer *answer);

/* One event of a stream in OpenAI's form: "data: " now, the rest after the JSON was appended to `out`. */
void answer_begin_data(struct answer *answer);
void answer_end_data(struct answer *answer);

/* A stream's events in OpenAI's form that need no more than the answer. */
void answer_keep_alive_comment(struct answer *answer);
void answer_fail_data(struct answer *answer, int http_status, const char *message);
void answer_write_usage_chunk(struct answer *answer, const char *object);
void answer_end_marker(struct answer *answer);

#endif
