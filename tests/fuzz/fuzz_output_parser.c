/*
 * The output parser on any bytes: the events joined must be the same for the whole text and for pieces.
 *
 * Input: byte 0 holds the options, byte 1 is the number n of piece lengths, n bytes of lengths that are
 * used round and round, then the completion.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/output_recorder.h"
#include "text/json_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
    if (!condition) {
        abort();
    }
}

static void check_recorder(const struct output_recorder *recorder, bool is_strict) {
    require(!recorder->is_character_split);
    require(!recorder->is_order_broken || recorder->call_count == RECORDED_CALLS_MAX);
    for (size_t i = 0; i < recorder->call_count && !recorder->is_order_broken; i++) {
        const struct recorded_call *call = &recorder->calls[i];
        require(is_strict || call->is_ended != call->is_abandoned);
        require(is_strict || call->is_abandoned ||
                json_text_is_valid(string_buffer_text(&call->arguments), call->arguments.length));
    }
}

static enum status parse_pieces(const struct output_parser_options *options, const uint8_t *lengths,
                                size_t length_count, const char *text, size_t length,
                                struct output_recorder *recorder, struct output_result *result) {
    struct output_parser parser;
    struct output_sink sink = output_recorder_sink(recorder);
    output_parser_init(&parser, options);
    enum status status = STATUS_OK;
    size_t position = 0;
    for (size_t i = 0; position < length && status == STATUS_OK; i++) {
        size_t piece = length_count == 0 ? length : (size_t)lengths[i % length_count] + 1;
        piece = piece < length - position ? piece : length - position;
        status = output_parser_push_text(&parser, text + position, piece, &sink);
        position += piece;
    }
    if (status == STATUS_OK) {
        status = output_parser_finish(&parser, &sink, result);
    }
    output_parser_deinit(&parser);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2 || size - 2 < data[1]) {
        return 0;
    }
    struct output_parser_options options = output_parser_options_default();
    options.starts_in_reasoning = (data[0] & 1) != 0;
    options.are_tools_enabled = (data[0] & 2) == 0;
    options.is_strict = (data[0] & 4) != 0;
    const char *text = (const char *)data + 2 + data[1];
    size_t length = size - 2 - data[1];
    struct output_recorder whole = {0};
    struct output_recorder pieces = {0};
    struct output_result whole_result = {0};
    struct output_result pieces_result = {0};
    enum status whole_status = parse_text(&options, text, length, SPLIT_WHOLE, &whole, &whole_result);
    enum status pieces_status =
        parse_pieces(&options, data + 2, data[1], text, length, &pieces, &pieces_result);
    require(whole_status == pieces_status);
    if (whole_status == STATUS_OK) {
        check_recorder(&whole, options.is_strict);
        check_recorder(&pieces, options.is_strict);
        struct string_buffer whole_summary = output_recorder_summary(&whole);
        struct string_buffer pieces_summary = output_recorder_summary(&pieces);
        require(whole_summary.length == pieces_summary.length &&
                memcmp(whole_summary.data, pieces_summary.data, whole_summary.length) == 0);
        require(whole_result.tool_call_count == pieces_result.tool_call_count);
        string_buffer_deinit(&whole_summary);
        string_buffer_deinit(&pieces_summary);
    } else {
        require(whole_status == STATUS_BAD_FORMAT);
    }
    output_recorder_deinit(&whole);
    output_recorder_deinit(&pieces);
    return 0;
}
