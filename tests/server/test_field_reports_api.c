/*
 * Faults that users of other engines met with HTTP APIs, as small inputs: choices, ends, usage, damaged text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "server/chat_summary.h"
#include "text/utf8.h"

/* B137, B150: with several choices each has its text and one finish under its own index. */
static void test_b150_choices(void **state) {
    struct api_fixture *fixture = *state;
    static const char *const texts[] = {"one", "two two", "three three three"};
    size_t completion_tokens = 0;
    for (int is_streaming = 0; is_streaming < 2; is_streaming++) {
        char body[512];
        api_fixture_reset(fixture);
        for (size_t i = 0; i < 3; i++) {
            char script[64];
            snprintf(script, sizeof script, "%s" EOS, texts[i]);
            script_service_add_text(fixture->service, script);
            struct token_list ids = api_fixture_ids(fixture, script);
            completion_tokens += is_streaming ? 0 : ids.count;
            token_list_deinit(&ids);
        }
        snprintf(body, sizeof body, "{" HI "," NO_THINKING ",\"n\":3,\"seed\":7,\"stream\":%s%s}",
                 is_streaming ? "true" : "false",
                 is_streaming ? ",\"stream_options\":{\"include_usage\":true}" : "");
        assert_int_equal(api_fixture_post(fixture, CHAT, body), 200);
        for (size_t i = 0; i < 3; i++) {
            char path[48];
            assert_int_equal(script_service_request(fixture->service, i)->options.choice_index, i);
            assert_int_equal(script_service_request(fixture->service, i)->options.sampling.seed, 7);
            if (is_streaming) {
                assert_stream_text(fixture, "choices.0.delta.content", (int64_t)i, texts[i]);
                assert_stream_text(fixture, "choices.0.finish_reason", (int64_t)i, "stop");
                assert_int_equal(stream_count(fixture, "choices.0.finish_reason", (int64_t)i), 1);
            } else {
                snprintf(path, sizeof path, "choices.%zu.message.content", i);
                assert_json_text(fixture->body, path, texts[i]);
            }
        }
        const struct json *root =
            is_streaming ? fixture->events[fixture->event_count - 1].data : fixture->body;
        assert_json_integer(root, "usage.completion_tokens", (int64_t)completion_tokens);
        assert_json_integer(root, "usage.prompt_tokens",
                            (int64_t)script_service_request(fixture->service, 0)->prompt_count);
    }
}

/* B140: reasoning ends at the first mark, not at text that looks like one. */
static void test_b140_end_of_thinking(void **state) {
    assert_chat_answer(*state, HI, "r</think>a" EOS, "{r}{a}stop");
    assert_chat_answer(*state, HI, "</think>a" EOS, "{}{a}stop");
    assert_chat_answer(*state, HI "," NO_THINKING, "a" EOS, "{}{a}stop");
    assert_chat_answer(*state, HI, "r" EOS, "{r}{}stop");
    assert_chat_answer(*state, HI, "r</think>a</think>b" EOS, "{r}{ab}stop");
}

/* B141: the first half of a stop string is never shown; what turns out to be none is. */
static void test_b141_stop_strings(void **state) {
    struct api_fixture *fixture = *state;
    static const char script[] = "red green blue black" EOS;
    assert_chat_answer(*state, HI "," NO_THINKING ",\"stop\":[\"een bl\"]", script, "{}{red gr}stop");
    assert_chat_answer(*state, HI "," NO_THINKING ",\"stop\":[\"een blx\"]", script,
                       "{}{red green blue black}stop");
    assert_chat_answer(*state, HI "," NO_THINKING ",\"stop\":\"een bl\",\"include_stop_str_in_output\":true",
                       script, "{}{red green bl}stop");
    for (int way = 0; way < 4; way++) {
        char body[256];
        bool is_streaming = way % 2 == 1;
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, script);
        script_service_set_lump(fixture->service, way < 2 ? 1 : 100);
        snprintf(body, sizeof body,
                 "{\"prompt\":\"x\",\"max_tokens\":99,\"stop\":[\"een bl\"],\"stream\":%s}",
                 is_streaming ? "true" : "false");
        assert_int_equal(api_fixture_post(fixture, COMPLETIONS, body), 200);
        if (is_streaming) {
            assert_stream_text(fixture, "choices.0.text", 0, "red gr");
            assert_stream_text(fixture, "choices.0.stop_reason", 0, "een bl");
        } else {
            assert_json_text(fixture->body, "choices.0.text", "red gr");
            assert_json_text(fixture->body, "choices.0.stop_reason", "een bl");
            /* Tokens that came beyond the stop string, as drafts do, are not counted. */
            struct token_list ids = api_fixture_ids(fixture, "red green blue black");
            assert_true(json_int64(json_find(fixture->body, "usage.completion_tokens")) < (int64_t)ids.count);
            token_list_deinit(&ids);
        }
        assert_int_equal(script_service_live_count(fixture->service), 0);
    }
}

