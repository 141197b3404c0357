/*
 * What `sluice generate` says: text as it comes, or one JSON object at the end.
 *
 * With --chat the completion is split into reasoning, content and tool calls; stop strings work on the
 * content. Without, all text is content. One thread.
 */
#ifndef SLUICE_CLI_GENERATE_OUTPUT_H
#define SLUICE_CLI_GENERATE_OUTPUT_H

#include <stdbool.h>

#include "cli/answer_view.h"
#include "cli/generate_request.h"
#include "lib/json.h"
#include "sluice/request.h"
#include "text/output_parser.h"
#include "text/stop_text.h"
#include "text/stream_decoder.h"

enum finish_reason { FINISH_LENGTH, FINISH_STOP, FINISH_TOOL_CALLS };

/* How long the parts took, for the JSON object. */
struct generate_timings {
    double load_seconds;
    double prefill_seconds;
    double decode_seconds;
    size_t decode_steps;
    bool has_drafts;
    size_t verified_drafts;
    size_t accepted_drafts;
};

/* One tool call; its arguments grow while they come in. */
struct tool_call_record {
    struct string_buffer id;
    struct string_buffer name;
    struct string_buffer arguments; /* the text of a JSON object */
};

struct generate_output {
    const struct generate_request *request; /* borrowed */
    struct answer_view view;
    struct stream_decoder decoder;
    struct output_parser parser;
    struct output_result parsed;
    struct stop_text stop;
    struct string_buffer shown; /* scratch of one piece */
    struct string_buffer text;  /* content */
    struct string_buffer reasoning;
    struct token_list token_ids;
    struct tool_call_record *tool_calls;
    size_t tool_call_count;
    size_t tool_call_capacity;
    struct json *log_probabilities; /* array; NULL unless asked for */
};

enum status generate_output_init(struct generate_output *output, const struct generate_request *request);
void generate_output_deinit(struct generate_output *output);

/* A generated token that does not end the answer: its text is shown as far as it is certain. */
enum status generate_output_push(struct generate_output *output, int32_t token);

/* A generated token that ends the answer: recorded, not shown. */
enum status generate_output_push_end(struct generate_output *output, int32_t token);

/* Whether a stop string or an end mark was seen. */
bool generate_output_is_stopped(const struct generate_output *output);

/* The log-probability of the token pushed next and of its likeliest alternatives. */
enum status generate_output_push_log_probabilities(struct generate_output *output,
                                                   const struct sluice_log_probability *chosen,
                                                   const struct sluice_log_probability *top,
                                                   size_t top_count);

/* The answer is over: shows what was held back; with --json prints the object. */
enum status generate_output_finish(struct generate_output *output, enum finish_reason reason,
                                   const struct generate_timings *timings);

#endif
