#include "server/chat_summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What a client sees of choice 0: {reasoning}{content}name(arguments)...finish. */
static struct string_buffer summary_of_whole(const struct json *body) {
    struct string_buffer out = {0};
    const struct json *message = json_find(body, "choices.0.message");
    const char *reasoning = json_text(json_get(message, "reasoning"), NULL);
    const char *content = json_text(json_get(message, "content"), NULL);
    string_buffer_append_format(&out, "{%s}{%s}", reasoning == NULL ? "" : reasoning,
                                content == NULL ? "" : content);
    const struct json *calls = json_get(message, "tool_calls");
    for (size_t i = 0; i < json_length(calls); i++) {
        const struct json *call = json_at(calls, i);
        assert_json_text(call, "type", "function");
        string_buffer_append_format(&out, "%s(%s)", json_text(json_find(call, "function.name"), NULL),
                                    json_text(json_find(call, "function.arguments"), NULL));
    }
    string_buffer_append_text(&out, json_text(json_find(body, "choices.0.finish_reason"), NULL));
    return out;
}

enum { CALLS_MAX = 8 };

/* The same from a stream, as a naive client puts it together: by the calls' indices. */
static struct string_buffer summary_of_stream(const struct api_fixture *fixture) {
    struct string_buffer out = {0};
    struct string_buffer reasoning = stream_text(fixture, "choices.0.delta.reasoning", 0);
    struct string_buffer content = stream_text(fixture, "choices.0.delta.content", 0);
    struct string_buffer names[CALLS_MAX] = {{0}};
    struct string_buffer arguments[CALLS_MAX] = {{0}};
    char ids[CALLS_MAX][64] = {""};
    for (size_t i = 0; i < fixture->event_count; i++) {
        const struct json *call = json_find(fixture->events[i].data, "choices.0.delta.tool_calls.0");
        if (call == NULL) {
            continue;
        }
        size_t index = (size_t)json_int64(json_get(call, "index"));
        assert_true(index < CALLS_MAX);
        if (json_get(call, "id") != NULL) {
            assert_string_equal(ids[index], "");
            snprintf(ids[index], sizeof ids[index], "%s", json_text(json_get(call, "id"), NULL));
            string_buffer_append_text(&names[index], json_text(json_find(call, "function.name"), NULL));
        }
        const char *fragment = json_text(json_find(call, "function.arguments"), NULL);
        assert_null(strstr(fragment, DSML));
        string_buffer_append_text(&arguments[index], fragment);
    }
    string_buffer_append_format(&out, "{%s}{%s}", string_buffer_text(&reasoning),
                                string_buffer_text(&content));
    for (size_t i = 0; i < CALLS_MAX && names[i].length > 0; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(ids[i], ids[k]);
        }
        string_buffer_append_format(&out, "%s(%s)", names[i].data, string_buffer_text(&arguments[i]));
    }
    struct string_buffer finish = stream_text(fixture, "choices.0.finish_reason", 0);
    string_buffer_append_text(&out, string_buffer_text(&finish));
    for (size_t i = 0; i < CALLS_MAX; i++) {
        string_buffer_deinit(&names[i]);
        string_buffer_deinit(&arguments[i]);
    }
    string_buffer_deinit(&finish);
    string_buffer_deinit(&reasoning);
    string_buffer_deinit(&content);
    return out;
}

struct string_buffer chat_summary(struct api_fixture *fixture, const char *fields, const char *script,
                                  bool is_streaming, size_t lump) {
    char *body = malloc(strlen(fields) + 64);
    sprintf(body, "{%s,\"stream\":%s}", fields, is_streaming ? "true" : "false");
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, script);
    script_service_set_lump(fixture->service, lump);
    assert_int_equal(api_fixture_post(fixture, CHAT, body), 200);
    free(body);
    if (is_streaming) {
        assert_int_equal(stream_count(fixture, "choices.0.finish_reason", 0), 1);
        assert_null(strstr(fixture->reply.body.data, "\\ufffd"));
        return summary_of_stream(fixture);
    }
    return summary_of_whole(fixture->body);
}

void assert_chat_answer(struct api_fixture *fixture, const char *fields, const char *script,
                        const char *expected) {
    for (int way = 0; way < 6; way++) {
        static const size_t lumps[] = {1, 3, 1000};
        struct string_buffer text = chat_summary(fixture, fields, script, way % 2 == 1, lumps[way / 2]);
        assert_string_equal(string_buffer_text(&text), expected);
        string_buffer_deinit(&text);
    }
}