/* B144: usage comes in one chunk of its own with empty choices, and only if asked for. */
static void test_b144_usage_chunk(void **state) {
    static const struct {
        const char *options;
        size_t expected;
    } cases[] = {{"", 0},
                 {",\"stream_options\":{\"include_usage\":false}", 0},
                 {",\"stream_options\":{\"include_usage\":true}", 1}};
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < 6; i++) {
        char body[512];
        size_t usages = 0;
        bool is_chat = i < 3;
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "a b c" EOS);
        snprintf(body, sizeof body, "{%s,\"stream\":true%s}", is_chat ? HI : "\"prompt\":\"x\"",
                 cases[i % 3].options);
        assert_int_equal(api_fixture_post(fixture, is_chat ? CHAT : COMPLETIONS, body), 200);
        for (size_t k = 0; k < fixture->event_count; k++) {
            const struct json *usage = json_get(fixture->events[k].data, "usage");
            if (usage != NULL) {
                usages++;
                assert_int_equal(k, fixture->event_count - 1);
                assert_int_equal(json_length(json_get(fixture->events[k].data, "choices")), 0);
            } else {
                assert_int_equal(json_length(json_get(fixture->events[k].data, "choices")), 1);
            }
        }
        assert_int_equal(usages, cases[i % 3].expected);
        assert_true(fixture->is_done);
    }
}

/* B145: a prompt that is too long is the client's fault: 400 with both numbers, streamed or not. */
static void test_b145_long_prompts(void **state) {
    struct api_fixture *fixture = *state;
    static const size_t counts[] = {4095, 4096, 4097, 10000};
    for (size_t i = 0; i < 8; i++) {
        struct string_buffer body = {0};
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "a b c d e f" EOS);
        string_buffer_append_format(&body, "{\"max_tokens\":100,\"stream\":%s,\"prompt\":[5",
                                    i < 4 ? "false" : "true");
        for (size_t k = 1; k < counts[i % 4]; k++) {
            string_buffer_append_text(&body, ",5");
        }
        string_buffer_append_text(&body, "]}");
        bool is_short = counts[i % 4] < 4096;
        assert_int_equal(api_fixture_post(fixture, COMPLETIONS, body.data), is_short ? 200 : 400);
        if (is_short) {
            /* What the context leaves: the rest of max_tokens is no error. */
            assert_int_equal(script_service_request(fixture->service, 0)->options.token_limit, 1);
        } else {
            char number[32];
            const char *message = json_text(json_find(fixture->body, "error.message"), NULL);
            snprintf(number, sizeof number, "%zu", counts[i % 4]);
            assert_non_null(strstr(message, "4096"));
            assert_non_null(strstr(message, number));
            assert_json_text(fixture->body, "error.code", "context_length_exceeded");
        }
        string_buffer_deinit(&body);
    }
}

