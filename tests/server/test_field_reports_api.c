/*
 * Faults that users of other engines met with HTTP APIs, tools and reasoning, as small inputs.
 *
 * Every completion is sent streamed and whole, one token a step and all at once: what a client joins must be
 * the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "server/api_fixture.h"
#include "text/utf8.h"

#define HI "\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"temperature\":0"
#define NO_THINKING "\"chat_template_kwargs\":{\"thinking\":false}"
#define TOOLS                                                                                                \
    "\"messages\":[{\"role\":\"user\",\"content\":\"go\"}],\"tool_choice\":\"auto\",\"tools\":[{\"type\":"   \
    "\"function\",\"function\":{\"name\":\"run\",\"parameters\":{\"type\":\"object\",\"properties\":"        \
    "{\"cmd\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"bg\":{\"type\":\"boolean\"},\"opts\":"    \
    "{\"type\":\"object\"},\"list\":{\"type\":\"array\"}}}}},{\"type\":\"function\",\"function\":{\"name\":" \
    "\"stop\"}}]"
#define OPEN_BLOCK "\n\n<" DSML "tool_calls>\n"
#define CLOSE_BLOCK "</" DSML "tool_calls>"
#define OPEN(name) "<" DSML "invoke name=\"" name "\">\n"
#define CLOSE "</" DSML "invoke>\n"
#define STRING(key, value) \
    "<" DSML "parameter name=\"" key "\" string=\"true\">" value "</" DSML "parameter>\n"
#define VALUE(key, value) \
    "<" DSML "parameter name=\"" key "\" string=\"false\">" value "</" DSML "parameter>\n"

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

/* One way to send the request: the summary of what comes. Owned: string_buffer_deinit. */
static struct string_buffer summary(struct api_fixture *fixture, const char *fields, const char *script,
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

static void assert_answer(struct api_fixture *fixture, const char *fields, const char *script,
                          const char *expected) {
    for (int way = 0; way < 6; way++) {
        static const size_t lumps[] = {1, 3, 1000};
        struct string_buffer text = summary(fixture, fields, script, way % 2 == 1, lumps[way / 2]);
        assert_string_equal(string_buffer_text(&text), expected);
        string_buffer_deinit(&text);
    }
}

/* B118: damaged blocks: one recovery, streamed and whole, never markup in the content. */
static void test_b118_damaged_blocks(void **state) {
    static const char lima[] = "{}{}run({\"cmd\": \"Lima\"})tool_calls";
#define LIMA OPEN("run") STRING("cmd", "Lima") CLOSE
    assert_answer(*state, TOOLS "," NO_THINKING, OPEN_BLOCK LIMA CLOSE_BLOCK EOS, lima);
    assert_answer(*state, TOOLS "," NO_THINKING, "\n\n" LIMA CLOSE_BLOCK EOS, lima);
    assert_answer(*state, TOOLS "," NO_THINKING, OPEN_BLOCK LIMA EOS, lima);
    assert_answer(*state, TOOLS "," NO_THINKING, OPEN_BLOCK OPEN_BLOCK LIMA CLOSE_BLOCK EOS, lima);
    assert_answer(*state, TOOLS "," NO_THINKING,
                  OPEN_BLOCK OPEN("run") "<" DSML "parameter name=cmd string=true>Lima</" DSML
                                         "parameter>\n" CLOSE CLOSE_BLOCK EOS,
                  lima);
    assert_answer(*state, TOOLS "," NO_THINKING, OPEN_BLOCK LIMA CLOSE_BLOCK "done" EOS,
                  "{}{done}run({\"cmd\": \"Lima\"})tool_calls");
    assert_answer(*state, TOOLS "," NO_THINKING, "<" DSML "nonsense>x" EOS, "{}{x}stop");
}

/* B120: no piece of a closing tag in the arguments. */
static void test_b120_closing_tags(void **state) {
    assert_answer(*state, TOOLS "," NO_THINKING,
                  OPEN_BLOCK OPEN("run") STRING("cmd", "a > b 2>&1 </ x <") CLOSE CLOSE_BLOCK EOS,
                  "{}{}run({\"cmd\": \"a > b 2>&1 </ x <\"})tool_calls");
}

/* B121: arguments stream while they come: header first, early, in many pieces. */
static void test_b121_arguments_stream(void **state) {
    struct api_fixture *fixture = *state;
    char script[8192];
    char value[4001];
    for (size_t i = 0; i < 4000; i++) {
        value[i] = "abcdefghij 0123456789"[i % 21];
    }
    value[4000] = '\0';
    snprintf(script, sizeof script,
             OPEN_BLOCK OPEN("run") "<" DSML "parameter name=\"cmd\" string=\"true\">%s</" DSML
                                    "parameter>\n" CLOSE CLOSE_BLOCK EOS,
             value);
    struct string_buffer text = summary(fixture, TOOLS "," NO_THINKING, script, true, 1);
    size_t fragments = 0;
    size_t first = 0;
    for (size_t i = 0; i < fixture->event_count; i++) {
        const char *fragment = json_text(
            json_find(fixture->events[i].data, "choices.0.delta.tool_calls.0.function.arguments"), NULL);
        if (fragment != NULL && *fragment != '\0') {
            first = fragments == 0 ? i : first;
            fragments++;
        }
    }
    assert_true(fragments >= 20);
    assert_true(first * 10 < fixture->event_count);
    assert_int_equal(stream_count(fixture, "choices.0.delta.tool_calls.0.id", 0), 1);
    assert_int_equal(stream_count(fixture, "choices.0.delta.tool_calls.0.function.name", 0), 1);
    assert_non_null(strstr(text.data, value));
    string_buffer_deinit(&text);
}

/* B122: types of arguments; what is announced as JSON and is none becomes a string. */
static void test_b122_argument_types(void **state) {
    assert_answer(*state, TOOLS "," NO_THINKING,
                  OPEN_BLOCK OPEN("run") STRING("cmd", "007") VALUE("n", "3") VALUE("bg", "true")
                      VALUE("opts", "{\"a\":[1,{\"b\":null}]}") VALUE("list", "[]") CLOSE CLOSE_BLOCK EOS,
                  "{}{}run({\"cmd\": \"007\", \"n\": 3, \"bg\": true, \"opts\": {\"a\":[1,{\"b\":null}]}, "
                  "\"list\": []})tool_calls");
    assert_answer(*state, TOOLS "," NO_THINKING,
                  OPEN_BLOCK OPEN("run") STRING("cmd", "null") VALUE("bg", "yes") CLOSE CLOSE_BLOCK EOS,
                  "{}{}run({\"cmd\": \"null\", \"bg\": \"yes\"})tool_calls");
}

/* B125: a block inside thinking; without tools or with "none" there is no call and no markup. */
static void test_b125_blocks_where_none_belong(void **state) {
#define BLOCK OPEN_BLOCK OPEN("run") STRING("cmd", "ls") CLOSE CLOSE_BLOCK
#define NOTICE "[The model tried to call a tool, but no tools are enabled for this request.]"
    assert_answer(*state, TOOLS, "plan" BLOCK EOS, "{plan}{}run({\"cmd\": \"ls\"})tool_calls");
    assert_answer(*state, HI, "plan" BLOCK EOS, "{plan}{" NOTICE "}stop");
    assert_answer(*state, HI "," NO_THINKING, "text" BLOCK EOS, "{}{text}stop");
    /* Cut by max_tokens at every place: neither markup nor a call that has no end. */
    struct api_fixture *fixture = *state;
    struct token_list ids = api_fixture_ids(fixture, "text" BLOCK);
    for (size_t cut = 1; cut < ids.count; cut++) {
        char fields[2048];
        snprintf(fields, sizeof fields, TOOLS "," NO_THINKING ",\"max_tokens\":%zu", cut);
        struct string_buffer whole = summary(fixture, fields, "text" BLOCK EOS, false, 1);
        assert_null(strstr(whole.data, DSML));
        assert_null(strstr(whole.data, "()"));
        assert_non_null(strstr(whole.data, "length"));
        struct string_buffer streamed = summary(fixture, fields, "text" BLOCK EOS, true, 1);
        assert_null(strstr(streamed.data, DSML));
        string_buffer_deinit(&whole);
        string_buffer_deinit(&streamed);
    }
    token_list_deinit(&ids);
}

/* B127: parallel calls have indices and ids of their own; a naive client rebuilds all of them. */
static void test_b127_parallel_calls(void **state) {
    assert_answer(*state, TOOLS "," NO_THINKING,
                  OPEN_BLOCK OPEN("run") STRING("cmd", "a") CLOSE OPEN("run") STRING("cmd", "a")
                      CLOSE OPEN("stop") CLOSE CLOSE_BLOCK EOS,
                  "{}{}run({\"cmd\": \"a\"})run({\"cmd\": \"a\"})stop({})tool_calls");
}

/* B131: no content is an empty one, whatever the role; never an error of the server. */
static void test_b131_null_content(void **state) {
    static const char *const roles[] = {"system", "user", "assistant", "tool", "developer"};
    static const char *const contents[] = {"", ",\"content\":null", ",\"content\":\"\"", ",\"content\":[]",
                                           ",\"content\":\" \""};
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < 25; i++) {
        char body[512];
        struct string_buffer text = {0};
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "x" EOS);
        snprintf(body, sizeof body,
                 "{\"messages\":[{\"role\":\"%s\"%s},{\"role\":\"user\",\"content\":\"q\"}]}", roles[i / 5],
                 contents[i % 5]);
        assert_int_equal(api_fixture_post(fixture, CHAT, body), 200);
        const struct script_request *request = script_service_request(fixture->service, 0);
        assert_int_equal(
            tokenizer_decode(fixture->tokenizer, request->prompt, request->prompt_count, false, &text),
            STATUS_OK);
        assert_null(strstr(text.data, "None"));
        assert_null(strstr(text.data, "null"));
        string_buffer_deinit(&text);
    }
}

