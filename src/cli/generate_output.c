/* Streaming to the terminal and collecting for JSON. */
#include "cli/generate_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/generate_json.h"

static bool is_streaming(const struct generate_output *output) {
    return !output->request->options->json;
}

static void show(struct generate_output *output, const char *text, size_t length) {
    if (is_streaming(output)) {
        answer_view_show_content(&output->view, text, length);
    }
}

static void show_text(struct generate_output *output, const char *text) {
    show(output, text, strlen(text));
}

static enum status take_content(struct generate_output *output, const char *text, size_t length) {
    string_buffer_clear(&output->shown);
    stop_text_push(&output->stop, text, length, &output->shown);
    string_buffer_append(&output->text, string_buffer_text(&output->shown), output->shown.length);
    show(output, string_buffer_text(&output->shown), output->shown.length);
    return string_buffer_check(&output->shown);
}

static enum status take_reasoning(struct generate_output *output, const char *text, size_t length) {
    string_buffer_append(&output->reasoning, text, length);
    if (is_streaming(output)) {
        answer_view_show_reasoning(&output->view, text, length);
    }
    return string_buffer_check(&output->reasoning);
}

static enum status start_tool_call(struct generate_output *output, const struct output_event *event) {
    if (output->tool_call_count == output->tool_call_capacity) {
        size_t capacity = output->tool_call_capacity == 0 ? 8 : 2 * output->tool_call_capacity;
        struct tool_call_record *calls = realloc(output->tool_calls, capacity * sizeof *calls);
        CHECK_MEMORY(calls);
        output->tool_calls = calls;
        output->tool_call_capacity = capacity;
    }
    struct tool_call_record *call = &output->tool_calls[output->tool_call_count++];
    *call = (struct tool_call_record){0};
    string_buffer_append_text(&call->id, event->call_id);
    string_buffer_append(&call->name, event->text, event->length);
    show_text(output, "\n[tool call] ");
    show(output, event->text, event->length);
    show_text(output, " ");
    return string_buffer_check(&call->name);
}

static enum status extend_tool_call(struct generate_output *output, const struct output_event *event) {
    struct string_buffer *arguments = &output->tool_calls[event->call_index].arguments;
    string_buffer_append(arguments, event->text, event->length);
    show(output, event->text, event->length);
    return string_buffer_check(arguments);
}

static void deinit_tool_call(struct tool_call_record *call) {
    string_buffer_deinit(&call->id);
    string_buffer_deinit(&call->name);
    string_buffer_deinit(&call->arguments);
}

static enum status take_event(void *context, const struct output_event *event) {
    struct generate_output *output = context;
    switch (event->kind) {
    case OUTPUT_EVENT_REASONING:
        return take_reasoning(output, event->text, event->length);
    case OUTPUT_EVENT_CONTENT:
        return take_content(output, event->text, event->length);
    case OUTPUT_EVENT_TOOL_CALL_START:
        return start_tool_call(output, event);
    case OUTPUT_EVENT_TOOL_CALL_ARGUMENTS:
        return extend_tool_call(output, event);
    case OUTPUT_EVENT_TOOL_CALL_END:
        show_text(output, "\n");
        return STATUS_OK;
    case OUTPUT_EVENT_TOOL_CALL_ABANDON:
        show_text(output, " (unfinished)\n");
        deinit_tool_call(&output->tool_calls[--output->tool_call_count]);
        return STATUS_OK;
    }
    return STATUS_OK;
}

static struct output_sink sink_of(struct generate_output *output) {
    return (struct output_sink){.emit = take_event, .context = output};
}

static enum status init_stops(struct generate_output *output, const struct option_list *stops) {
    struct stop_string strings[OPTION_LIST_MAX];
    size_t count = 0;
    for (int i = 0; i < stops->count; i++) {
        size_t length = strlen(stops->items[i]);
        strings[count] = (struct stop_string){stops->items[i], length};
        count += length > 0;
    }
    return stop_text_init(&output->stop, strings, count);
}

enum status generate_output_init(struct generate_output *output, const struct generate_request *request) {
    *output = (struct generate_output){.request = request};
    answer_view_init(&output->view, stdout);
    struct output_parser_options options = output_parser_options_default();
    options.starts_in_reasoning = request->starts_in_reasoning;
    options.call_id_seed = request->sampling.sampling.seed;
    if (request->tokenizer != NULL) {
        output_parser_options_set_ids(&options, request->tokenizer);
        stream_decoder_init(&output->decoder, request->tokenizer, false);
    }
    output_parser_init(&output->parser, &options);
    TRY(init_stops(output, &request->options->stop));
    if (request->options->logprobs_given) {
        output->log_probabilities = json_new_array();
        CHECK_MEMORY(output->log_probabilities);
    }
    return STATUS_OK;
}