/* B147: echo with log-probabilities covers the prompt: its tokens and the new one, the first without. */
static void test_b147_echo_scores(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    struct token_list prompt = api_fixture_ids(fixture, "w x y z");
    script_service_add_text(fixture->service, "!");
    assert_int_equal(api_fixture_post(fixture, COMPLETIONS,
                                      "{\"prompt\":\"w x y z\",\"echo\":true,\"logprobs\":1,\"max_tokens\":1,"
                                      "\"temperature\":0}"),
                     200);
    const struct json *values = json_find(fixture->body, "choices.0.logprobs.token_logprobs");
    assert_int_equal(json_length(values), prompt.count + 1);
    assert_int_equal(json_kind(json_at(values, 0)), JSON_KIND_NULL);
    for (size_t i = 1; i < prompt.count; i++) {
        assert_true(json_number(json_at(values, i)) == script_log_probability(i, 0));
    }
    assert_json_text(fixture->body, "choices.0.text", "w x y z!");
    token_list_deinit(&prompt);
    script_service_set_refusal(fixture->service, STATUS_UNSUPPORTED, "");
    script_service_set_refusal(fixture->service, STATUS_BAD_ARGUMENT,
                               "prompts have no log-probabilities here");
    assert_int_equal(
        api_fixture_post(fixture, COMPLETIONS, "{\"prompt\":\"w x\",\"echo\":true,\"logprobs\":1}"), 400);
}

/* The token of a byte. */
static int32_t byte_token(const struct api_fixture *fixture, unsigned char byte) {
    for (int32_t id = 0; id < tokenizer_vocabulary_size(fixture->tokenizer); id++) {
        size_t length = 0;
        const char *bytes = tokenizer_token_bytes(fixture->tokenizer, id, &length);
        if (bytes != NULL && length == 1 && (unsigned char)*bytes == byte) {
            return id;
        }
    }
    fail_msg("no token for byte %d", byte);
    return -1;
}

/* B152: bytes that are no UTF-8, as answer, as prompt and in echo: always valid JSON. */
static void test_b152_invalid_utf8(void **state) {
    static const unsigned char bytes[] = {0x80, 0xC3, 'a',  0xF0, 0x9F, 'b',
                                          0xED, 0xA0, 0x80, 0xFF, 'c',  0xE4};
    struct api_fixture *fixture = *state;
    int32_t ids[sizeof bytes];
    char prompt[256] = "";
    for (size_t i = 0; i < sizeof bytes; i++) {
        ids[i] = byte_token(fixture, bytes[i]);
        snprintf(prompt + strlen(prompt), sizeof prompt - strlen(prompt), "%s%d", i > 0 ? "," : "", ids[i]);
    }
    for (int way = 0; way < 4; way++) {
        char body[512];
        bool is_streaming = way % 2 == 1;
        api_fixture_reset(fixture);
        script_service_add(fixture->service, ids, sizeof bytes);
        if (way < 2) {
            snprintf(body, sizeof body,
                     "{\"prompt\":[%s],\"echo\":true,\"logprobs\":2,\"max_tokens\":50,\"stream\":%s}", prompt,
                     is_streaming ? "true" : "false");
        } else {
            snprintf(body, sizeof body, "{" HI "," NO_THINKING ",\"logprobs\":true,\"stream\":%s}",
                     is_streaming ? "true" : "false");
        }
        assert_int_equal(api_fixture_post(fixture, way < 2 ? COMPLETIONS : CHAT, body), 200);
        assert_int_equal(utf8_valid_length(fixture->reply.body.data, is_streaming
                                                                         ? strlen(fixture->reply.body.data)
                                                                         : fixture->reply.body.length),
                         is_streaming ? strlen(fixture->reply.body.data) : fixture->reply.body.length);
        if (way == 2) {
            assert_json_text(fixture->body, "choices.0.message.content",
                             "\xEF\xBF\xBD\xEF\xBF\xBD"
                             "a\xEF\xBF\xBD"
                             "b\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"
                             "c\xEF\xBF\xBD");
        }
    }
    /* An error quotes no raw bytes. */
    assert_int_equal(api_fixture_post(fixture, CHAT, "{\"model\":\"\xFF\xFE\"}"), 400);
    static const char cut_name[] = "{\"messages\":[{\"role\":\"user\"}],\"model\":\"";
    struct string_buffer body = {0};
    string_buffer_append_text(&body, cut_name);
    for (int i = 0; i < 400; i++) {
        string_buffer_append_text(&body, "é");
    }
    string_buffer_append_text(&body, "\"}");
    assert_int_equal(api_fixture_post(fixture, CHAT, body.data), 404);
    string_buffer_deinit(&body);
}

