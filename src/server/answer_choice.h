/*
 * One choice of an answer: tokens in; reasoning, content and tool calls out, the way all APIs need them.
 *
 * Texts are whole characters, without control tokens, cut at the first stop string. What may still become a
 * stop string, a tag or a character is held back. Events joined do not depend on how tokens came. One thread
 * at a time. After an error only deinit is allowed.
 */
#ifndef SLUICE_SERVER_ANSWER_CHOICE_H
#define SLUICE_SERVER_ANSWER_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "server/answer_settings.h"
#include "server/service.h"
#include "server/token_records.h"
#include "text/output_parser.h"
#include "text/stop_text.h"
#include "text/stream_decoder.h"

enum answer_finish { ANSWER_FINISH_STOP, ANSWER_FINISH_LENGTH, ANSWER_FINISH_TOOL_CALLS };

struct answer_choice {
    const struct answer_settings *settings; /* borrowed */
    const struct tokenizer *tokenizer;      /* borrowed */
    size_t index;
    size_t prompt_index;
    struct stream_decoder decoder;
    struct output_parser parser;
    struct output_result parsed;
    struct stop_text stop;
    struct output_writer writer;
    struct string_buffer piece;   /* scratch */
    struct token_records records; /* tokens that the API has not reported yet; it clears them */
    struct token_records prompt_records;
    size_t token_count;
    size_t reasoning_token_count;
    bool is_over;     /* no more tokens are taken */
    bool is_finished; /* the finish was reported: these are valid */
    enum answer_finish finish;
    bool has_stop_token; /* stop_reason is this id, */
    int32_t stop_token;
    const struct stop_string *stop_string; /* or this text; NULL: null */
};

enum status answer_choice_init(struct answer_choice *choice, const struct answer_settings *settings,
                               const struct tokenizer *tokenizer, size_t index, size_t prompt_index,
                               uint64_t call_id_seed);
void answer_choice_deinit(struct answer_choice *choice);

/*
 * A token. What it completes waits until flush. Tokens behind the end (drafts that were accepted beyond a
 * stop string) are not taken.
 */
enum status answer_choice_push(struct answer_choice *choice, const struct service_token *token,
                               const struct output_sink *sink);

/* Reports what waits. */
enum status answer_choice_flush(struct answer_choice *choice, const struct output_sink *sink);

/* No more tokens come: reports what was held back and settles the finish. */
enum status answer_choice_finish(struct answer_choice *choice, enum sluice_finish_reason reason,
                                 const struct output_sink *sink);

/* "stop", "length" or "tool_calls". */
const char *answer_finish_name(enum answer_finish finish);

#endif
