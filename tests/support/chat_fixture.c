/* Requests to prompts for the chat tests. */
#include "support/chat_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum status parse_request(const char *request, struct arena *arena, struct chat_conversation *out) {
    struct json *document = NULL;
    TRY(json_parse(request, strlen(request), "request", &document));
    enum status status =
        chat_conversation_parse(json_get(document, "messages"), json_get(document, "tools"), arena, out);
    json_free(&document);
    return status;
}

struct chat_prompt render_request(const char *request, const struct chat_encode_options *options) {
    struct arena arena;
    arena_init(&arena, 4096);
    struct chat_conversation conversation;
    struct chat_prompt prompt = {0};
    enum status status = parse_request(request, &arena, &conversation);
    if (status == STATUS_OK) {
        status = chat_encode_v4(&conversation, options, &prompt);
    }
    if (status != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
    arena_deinit(&arena);
    return prompt;
}

void assert_prompt(const char *request, bool is_thinking, const char *expected) {
    struct chat_encode_options options = chat_encode_options_default();
    options.is_thinking = is_thinking;
    struct chat_prompt prompt = render_request(request, &options);
    assert_string_equal(string_buffer_text(&prompt.text), expected);
    chat_prompt_deinit(&prompt);
}

enum status parse_request_status(const char *request) {
    struct arena arena;
    arena_init(&arena, 4096);
    struct chat_conversation conversation;
    enum status status = parse_request(request, &arena, &conversation);
    arena_deinit(&arena);
    return status;
}

char *read_chat_golden(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/chat/%s", SLUICE_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    char *bytes = calloc((size_t)length + 1, 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)length, file), length);
    fclose(file);
    return bytes;
}