/* B133: with thinking off everything is content, by whichever switch. */
static void test_b133_thinking_off(void **state) {
    assert_answer(*state, HI ",\"chat_template_kwargs\":{\"thinking\":false}", "hello" EOS, "{}{hello}stop");
    assert_answer(*state, HI ",\"chat_template_kwargs\":{\"enable_thinking\":false}", "hello" EOS,
                  "{}{hello}stop");
    assert_answer(*state, HI ",\"reasoning_effort\":\"none\"", "hello" EOS, "{}{hello}stop");
    struct string_buffer text = summary(*state, HI ",\"reasoning_effort\":\"none\"", "hello" EOS, false, 1);
    assert_null(strstr(((struct api_fixture *)*state)->reply.body.data, "reasoning\""));
    string_buffer_deinit(&text);
}

/* B135: required and named tool choices go to the service as grammars, thinking or not. */
static void test_b135_forced_tools(void **state) {
    struct api_fixture *fixture = *state;
    for (int way = 0; way < 4; way++) {
        char body[2048];
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "x" EOS);
        snprintf(body, sizeof body,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"go\"}],\"tools\":[{\"function\":{\"name\":"
                 "\"run\"}}],\"tool_choice\":%s,\"chat_template_kwargs\":{\"thinking\":%s}}",
                 way / 2 == 0 ? "\"required\"" : "{\"type\":\"function\",\"function\":{\"name\":\"run\"}}",
                 way % 2 == 0 ? "true" : "false");
        assert_int_equal(api_fixture_post(fixture, CHAT, body), 200);
        const struct script_request *request = script_service_request(fixture->service, 0);
        assert_int_equal(request->grammar, SERVICE_GRAMMAR_TOOLS);
        assert_int_equal(request->starts_in_reasoning, way % 2 == 0);
    }
}

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
    assert_answer(*state, HI, "r</think>a" EOS, "{r}{a}stop");
    assert_answer(*state, HI, "</think>a" EOS, "{}{a}stop");
    assert_answer(*state, HI "," NO_THINKING, "a" EOS, "{}{a}stop");
    assert_answer(*state, HI, "r" EOS, "{r}{}stop");
    assert_answer(*state, HI, "r</think>a</think>b" EOS, "{r}{ab}stop");
}

