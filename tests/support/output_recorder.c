/* Joins deltas; knows nothing of the grammar. */
#include "support/output_recorder.h"

#include <string.h>

#include "text/utf8.h"

static void record_call_event(struct output_recorder *recorder, const struct output_event *event) {
    if (event->kind == OUTPUT_EVENT_TOOL_CALL_START) {
        if (event->call_index != recorder->call_count || recorder->call_count == RECORDED_CALLS_MAX) {
            recorder->is_order_broken = true;
            return;
        }
        struct recorded_call *call = &recorder->calls[recorder->call_count++];
        strncpy(call->id, event->call_id, sizeof call->id - 1);
        string_buffer_append(&call->name, event->text, event->length);
        return;
    }
    if (recorder->call_count == 0 || event->call_index != recorder->call_count - 1) {
        recorder->is_order_broken = true;
        return;
    }
    struct recorded_call *call = &recorder->calls[event->call_index];
    recorder->is_order_broken = recorder->is_order_broken || call->is_ended || call->is_abandoned;
    if (event->kind == OUTPUT_EVENT_TOOL_CALL_ARGUMENTS) {
        string_buffer_append(&call->arguments, event->text, event->length);
        call->fragment_count++;
    } else if (event->kind == OUTPUT_EVENT_TOOL_CALL_END) {
        call->is_ended = true;
    } else {
        call->is_abandoned = true;
    }
}

static enum status record(void *context, const struct output_event *event) {
    struct output_recorder *recorder = context;
    recorder->event_count++;
    recorder->is_character_split =
        recorder->is_character_split || utf8_valid_length(event->text, event->length) != event->length;
    if (event->kind == OUTPUT_EVENT_REASONING) {
        string_buffer_append(&recorder->reasoning, event->text, event->length);
    } else if (event->kind == OUTPUT_EVENT_CONTENT) {
        string_buffer_append(&recorder->content, event->text, event->length);
    } else {
        record_call_event(recorder, event);
    }
    return STATUS_OK;
}

struct output_sink output_recorder_sink(struct output_recorder *recorder) {
    return (struct output_sink){record, recorder};
}

void output_recorder_deinit(struct output_recorder *recorder) {
    string_buffer_deinit(&recorder->reasoning);
    string_buffer_deinit(&recorder->content);
    for (size_t i = 0; i < recorder->call_count; i++) {
        string_buffer_deinit(&recorder->calls[i].name);
        string_buffer_deinit(&recorder->calls[i].arguments);
    }
    *recorder = (struct output_recorder){0};
}

struct string_buffer output_recorder_summary(const struct output_recorder *recorder) {
    struct string_buffer summary = {0};
    string_buffer_append_char(&summary, '{');
    string_buffer_append(&summary, string_buffer_text(&recorder->reasoning), recorder->reasoning.length);
    string_buffer_append_text(&summary, "}{");
    string_buffer_append(&summary, string_buffer_text(&recorder->content), recorder->content.length);
    string_buffer_append_char(&summary, '}');
    for (size_t i = 0; i < recorder->call_count; i++) {
        const struct recorded_call *call = &recorder->calls[i];
        if (call->is_ended) {
            string_buffer_append(&summary, string_buffer_text(&call->name), call->name.length);
            string_buffer_append_char(&summary, '(');
            string_buffer_append(&summary, string_buffer_text(&call->arguments), call->arguments.length);
            string_buffer_append_char(&summary, ')');
        }
    }
    return summary;
}

static enum status push_pieces(struct output_parser *parser, const char *text, size_t length,
                               enum split split, const struct output_sink *sink) {
    size_t position = 0;
    while (position < length) {
        size_t piece = split == SPLIT_WHOLE   ? length
                       : split == SPLIT_BYTES ? 1
                                              : utf8_next(text + position, length - position).length;
        TRY(output_parser_push_text(parser, text + position, piece, sink));
        position += piece;
    }
    return STATUS_OK;
}

enum status parse_text(const struct output_parser_options *options, const char *text, size_t length,
                       enum split split, struct output_recorder *recorder, struct output_result *result) {
    struct output_parser parser;
    struct output_sink sink = output_recorder_sink(recorder);
    output_parser_init(&parser, options);
    enum status status = push_pieces(&parser, text, length, split, &sink);
    if (status == STATUS_OK) {
        status = output_parser_finish(&parser, &sink, result);
    }
    output_parser_deinit(&parser);
    return status;
}

enum status parse_text_cut_at(const struct output_parser_options *options, const char *text, size_t length,
                              size_t position, struct output_recorder *recorder,
                              struct output_result *result) {
    struct output_parser parser;
    struct output_sink sink = output_recorder_sink(recorder);
    output_parser_init(&parser, options);
    enum status status = output_parser_push_text(&parser, text, position, &sink);
    if (status == STATUS_OK) {
        status = output_parser_push_text(&parser, text + position, length - position, &sink);
    }
    if (status == STATUS_OK) {
        status = output_parser_finish(&parser, &sink, result);
    }
    output_parser_deinit(&parser);
    return status;
}

enum status parse_tokens(const struct output_parser_options *options, const struct tokenizer *tokenizer,
                         const int32_t *ids, size_t count, struct output_recorder *recorder,
                         struct output_result *result) {
    struct output_parser parser;
    struct output_sink sink = output_recorder_sink(recorder);
    output_parser_init(&parser, options);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        size_t length;
        const char *bytes = tokenizer_token_bytes(tokenizer, ids[i], &length);
        status = output_parser_push_token(&parser, ids[i], bytes, length, &sink);
    }
    if (status == STATUS_OK) {
        status = output_parser_finish(&parser, &sink, result);
    }
    output_parser_deinit(&parser);
    return status;
}
