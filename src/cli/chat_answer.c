/* Chat has no tools: their markup is dropped by the parser, which says so where nothing else was said. */
#include "cli/chat_answer.h"

static enum status take_event(void *context, const struct output_event *event) {
    struct chat_answer *answer = context;
    if (event->kind == OUTPUT_EVENT_REASONING) {
        string_buffer_append(&answer->reasoning, event->text, event->length);
        answer_view_show_reasoning(&answer->view, event->text, event->length);
        return string_buffer_check(&answer->reasoning);
    }
    if (event->kind == OUTPUT_EVENT_CONTENT) {
        string_buffer_append(&answer->content, event->text, event->length);
        answer_view_show_content(&answer->view, event->text, event->length);
    }
    return string_buffer_check(&answer->content);
}

void chat_answer_init(struct chat_answer *answer, const struct tokenizer *tokenizer, bool starts_in_reasoning,
                      FILE *stream) {
    *answer = (struct chat_answer){.tokenizer = tokenizer};
    struct output_parser_options options = output_parser_options_default();
    options.starts_in_reasoning = starts_in_reasoning;
    options.are_tools_enabled = false;
    output_parser_options_set_ids(&options, tokenizer);
    output_parser_init(&answer->parser, &options);
    answer_view_init(&answer->view, stream);
}

void chat_answer_deinit(struct chat_answer *answer) {
    output_parser_deinit(&answer->parser);
    answer_view_deinit(&answer->view);
    string_buffer_deinit(&answer->content);
    string_buffer_deinit(&answer->reasoning);
}

enum status chat_answer_push(struct chat_answer *answer, int32_t token) {
    struct output_sink sink = {.emit = take_event, .context = answer};
    size_t length;
    const char *bytes = tokenizer_token_bytes(answer->tokenizer, token, &length);
    CHECK(bytes != NULL, STATUS_BAD_CHECKPOINT, "the model gave token %d, which its tokenizer does not know",
          token);
    return output_parser_push_token(&answer->parser, token, bytes, length, &sink);
}

bool chat_answer_is_stopped(const struct chat_answer *answer) {
    return output_parser_is_stopped(&answer->parser);
}

enum status chat_answer_finish(struct chat_answer *answer) {
    struct output_sink sink = {.emit = take_event, .context = answer};
    struct output_result result;
    TRY(output_parser_finish(&answer->parser, &sink, &result));
    answer_view_finish(&answer->view);
    return STATUS_OK;
}

bool chat_answer_is_empty(const struct chat_answer *answer) {
    return answer->content.length == 0 && answer->reasoning.length == 0;
}