/* B154: what is no request is a 400. */
static void test_b154_malformed_bodies(void **state) {
    static const char *const bodies[] = {"{:",
                                         "{",
                                         "",
                                         "[]",
                                         "null",
                                         "{\"a\":1}x",
                                         "{\"messages\":[}",
                                         "{\"messages\":NaN}",
                                         "{\"temperature\":1e999}",
                                         "{\"a\":1,}",
                                         "\xEF\xBB\xBF{}",
                                         "7",
                                         "\"x\"",
                                         "{\"messages\":[{\"role\":7}]}",
                                         "{\"messages\":\"hi\"}",
                                         "{\"messages\":[[]]}",
                                         "{\"messages\":[]}",
                                         "{\"messages\":{}}",
                                         "{}",
                                         "{\"model\":7}",
                                         "{\"model\":\"a\\u0000b\"}",
                                         "{\"a\":1,\"a\":2}"};
    static const char *const paths[] = {
        CHAT,        COMPLETIONS,  "/v1/messages", "/v1/messages/count_tokens", "/v1/responses",
        "/tokenize", "/detokenize"};
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    for (size_t path = 0; path < sizeof paths / sizeof *paths; path++) {
        for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
            assert_int_equal(api_fixture_post(fixture, paths[path], bodies[i]), 400);
            assert_true(strlen(json_text(json_find(fixture->body, "error.message"), NULL)) > 10);
        }
    }
    assert_int_equal(script_service_request_count(fixture->service), 0);
}

/* B156: a token's bytes are its own, also where it is part of a character. */
static void test_b156_true_bytes(void **state) {
    static const unsigned char emoji[] = {0xF0, 0x9F, 0x98, 0x8A};
    struct api_fixture *fixture = *state;
    for (int is_streaming = 0; is_streaming < 2; is_streaming++) {
        unsigned char joined[8];
        size_t count = 0;
        int32_t ids[5];
        char body[256];
        api_fixture_reset(fixture);
        for (size_t i = 0; i < 4; i++) {
            ids[i] = byte_token(fixture, emoji[i]);
        }
        ids[4] = 1;
        script_service_add(fixture->service, ids, 5);
        snprintf(body, sizeof body,
                 "{" HI "," NO_THINKING ",\"logprobs\":true,\"top_logprobs\":1,\"stream\":%s}",
                 is_streaming ? "true" : "false");
        assert_int_equal(api_fixture_post(fixture, CHAT, body), 200);
        size_t event_count = is_streaming ? fixture->event_count : 1;
        for (size_t i = 0; i < event_count; i++) {
            const struct json *list = json_find(is_streaming ? fixture->events[i].data : fixture->body,
                                                "choices.0.logprobs.content");
            for (size_t k = 0; list != NULL && k < json_length(list) && count < 4; k++) {
                const struct json *bytes = json_get(json_at(list, k), "bytes");
                assert_int_equal(json_length(bytes), 1);
                joined[count++] = (unsigned char)json_int64(json_at(bytes, 0));
                assert_int_equal(json_int64(json_find(json_at(list, k), "top_logprobs.0.bytes.0")),
                                 joined[count - 1]);
            }
        }
        assert_int_equal(count, 4);
        assert_memory_equal(joined, emoji, 4);
        if (is_streaming) {
            assert_stream_text(fixture, "choices.0.delta.content", 0, "😊");
        } else {
            assert_json_text(fixture->body, "choices.0.message.content", "😊");
        }
    }
}

