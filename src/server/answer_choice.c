/* A chain: decoder or output parser, then stop strings on content, then a writer that joins a batch's texts.
 */
#include "server/answer_choice.h"

#include <string.h>

const char *answer_finish_name(enum answer_finish finish) {
    static const char *const names[] = {"stop", "length", "tool_calls"};
    return names[finish];
}

enum status answer_choice_init(struct answer_choice *choice, const struct answer_settings *settings,
                               const struct tokenizer *tokenizer, size_t index, size_t prompt_index,
                               uint64_t call_id_seed) {
    *choice = (struct answer_choice){
        .settings = settings, .tokenizer = tokenizer, .index = index, .prompt_index = prompt_index};
    struct output_parser_options options = output_parser_options_default();
    options.starts_in_reasoning = settings->starts_in_reasoning;
    options.are_tools_enabled = settings->are_tools_enabled;
    options.call_id_seed = call_id_seed;
    output_parser_options_set_ids(&options, tokenizer);
    output_parser_init(&choice->parser, &options);
    stream_decoder_init(&choice->decoder, tokenizer, settings->skips_special_tokens);
    return stop_text_init(&choice->stop, settings->stops, settings->stop_count);
}

void answer_choice_deinit(struct answer_choice *choice) {
    output_parser_deinit(&choice->parser);
    output_writer_deinit(&choice->writer);
    stop_text_deinit(&choice->stop);
    string_buffer_deinit(&choice->piece);
    token_records_deinit(&choice->records);
    token_records_deinit(&choice->prompt_records);
}

static enum status append_content(struct answer_choice *choice, const char *bytes, size_t length) {
    return output_writer_append(&choice->writer, OUTPUT_EVENT_CONTENT, 0, bytes, length);
}

static enum status append_piece(struct answer_choice *choice) {
    TRY(string_buffer_check(&choice->piece));
    return append_content(choice, string_buffer_text(&choice->piece), choice->piece.length);
}

/* Content passes the stop strings, unless the answer must not end yet. */
static enum status take_content(struct answer_choice *choice, const char *text, size_t length) {
    string_buffer_clear(&choice->piece);
    if (choice->token_count < (size_t)choice->settings->min_tokens) {
        return append_content(choice, text, length);
    }
    stop_text_push(&choice->stop, text, length, &choice->piece);
    if (choice->stop.is_stopped) {
        choice->is_over = true;
        choice->stop_string = &choice->settings->stops[choice->stop.stopped_by];
        if (choice->settings->includes_stop) {
            string_buffer_append(&choice->piece, choice->stop_string->bytes, choice->stop_string->length);
        }
    }
    return append_piece(choice);
}

/* Content that is held back comes before what is no content. */
static enum status release_held(struct answer_choice *choice) {
    string_buffer_clear(&choice->piece);
    stop_text_finish(&choice->stop, &choice->piece);
    return append_piece(choice);
}

static enum status take_event(void *context, const struct output_event *event) {
    struct answer_choice *choice = context;
    if (choice->stop.is_stopped) {
        return STATUS_OK;
    }
    switch (event->kind) {
    case OUTPUT_EVENT_CONTENT:
        return take_content(choice, event->text, event->length);
    case OUTPUT_EVENT_REASONING:
        if (choice->settings->is_reasoning_hidden) {
            return STATUS_OK;
        }
        return output_writer_append(&choice->writer, event->kind, 0, event->text, event->length);
    case OUTPUT_EVENT_TOOL_CALL_ARGUMENTS:
        return output_writer_append(&choice->writer, event->kind, event->call_index, event->text,
                                    event->length);
    default:
        TRY(release_held(choice));
        return output_writer_emit(&choice->writer, event);
    }
}