void generate_output_deinit(struct generate_output *output) {
    output_parser_deinit(&output->parser);
    answer_view_deinit(&output->view);
    stop_text_deinit(&output->stop);
    string_buffer_deinit(&output->shown);
    string_buffer_deinit(&output->text);
    string_buffer_deinit(&output->reasoning);
    token_list_deinit(&output->token_ids);
    for (size_t i = 0; i < output->tool_call_count; i++) {
        deinit_tool_call(&output->tool_calls[i]);
    }
    free(output->tool_calls);
    json_free(&output->log_probabilities);
}

static enum status push_raw(struct generate_output *output, int32_t token) {
    struct string_buffer piece = {0};
    enum status status = stream_decoder_feed(&output->decoder, token, &piece);
    if (status == STATUS_OK) {
        status = take_content(output, string_buffer_text(&piece), piece.length);
    }
    string_buffer_deinit(&piece);
    return status;
}

static enum status push_chat(struct generate_output *output, int32_t token) {
    size_t length;
    const char *bytes = tokenizer_token_bytes(output->request->tokenizer, token, &length);
    CHECK(bytes != NULL, STATUS_BAD_CHECKPOINT, "the model gave token %d, which its tokenizer does not know",
          token);
    struct output_sink sink = sink_of(output);
    return output_parser_push_token(&output->parser, token, bytes, length, &sink);
}

enum status generate_output_push(struct generate_output *output, int32_t token) {
    TRY(token_list_append(&output->token_ids, token));
    if (output->request->tokenizer == NULL) {
        return STATUS_OK;
    }
    return output->request->is_chat ? push_chat(output, token) : push_raw(output, token);
}

enum status generate_output_push_end(struct generate_output *output, int32_t token) {
    return token_list_append(&output->token_ids, token);
}

bool generate_output_is_stopped(const struct generate_output *output) {
    return output->stop.is_stopped || (output->request->is_chat && output_parser_is_stopped(&output->parser));
}

enum status generate_output_push_log_probabilities(struct generate_output *output,
                                                   const struct sluice_log_probability *chosen,
                                                   const struct sluice_log_probability *top,
                                                   size_t top_count) {
    return generate_json_add_log_probabilities(output->log_probabilities, output->request->tokenizer, chosen,
                                               top, top_count);
}

/* Lets go of what decoder, parser and stop strings held back. */
static enum status release_held(struct generate_output *output) {
    if (output->request->is_chat) {
        struct output_sink sink = sink_of(output);
        TRY(output_parser_finish(&output->parser, &sink, &output->parsed));
    } else if (output->request->tokenizer != NULL) {
        struct string_buffer piece = {0};
        enum status status = stream_decoder_finish(&output->decoder, &piece);
        if (status == STATUS_OK) {
            status = take_content(output, string_buffer_text(&piece), piece.length);
        }
        string_buffer_deinit(&piece);
        TRY(status);
    }
    string_buffer_clear(&output->shown);
    stop_text_finish(&output->stop, &output->shown);
    string_buffer_append(&output->text, string_buffer_text(&output->shown), output->shown.length);
    show(output, string_buffer_text(&output->shown), output->shown.length);
    return string_buffer_check(&output->text);
}

/* Without a tokenizer the result is the ids themselves. */
static void show_ids(const struct generate_output *output) {
    for (size_t i = 0; i < output->token_ids.count; i++) {
        printf("%s%d", i == 0 ? "" : " ", output->token_ids.ids[i]);
    }
}

enum status generate_output_finish(struct generate_output *output, enum finish_reason reason,
                                   const struct generate_timings *timings) {
    TRY(release_held(output));
    if (output->parsed.finish == OUTPUT_FINISH_TOOL_CALLS && reason == FINISH_STOP) {
        reason = FINISH_TOOL_CALLS;
    }
    if (!is_streaming(output)) {
        return generate_json_print(output, reason, timings);
    }
    show_text(output, "");
    if (output->request->tokenizer == NULL) {
        show_ids(output);
    }
    show_text(output, "\n");
    return STATUS_OK;
}
