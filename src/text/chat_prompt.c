/* Segments index one text, so that the official string is there without joining anything. */
#include "text/chat_prompt.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer.h"

void chat_prompt_deinit(struct chat_prompt *prompt) {
    string_buffer_deinit(&prompt->text);
    free(prompt->segments);
    *prompt = (struct chat_prompt){0};
}

static void append_segment(struct chat_prompt *prompt, size_t length, enum control_token control) {
    if (prompt->segments == NULL || prompt->segment_count == prompt->segment_capacity) {
        size_t capacity = prompt->segment_capacity == 0 ? 64 : prompt->segment_capacity * 2;
        struct chat_segment *segments = capacity > SIZE_MAX / sizeof *segments
                                            ? NULL
                                            : realloc(prompt->segments, capacity * sizeof *segments);
        if (segments == NULL) {
            prompt->is_failed = true;
            return;
        }
        prompt->segments = segments;
        prompt->segment_capacity = capacity;
    }
    prompt->segments[prompt->segment_count++] = (struct chat_segment){prompt->text.length, length, control};
}

void chat_prompt_append_plain(struct chat_prompt *prompt, const char *bytes, size_t length) {
    if (length == 0) {
        return;
    }
    struct chat_segment *last =
        prompt->segment_count == 0 ? NULL : &prompt->segments[prompt->segment_count - 1];
    if (last != NULL && last->control == CONTROL_TOKEN_NONE) {
        last->length += length;
    } else {
        append_segment(prompt, length, CONTROL_TOKEN_NONE);
    }
    string_buffer_append(&prompt->text, bytes, length);
}

void chat_prompt_append_control(struct chat_prompt *prompt, enum control_token control) {
    size_t length = control_token_length(control);
    append_segment(prompt, length, control);
    string_buffer_append(&prompt->text, control_token_text(control), length);
}

void chat_prompt_append_template(struct chat_prompt *prompt, const char *text) {
    size_t length = strlen(text);
    size_t plain_start = 0;
    size_t position = 0;
    while (position < length) {
        enum control_token control = control_token_at(text + position, length - position);
        if (control == CONTROL_TOKEN_NONE) {
            position++;
            continue;
        }
        chat_prompt_append_plain(prompt, text + plain_start, position - plain_start);
        chat_prompt_append_control(prompt, control);
        position += control_token_length(control);
        plain_start = position;
    }
    chat_prompt_append_plain(prompt, text + plain_start, length - plain_start);
}

bool chat_prompt_is_reasoning_open(const struct chat_prompt *prompt) {
    for (size_t i = prompt->segment_count; i > 0; i--) {
        enum control_token control = prompt->segments[i - 1].control;
        if (control != CONTROL_TOKEN_NONE && control != CONTROL_TOKEN_LATEST_REMINDER) {
            return control == CONTROL_TOKEN_THINK_START;
        }
    }
    return false;
}

enum status chat_prompt_check(const struct chat_prompt *prompt) {
    CHECK(!prompt->is_failed, STATUS_OUT_OF_MEMORY, "out of memory while building a prompt");
    TRY(string_buffer_check(&prompt->text));
    return STATUS_OK;
}

enum status chat_prompt_encode(const struct chat_prompt *prompt, const struct tokenizer *tokenizer,
                               enum chat_matching matching, struct token_list *out) {
    const struct tokenizer_encode_options options = {.match_added_tokens =
                                                         matching == CHAT_MATCHING_OFFICIAL};
    TRY(chat_prompt_check(prompt));
    if (matching == CHAT_MATCHING_OFFICIAL) {
        TRY(tokenizer_encode(tokenizer, string_buffer_text(&prompt->text), prompt->text.length, &options,
                             out));
        return STATUS_OK;
    }
    for (size_t i = 0; i < prompt->segment_count; i++) {
        const struct chat_segment *segment = &prompt->segments[i];
        if (segment->control == CONTROL_TOKEN_NONE) {
            TRY(tokenizer_encode(tokenizer, prompt->text.data + segment->start, segment->length, &options,
                                 out));
            continue;
        }
        int32_t id = tokenizer_added_token_id(tokenizer, control_token_text(segment->control));
        CHECK(id >= 0, STATUS_UNSUPPORTED, "the tokenizer has no token %s, which this prompt needs",
              control_token_text(segment->control));
        TRY(token_list_append(out, id));
    }
    return STATUS_OK;
}