static enum status push_chat(struct answer_choice *choice, int32_t id) {
    const int32_t *control_ids = choice->parser.options.control_ids;
    bool is_end = id == control_ids[CONTROL_TOKEN_EOS] || id == control_ids[CONTROL_TOKEN_USER];
    if (is_end && choice->settings->ignores_end) {
        return STATUS_OK;
    }
    size_t length = 0;
    const char *bytes = tokenizer_token_bytes(choice->tokenizer, id, &length);
    CHECK(bytes != NULL, STATUS_BAD_CHECKPOINT, "the model gave token %d, which its tokenizer does not know",
          id);
    choice->reasoning_token_count += choice->parser.is_reasoning;
    struct output_sink own = {take_event, choice};
    TRY(output_parser_push_token(&choice->parser, id, bytes, length, &own));
    choice->is_over = choice->is_over || output_parser_is_stopped(&choice->parser);
    return STATUS_OK;
}

static enum status push_raw(struct answer_choice *choice, int32_t id) {
    struct string_buffer text = {0};
    enum status status = stream_decoder_feed(&choice->decoder, id, &text);
    if (status == STATUS_OK) {
        status = take_content(choice, string_buffer_text(&text), text.length);
    }
    string_buffer_deinit(&text);
    return status;
}

/* Whether the token is one that ends answers; remembers it if the request asked for it. */
static bool is_stop_token(struct answer_choice *choice, int32_t id) {
    const struct answer_settings *settings = choice->settings;
    for (size_t i = 0; i < settings->stop_token_count; i++) {
        if (settings->stop_tokens[i] == id) {
            choice->has_stop_token = i < settings->own_stop_token_count;
            choice->stop_token = id;
            return true;
        }
    }
    return false;
}

enum status answer_choice_push(struct answer_choice *choice, const struct service_token *token,
                               const struct output_sink *sink) {
    const struct answer_settings *settings = choice->settings;
    if (choice->is_over) {
        return STATUS_OK;
    }
    choice->writer.sink = sink;
    choice->token_count++;
    bool is_recorded = settings->log_probability_count >= 0;
    if (is_recorded || settings->returns_token_ids) {
        TRY(token_records_append(&choice->records, token, is_recorded));
    }
    if (is_stop_token(choice, token->id)) {
        choice->is_over = true;
        /* Its text is no part of the answer, unless the request named it and wants to see it. */
        if (!settings->includes_stop || !choice->has_stop_token) {
            return STATUS_OK;
        }
    }
    return settings->is_chat ? push_chat(choice, token->id) : push_raw(choice, token->id);
}

enum status answer_choice_flush(struct answer_choice *choice, const struct output_sink *sink) {
    choice->writer.sink = sink;
    return output_writer_flush(&choice->writer);
}

static enum status finish_text(struct answer_choice *choice) {
    if (choice->settings->is_chat) {
        struct output_sink own = {take_event, choice};
        TRY(output_parser_finish(&choice->parser, &own, &choice->parsed));
    } else {
        struct string_buffer text = {0};
        enum status status = stream_decoder_finish(&choice->decoder, &text);
        if (status == STATUS_OK) {
            status = take_content(choice, string_buffer_text(&text), text.length);
        }
        string_buffer_deinit(&text);
        TRY(status);
    }
    return choice->stop.is_stopped ? STATUS_OK : release_held(choice);
}

enum status answer_choice_finish(struct answer_choice *choice, enum sluice_finish_reason reason,
                                 const struct output_sink *sink) {
    choice->writer.sink = sink;
    TRY(finish_text(choice));
    TRY(output_writer_flush(&choice->writer));
    bool is_cut = reason == SLUICE_FINISH_LENGTH && !choice->is_over;
    choice->finish = is_cut ? ANSWER_FINISH_LENGTH : ANSWER_FINISH_STOP;
    if (choice->parsed.finish == OUTPUT_FINISH_TOOL_CALLS && !is_cut) {
        choice->finish = ANSWER_FINISH_TOOL_CALLS;
    }
    choice->is_over = true;
    choice->is_finished = true;
    return STATUS_OK;
}