/* B158: during a long prefill the head is out at once and comments follow; Anthropic's clients get pings. */
static void test_b158_keep_alive(void **state) {
    struct api_fixture *fixture = *state;
    static const char *const paths[] = {CHAT, COMPLETIONS, "/v1/messages", "/v1/responses"};
    static const char *const bodies[] = {"{" HI ",\"stream\":true}", "{\"prompt\":\"x\",\"stream\":true}",
                                         "{" HI ",\"stream\":true,\"max_tokens\":9}",
                                         "{\"input\":\"x\",\"stream\":true}"};
    static const char *const signs[] = {": keep-alive\n\n: keep-alive", ": keep-alive\n\n: keep-alive",
                                        "\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\nevent: ping",
                                        ": keep-alive\n\n: keep-alive"};
    api_fixture_reset(fixture);
    struct api_options options = api_fixture_options(fixture);
    struct api *api = fixture->api;
    options.keep_alive_seconds = 0.05;
    assert_int_equal(api_open(&options, &fixture->api), STATUS_OK);
    for (size_t i = 0; i < 4; i++) {
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "a" EOS);
        double start = clock_seconds();
        api_fixture_send(fixture, "POST", paths[i], bodies[i], strlen(bodies[i]));
        memory_reply_wait_for_text(&fixture->reply, signs[i]);
        assert_true(clock_seconds() - start < 5.0);
        api_fixture_receive(fixture);
        assert_int_equal(fixture->reply.status, 200);
        assert_true(i == 2 || fixture->comment_count >= 2);
    }
    /* A client that leaves then ends the prefill. */
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "a" EOS);
    api_fixture_send(fixture, "POST", CHAT, bodies[0], strlen(bodies[0]));
    script_service_wait_for_requests(fixture->service, 1);
    memory_reply_leave(&fixture->reply);
    memory_reply_wait_for_end(&fixture->reply);
    api_close(&fixture->api);
    fixture->api = api;
    assert_int_equal(script_service_live_count(fixture->service), 0);
}

/* B65: the earliest boundary of a run of accepted drafts wins. */
static void test_b65_earliest_boundary(void **state) {
    assert_chat_answer(*state, HI "," NO_THINKING ",\"max_tokens\":5", "a b" EOS " c d e", "{}{a b}stop");
    assert_chat_answer(*state, HI "," NO_THINKING ",\"max_tokens\":2", "a b" EOS, "{}{a b}length");
}

/* B167: reasons of ends, streamed and not; no text of end tokens. */
static void test_b167_ends(void **state) {
    assert_chat_answer(*state, HI "," NO_THINKING, "hello" EOS, "{}{hello}stop");
    assert_chat_answer(*state, HI "," NO_THINKING ",\"max_tokens\":1", "a b c" EOS, "{}{a}length");
    struct api_fixture *fixture = *state;
    struct token_list ids = api_fixture_ids(fixture, "a!");
    char fields[256];
    snprintf(fields, sizeof fields, HI "," NO_THINKING ",\"stop_token_ids\":[%d]", ids.ids[1]);
    assert_chat_answer(*state, fields, "a!b" EOS, "{}{a}stop");
    char body[512];
    snprintf(body, sizeof body, "{%s}", fields);
    assert_int_equal(api_fixture_post(fixture, CHAT, body), 200);
    assert_json_integer(fixture->body, "choices.0.stop_reason", ids.ids[1]);
    token_list_deinit(&ids);
    /* With ignore_eos an end token is no end, and still no text. */
    assert_chat_answer(*state, HI "," NO_THINKING ",\"ignore_eos\":true,\"max_tokens\":4",
                       "a" EOS " b" EOS " c", "{}{a b}length");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b150_choices),          cmocka_unit_test(test_b140_end_of_thinking),
        cmocka_unit_test(test_b141_stop_strings),     cmocka_unit_test(test_b144_usage_chunk),
        cmocka_unit_test(test_b145_long_prompts),     cmocka_unit_test(test_b147_echo_scores),
        cmocka_unit_test(test_b152_invalid_utf8),     cmocka_unit_test(test_b154_malformed_bodies),
        cmocka_unit_test(test_b156_true_bytes),       cmocka_unit_test(test_b158_keep_alive),
        cmocka_unit_test(test_b65_earliest_boundary), cmocka_unit_test(test_b167_ends),
    };
    return cmocka_run_group_tests(tests, api_fixture_open, api_fixture_close);
}