/* B141: the first half of a stop string is never shown; what turns out to be none is. */
static void test_b141_stop_strings(void **state) {
    struct api_fixture *fixture = *state;
    static const char script[] = "red green blue black" EOS;
    assert_answer(*state, HI "," NO_THINKING ",\"stop\":[\"een bl\"]", script, "{}{red gr}stop");
    assert_answer(*state, HI "," NO_THINKING ",\"stop\":[\"een blx\"]", script,
                  "{}{red green blue black}stop");
    assert_answer(*state, HI "," NO_THINKING ",\"stop\":\"een bl\",\"include_stop_str_in_output\":true",
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
    assert_answer(*state, HI "," NO_THINKING ",\"max_tokens\":5", "a b" EOS " c d e", "{}{a b}stop");
    assert_answer(*state, HI "," NO_THINKING ",\"max_tokens\":2", "a b" EOS, "{}{a b}length");
}

/* B167: reasons of ends, streamed and not; no text of end tokens. */
static void test_b167_ends(void **state) {
    assert_answer(*state, HI "," NO_THINKING, "hello" EOS, "{}{hello}stop");
    assert_answer(*state, HI "," NO_THINKING ",\"max_tokens\":1", "a b c" EOS, "{}{a}length");
    struct api_fixture *fixture = *state;
    struct token_list ids = api_fixture_ids(fixture, "a!");
    char fields[256];
    snprintf(fields, sizeof fields, HI "," NO_THINKING ",\"stop_token_ids\":[%d]", ids.ids[1]);
    assert_answer(*state, fields, "a!b" EOS, "{}{a}stop");
    char body[512];
    snprintf(body, sizeof body, "{%s}", fields);
    assert_int_equal(api_fixture_post(fixture, CHAT, body), 200);
    assert_json_integer(fixture->body, "choices.0.stop_reason", ids.ids[1]);
    token_list_deinit(&ids);
    /* With ignore_eos an end token is no end, and still no text. */
    assert_answer(*state, HI "," NO_THINKING ",\"ignore_eos\":true,\"max_tokens\":4", "a" EOS " b" EOS " c",
                  "{}{a b}length");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b118_damaged_blocks),
        cmocka_unit_test(test_b120_closing_tags),
        cmocka_unit_test(test_b121_arguments_stream),
        cmocka_unit_test(test_b122_argument_types),
        cmocka_unit_test(test_b125_blocks_where_none_belong),
        cmocka_unit_test(test_b127_parallel_calls),
        cmocka_unit_test(test_b131_null_content),
        cmocka_unit_test(test_b133_thinking_off),
        cmocka_unit_test(test_b135_forced_tools),
        cmocka_unit_test(test_b150_choices),
        cmocka_unit_test(test_b140_end_of_thinking),
        cmocka_unit_test(test_b141_stop_strings),
        cmocka_unit_test(test_b144_usage_chunk),
        cmocka_unit_test(test_b145_long_prompts),
        cmocka_unit_test(test_b147_echo_scores),
        cmocka_unit_test(test_b152_invalid_utf8),
        cmocka_unit_test(test_b154_malformed_bodies),
        cmocka_unit_test(test_b156_true_bytes),
        cmocka_unit_test(test_b158_keep_alive),
        cmocka_unit_test(test_b65_earliest_boundary),
        cmocka_unit_test(test_b167_ends),
    };
    return cmocka_run_group_tests(tests, api_fixture_open, api_fixture_close);
}
