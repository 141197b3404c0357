/*
 * Faults that users of other engines met with tools and reasoning, as small inputs.
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

#include "server/chat_summary.h"

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

/* B118: damaged blocks: one recovery, streamed and whole, never markup in the content. */
static void test_b118_damaged_blocks(void **state) {
    static const char lima[] = "{}{}run({\"cmd\": \"Lima\"})tool_calls";
#define LIMA OPEN("run") STRING("cmd", "Lima") CLOSE
    assert_chat_answer(*state, TOOLS "," NO_THINKING, OPEN_BLOCK LIMA CLOSE_BLOCK EOS, lima);
    assert_chat_answer(*state, TOOLS "," NO_THINKING, "\n\n" LIMA CLOSE_BLOCK EOS, lima);
    assert_chat_answer(*state, TOOLS "," NO_THINKING, OPEN_BLOCK LIMA EOS, lima);
    assert_chat_answer(*state, TOOLS "," NO_THINKING, OPEN_BLOCK OPEN_BLOCK LIMA CLOSE_BLOCK EOS, lima);
    assert_chat_answer(*state, TOOLS "," NO_THINKING,
                       OPEN_BLOCK OPEN("run") "<" DSML "parameter name=cmd string=true>Lima</" DSML
                                              "parameter>\n" CLOSE CLOSE_BLOCK EOS,
                       lima);
    assert_chat_answer(*state, TOOLS "," NO_THINKING, OPEN_BLOCK LIMA CLOSE_BLOCK "done" EOS,
                       "{}{done}run({\"cmd\": \"Lima\"})tool_calls");
    assert_chat_answer(*state, TOOLS "," NO_THINKING, "<" DSML "nonsense>x" EOS, "{}{x}stop");
}

/* B120: no piece of a closing tag in the arguments. */
static void test_b120_closing_tags(void **state) {
    assert_chat_answer(*state, TOOLS "," NO_THINKING,
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
    struct string_buffer text = chat_summary(fixture, TOOLS "," NO_THINKING, script, true, 1);
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
    assert_chat_answer(
        *state, TOOLS "," NO_THINKING,
        OPEN_BLOCK OPEN("run") STRING("cmd", "007") VALUE("n", "3") VALUE("bg", "true")
            VALUE("opts", "{\"a\":[1,{\"b\":null}]}") VALUE("list", "[]") CLOSE CLOSE_BLOCK EOS,
        "{}{}run({\"cmd\": \"007\", \"n\": 3, \"bg\": true, \"opts\": {\"a\":[1,{\"b\":null}]}, "
        "\"list\": []})tool_calls");
    assert_chat_answer(*state, TOOLS "," NO_THINKING,
                       OPEN_BLOCK OPEN("run") STRING("cmd", "null") VALUE("bg", "yes") CLOSE CLOSE_BLOCK EOS,
                       "{}{}run({\"cmd\": \"null\", \"bg\": \"yes\"})tool_calls");
}

/* B125: a block inside thinking; without tools or with "none" there is no call and no markup. */
static void test_b125_blocks_where_none_belong(void **state) {
#define BLOCK OPEN_BLOCK OPEN("run") STRING("cmd", "ls") CLOSE CLOSE_BLOCK
#define NOTICE "[The model tried to call a tool, but no tools are enabled for this request.]"
    assert_chat_answer(*state, TOOLS, "plan" BLOCK EOS, "{plan}{}run({\"cmd\": \"ls\"})tool_calls");
    assert_chat_answer(*state, HI, "plan" BLOCK EOS, "{plan}{" NOTICE "}stop");
    assert_chat_answer(*state, HI "," NO_THINKING, "text" BLOCK EOS, "{}{text}stop");
    /* Cut by max_tokens at every place: neither markup nor a call that has no end. */
    struct api_fixture *fixture = *state;
    struct token_list ids = api_fixture_ids(fixture, "text" BLOCK);
    for (size_t cut = 1; cut < ids.count; cut++) {
        char fields[2048];
        snprintf(fields, sizeof fields, TOOLS "," NO_THINKING ",\"max_tokens\":%zu", cut);
        struct string_buffer whole = chat_summary(fixture, fields, "text" BLOCK EOS, false, 1);
        assert_null(strstr(whole.data, DSML));
        assert_null(strstr(whole.data, "()"));
        assert_non_null(strstr(whole.data, "length"));
        struct string_buffer streamed = chat_summary(fixture, fields, "text" BLOCK EOS, true, 1);
        assert_null(strstr(streamed.data, DSML));
        string_buffer_deinit(&whole);
        string_buffer_deinit(&streamed);
    }
    token_list_deinit(&ids);
}

/* B127: parallel calls have indices and ids of their own; a naive client rebuilds all of them. */
static void test_b127_parallel_calls(void **state) {
    assert_chat_answer(*state, TOOLS "," NO_THINKING,
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
    assert_chat_answer(*state, HI ",\"chat_template_kwargs\":{\"thinking\":false}", "hello" EOS,
                       "{}{hello}stop");
    assert_chat_answer(*state, HI ",\"chat_template_kwargs\":{\"enable_thinking\":false}", "hello" EOS,
                       "{}{hello}stop");
    assert_chat_answer(*state, HI ",\"reasoning_effort\":\"none\"", "hello" EOS, "{}{hello}stop");
    struct string_buffer text =
        chat_summary(*state, HI ",\"reasoning_effort\":\"none\"", "hello" EOS, false, 1);
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
    };
    return cmocka_run_group_tests(tests, api_fixture_open, api_fixture_close);
}
