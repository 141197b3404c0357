/* Prompts against the official encoder's: worked examples, fixed texts, token ids of a whole tool prompt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/chat_fixture.h"
#include "text/tokenizer.h"

#define MESSAGES(list) "{\"messages\": [" list "]}"
#define SYSTEM(text) "{\"role\": \"system\", \"content\": \"" text "\"}"
#define SAYS(text) "{\"role\": \"user\", \"content\": \"" text "\"}"
#define ANSWERS(text) "{\"role\": \"assistant\", \"content\": \"" text "\"}"

static void test_short_examples(void **state) {
    (void)state;
    assert_prompt(MESSAGES(SAYS("Hi")), false, BOS USER "Hi" ASSISTANT "</think>");
    assert_prompt(MESSAGES(SYSTEM("S") "," SAYS("Q")), true, BOS "S" USER "Q" ASSISTANT "<think>");
    assert_prompt(MESSAGES(SAYS("a") "," ANSWERS("b") "," SAYS("c")), false,
                  BOS USER "a" ASSISTANT "</think>b" EOS USER "c" ASSISTANT "</think>");
    assert_prompt(MESSAGES(SAYS("a") ",{\"role\": \"assistant\", \"content\": \"b\", \"reasoning_content\": "
                                     "\"r1\"}," SAYS("c")),
                  true, BOS USER "a" ASSISTANT "</think>b" EOS USER "c" ASSISTANT "<think>");
    assert_prompt(MESSAGES(SAYS("q1") "," SAYS("q2")), false, BOS USER "q1\n\nq2" ASSISTANT "</think>");
    assert_prompt(MESSAGES(SAYS("q") "," ANSWERS("a") "," SYSTEM("new sys") "," SAYS("q2")), false,
                  BOS USER "q" ASSISTANT "</think>a" EOS "new sys" USER "q2" ASSISTANT "</think>");
    assert_prompt(MESSAGES(SAYS("q") ",{\"role\": \"latest_reminder\", \"content\": \"2026-01-01\"}"), true,
                  BOS USER "q" ASSISTANT "<think><｜latest_reminder｜>2026-01-01");
}

static void test_open_turn_and_tasks(void **state) {
    (void)state;
    assert_prompt(MESSAGES(SAYS("q") ",{\"role\": \"assistant\", \"content\": \"par\", \"wo_eos\": true}"),
                  false, BOS USER "q" ASSISTANT "</think>par");
    assert_prompt(MESSAGES(SAYS("q") ",{\"role\": \"assistant\", \"content\": \"a\", \"task\": \"title\"}"),
                  false, BOS USER "q" ASSISTANT "</think>a" EOS "<｜title｜>");
    assert_prompt(MESSAGES("{\"role\": \"user\", \"content\": \"q\", \"task\": \"query\"}"), false,
                  BOS USER "q<｜query｜>");
    assert_prompt(MESSAGES("{\"role\": \"user\", \"content\": \"q\", \"task\": \"action\"}"), true,
                  BOS USER "q" ASSISTANT "<think><｜action｜>");
    /* What follows a task is the task's answer: no thinking mark, and no merging into it. */
    assert_prompt(MESSAGES("{\"role\": \"user\", \"content\": \"q\", \"task\": \"query\"}," ANSWERS("a")),
                  true, BOS USER "q<｜query｜>a" EOS);
    assert_prompt(MESSAGES("{\"role\": \"user\", \"content\": \"q\", \"task\": \"query\"}," SAYS("r")), false,
                  BOS USER "q" USER "r" ASSISTANT "</think>");
}

static void test_response_format(void **state) {
    (void)state;
    assert_prompt(
        MESSAGES("{\"role\": \"system\", \"content\": \"S\", \"response_format\": {\"type\":\"object\"}}"
                 "," SAYS("q")),
        false,
        BOS "S\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
            "{\"type\": \"object\"}" USER "q" ASSISTANT "</think>");
}

#define CALL(id, name, arguments)                                                   \
    "{\"id\": \"" id "\", \"type\": \"function\", \"function\": {\"name\": \"" name \
    "\", \"arguments\": \"" arguments "\"}}"
#define RESULT(id, text) "{\"role\": \"tool\", \"tool_call_id\": \"" id "\", \"content\": \"" text "\"}"

static void test_calls_and_sorted_results(void **state) {
    (void)state;
    assert_prompt(
        MESSAGES(SAYS("q") ",{\"role\": \"assistant\", \"content\": \"ok\", \"tool_calls\": [" CALL(
            "A", "f",
            "{\\\"x\\\": 1, \\\"s\\\": \\\"a<b\\\", \\\"l\\\": [1,2]}") "," CALL("B", "g",
                                                                                 "{}") "]}"
                                                                                       "," RESULT("B", "rb") "," RESULT(
                                                                                           "A",
                                                                                           "ra") "," SAYS("an"
                                                                                                          "d"
                                                                                                          "?")),
        true,
        BOS USER "q" ASSISTANT "</think>ok\n\n"
                 "<" DSML "tool_calls>\n"
                 "<" DSML "invoke name=\"f\">\n"
                 "<" DSML "parameter name=\"x\" string=\"false\">1</" DSML "parameter>\n"
                 "<" DSML "parameter name=\"s\" string=\"true\">a<b</" DSML "parameter>\n"
                 "<" DSML "parameter name=\"l\" string=\"false\">[1, 2]</" DSML "parameter>\n"
                 "</" DSML "invoke>\n"
                 "<" DSML "invoke name=\"g\">\n"
                 "\n"
                 "</" DSML "invoke>\n"
                 "</" DSML "tool_calls>" EOS USER "<tool_result>ra</tool_result>\n"
                 "\n"
                 "<tool_result>rb</tool_result>\n"
                 "\n"
                 "and?" ASSISTANT "<think>");
}

/* Text between results keeps its place, an unknown id counts as the first call, equal ranks keep their order.
 */
static void test_sorting_details(void **state) {
    (void)state;
    assert_prompt(
        MESSAGES(
            SAYS("q") ",{\"role\": \"assistant\", \"tool_calls\": [" CALL("A", "f", "{}") "," CALL("B", "f", "{}") "," CALL(
                "C", "f",
                "{}") "]}," RESULT("C",
                                   "c") "," SAYS("between") "," RESULT("?",
                                                                       "u") "," RESULT("A",
                                                                                       "a") "," RESULT("B",
                                                                                                       "b")),
        false,
        BOS USER "q" ASSISTANT "</think>\n\n<" DSML "tool_calls>\n<" DSML "invoke name=\"f\">\n\n</" DSML
                 "invoke>\n<" DSML "invoke name=\"f\">\n\n</" DSML "invoke>\n<" DSML
                 "invoke name=\"f\">\n\n</" DSML "invoke>\n</" DSML "tool_calls>" EOS USER
                 "<tool_result>u</tool_result>\n\nbetween\n\n<tool_result>a</tool_result>\n\n"
                 "<tool_result>b</tool_result>\n\n<tool_result>c</tool_result>" ASSISTANT "</think>");
}

static void test_arguments_that_are_no_object(void **state) {
    (void)state;
    static const char *const arguments[] = {"not json", "[1]", ""};
    for (size_t i = 0; i < 3; i++) {
        char request[512], expected[512];
        snprintf(request, sizeof request,
                 MESSAGES("{\"role\": \"assistant\", \"wo_eos\": true, \"tool_calls\": [" CALL("A", "f",
                                                                                               "%s") "]}"),
                 arguments[i]);
        snprintf(expected, sizeof expected,
                 BOS "\n\n<" DSML "tool_calls>\n<" DSML "invoke name=\"f\">\n<" DSML
                     "parameter name=\"arguments\" string=\"true\">%s</" DSML "parameter>\n</" DSML
                     "invoke>\n</" DSML "tool_calls>",
                 arguments[i]);
        assert_prompt(request, false, expected);
    }
}

static void test_efforts(void **state) {
    (void)state;
    static const struct {
        enum chat_release release;
        const char *effort;
        const char *golden; /* NULL: no text */
    } cases[] = {
        {CHAT_RELEASE_PREVIEW, "low", NULL},
        {CHAT_RELEASE_PREVIEW, "high", NULL},
        {CHAT_RELEASE_PREVIEW, "max", "effort_maximum.txt"},
        {CHAT_RELEASE_0731, "minimal", NULL},
        {CHAT_RELEASE_0731, "medium", NULL},
        {CHAT_RELEASE_0731, "high", "effort_maximum.txt"},
        {CHAT_RELEASE_0731, "xhigh", "effort_maximum.txt"},
        {CHAT_RELEASE_0731, "max", "effort_beyond_maximum.txt"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct chat_encode_options options = chat_encode_options_default();
        options.release = cases[i].release;
        assert_true(chat_encode_options_set_effort(&options, cases[i].effort));
        struct chat_prompt prompt = render_request(MESSAGES(SYSTEM("S") "," SAYS("Q")), &options);
        char *text = cases[i].golden == NULL ? calloc(1, 1) : read_chat_golden(cases[i].golden);
        struct string_buffer expected = {0};
        string_buffer_append_format(&expected, BOS "%sS" USER "Q" ASSISTANT "<think>", text);
        assert_string_equal(prompt.text.data, expected.data);
        string_buffer_deinit(&expected);
        free(text);
        chat_prompt_deinit(&prompt);
    }
    struct chat_encode_options options = chat_encode_options_default();
    assert_true(chat_encode_options_set_effort(&options, "max"));
    assert_false(chat_encode_options_set_effort(&options, "much"));
    char *text = read_chat_golden("effort_beyond_maximum.txt");
    struct chat_prompt prompt = render_request(MESSAGES(SAYS("Q")), &options);
    assert_memory_equal(prompt.text.data, BOS, strlen(BOS));
    assert_memory_equal(prompt.text.data + strlen(BOS), text, strlen(text));
    assert_string_equal(prompt.text.data + strlen(BOS) + strlen(text), USER "Q" ASSISTANT "<think>");
    chat_prompt_deinit(&prompt);
    free(text);
    assert_true(chat_encode_options_set_effort(&options, "none"));
    assert_false(options.is_thinking);
    assert_int_equal(chat_encode_options_default().effort, CHAT_EFFORT_LOW);
}

/* Old developer turns go with the reasoning; the last one is a user turn. */
static void test_developer_turns(void **state) {
    (void)state;
    const char *request =
        MESSAGES("{\"role\": \"developer\", \"content\": \"d1\"},"
                 "{\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": \"r\"},"
                 "{\"role\": \"developer\", \"content\": \"d2\"},"
                 "{\"role\": \"assistant\", \"content\": \"b\", \"reasoning_content\": \"s\"}");
    assert_prompt(request, true, BOS "a" EOS USER "d2" ASSISTANT "<think>s</think>b" EOS);
    assert_prompt(request, false,
                  BOS USER "d1" ASSISTANT "</think>a" EOS USER "d2" ASSISTANT "</think>b" EOS);
}

/* Without any user turn nothing is old. */
static void test_reasoning_without_user_turn(void **state) {
    (void)state;
    assert_prompt(MESSAGES("{\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": \"r\"}"),
                  true, BOS "r</think>a" EOS);
}

/* The tool prompt that the training data's generator wrote; its last turn closes thinking at once. */
static struct chat_prompt render_tool_prompt(char **expected) {
    char *request = read_chat_golden("tools_conversation.json");
    struct chat_encode_options options = chat_encode_options_default();
    struct chat_prompt prompt = render_request(request, &options);
    free(request);
    *expected = read_chat_golden("tools_prompt.txt");
    return prompt;
}

static void test_tool_prompt_text(void **state) {
    (void)state;
    char *expected;
    struct chat_prompt prompt = render_tool_prompt(&expected);
    size_t common = strlen(expected) - strlen("</think>");
    assert_string_equal(expected + common, "</think>");
    assert_string_equal(prompt.text.data + common, "<think>");
    prompt.text.data[common] = '\0';
    expected[common] = '\0';
    assert_string_equal(prompt.text.data, expected);
    free(expected);
    chat_prompt_deinit(&prompt);
}

static void test_tool_prompt_ids(void **state) {
    (void)state;
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(tokenizer_load(SLUICE_SOURCE_DIR "/models/mini-v4/tokenizer.json", &tokenizer),
                     STATUS_OK);
    char *text = read_chat_golden("tools_prompt_ids.json");
    struct json *expected = NULL;
    assert_int_equal(json_parse(text, strlen(text), "ids", &expected), STATUS_OK);
    free(text);
    struct chat_prompt prompt = render_tool_prompt(&text);
    free(text);
    static const enum chat_matching matchings[] = {CHAT_MATCHING_TEMPLATE_ONLY, CHAT_MATCHING_OFFICIAL};
    for (size_t k = 0; k < 2; k++) {
        struct token_list ids = {0};
        assert_int_equal(chat_prompt_encode(&prompt, tokenizer, matchings[k], &ids), STATUS_OK);
        assert_int_equal(ids.count, json_length(expected));
        for (size_t i = 0; i + 1 < ids.count; i++) {
            assert_int_equal(ids.ids[i], json_int64(json_at(expected, i)));
        }
        assert_int_equal(ids.ids[ids.count - 1], tokenizer_added_token_id(tokenizer, "<think>"));
        token_list_deinit(&ids);
    }
    chat_prompt_deinit(&prompt);
    json_free(&expected);
    tokenizer_destroy(&tokenizer);
}

/* Tools stand behind the system text, and all reasoning is kept because of them. */
static void test_tools_on_system_message(void **state) {
    (void)state;
    char *block = read_chat_golden("tools_prompt.txt");
    char *start = strstr(block, "## Tools");
    char *first_schema = strstr(start, "{\"name\": \"get_weather\"");
    struct string_buffer expected = {0};
    string_buffer_append_text(&expected, BOS "S\n\n");
    string_buffer_append(&expected, start, (size_t)(first_schema - start));
    string_buffer_append_text(&expected,
                              "{\"name\": \"f\"}\n\nYou MUST strictly follow the above defined tool name and "
                              "parameter schemas to invoke tool calls.\n" USER "a" ASSISTANT
                              "<think>r1</think>b" EOS USER "c" ASSISTANT "<think>");
    assert_prompt(MESSAGES("{\"role\": \"system\", \"content\": \"S\", \"tools\": [{\"type\": \"function\", "
                           "\"function\": {\"name\":\"f\"}}]}," SAYS(
                               "a") ",{\"role\": \"assistant\", "
                                    "\"content\": \"b\", \"reasoning_content\": \"r1\"}," SAYS("c")),
                  true, expected.data);
    string_buffer_deinit(&expected);
    free(block);
}

/* Several turns with tools: everything that was thought stays. */
static void test_tools_keep_all_reasoning(void **state) {
    (void)state;
    char *block = read_chat_golden("tools_prompt.txt");
    char *start = strstr(block, "## Tools");
    char *first_schema = strstr(start, "{\"name\": \"get_weather\"");
    struct string_buffer expected = {0};
    string_buffer_append_text(&expected, BOS "You are a helpful assistant.\n\n");
    string_buffer_append(&expected, start, (size_t)(first_schema - start));
    string_buffer_append_text(
        &expected,
        "{\"name\": \"get_weather\"}\n\nYou MUST strictly follow the above defined tool name and parameter "
        "schemas to invoke tool calls.\n" USER "What's the weather in Beijing?" ASSISTANT
        "<think>The user wants to know. Use the tool.</think>\n\n<" DSML "tool_calls>\n<" DSML
        "invoke name=\"get_weather\">\n<" DSML "parameter name=\"location\" string=\"true\">Beijing</" DSML
        "parameter>\n<" DSML "parameter name=\"unit\" string=\"true\">celsius</" DSML "parameter>\n</" DSML
        "invoke>\n</" DSML "tool_calls>" EOS USER "<tool_result>{\"temperature\": 22, \"condition\": "
        "\"sunny\", \"humidity\": 45}</tool_result>" ASSISTANT
        "<think>Got the weather data.</think>The weather in Beijing is sunny." EOS);
    static const char request[] = "{\"messages\": [" SYSTEM("You are a helpful assistant.") "," SAYS(
        "What's the weather in Beijing?") ","
                                          "{\"role\": \"assistant\", \"content\": \"\","
                                          " \"reasoning_content\": \"The user wants to know. Use the tool.\","
                                          " \"tool_calls\": [{\"id\": \"A\", \"type\": \"function\", "
                                          "\"function\": {\"name\": \"get_weather\","
                                          " \"arguments\": \"{\\\"location\\\": \\\"Beijing\\\", "
                                          "\\\"unit\\\": \\\"celsius\\\"}\"}}]},"
                                          "{\"role\": \"tool\", \"tool_call_id\": \"A\","
                                          " \"content\": \"{\\\"temperature\\\": 22, \\\"condition\\\": "
                                          "\\\"sunny\\\", \\\"humidity\\\": 45}\"},"
                                          "{\"role\": \"assistant\", \"content\": \"The weather in Beijing "
                                          "is sunny.\","
                                          " \"reasoning_content\": \"Got the weather data.\"}],"
                                          "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": "
                                          "\"get_weather\"}}]}";
    assert_prompt(request, true, expected.data);
    string_buffer_deinit(&expected);
    free(block);
}

static void test_reasoning_is_open(void **state) {
    (void)state;
    static const struct {
        const char *request;
        bool is_thinking, is_open;
    } cases[] = {
        {MESSAGES(SAYS("q")), true, true},
        {MESSAGES(SAYS("<think>")), false, false},
        {MESSAGES(SAYS("q") ",{\"role\": \"latest_reminder\", \"content\": \"now\"}"), true, true},
        {MESSAGES(SAYS("q") ",{\"role\": \"assistant\", \"content\": \"par\", \"wo_eos\": true}"), true,
         false},
        {MESSAGES("{\"role\": \"user\", \"content\": \"q\", \"task\": \"action\"}"), true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct chat_encode_options options = chat_encode_options_default();
        options.is_thinking = cases[i].is_thinking;
        struct chat_prompt prompt = render_request(cases[i].request, &options);
        assert_int_equal(chat_prompt_is_reasoning_open(&prompt), cases[i].is_open);
        chat_prompt_deinit(&prompt);
    }
}

static void test_segments(void **state) {
    (void)state;
    struct chat_encode_options options = chat_encode_options_default();
    struct chat_prompt prompt =
        render_request(MESSAGES("{\"role\": \"system\", \"content\": \"S\", \"tools\": [{\"function\": "
                                "{\"name\": \"f\"}}]}," SAYS("<think>")),
                       &options);
    size_t end = 0;
    bool was_plain = false;
    for (size_t i = 0; i < prompt.segment_count; i++) {
        bool is_plain = prompt.segments[i].control == CONTROL_TOKEN_NONE;
        assert_int_equal(prompt.segments[i].start, end);
        assert_false(is_plain && was_plain);
        end += prompt.segments[i].length;
        was_plain = is_plain;
    }
    assert_int_equal(end, prompt.text.length);
    /* "S", the blank line and the block's text up to its first control token are one run. */
    assert_memory_equal(prompt.text.data + prompt.segments[1].start, "S\n\n## Tools\n\nYou have", 21);
    assert_int_equal(prompt.segments[2].control, CONTROL_TOKEN_DSML);
    /* The user's text stays plain. */
    assert_int_equal(prompt.segments[prompt.segment_count - 3].control, CONTROL_TOKEN_NONE);
    assert_int_equal(prompt.segments[prompt.segment_count - 3].length, 7);
    chat_prompt_deinit(&prompt);
}

static void test_content_forms(void **state) {
    (void)state;
    assert_prompt(
        MESSAGES("{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": "
                 "\"text\", \"text\": \"b\"}]}"),
        false, BOS USER "a\n\nb" ASSISTANT "</think>");
    assert_prompt(
        MESSAGES("{\"role\": \"tool\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": "
                 "\"image_url\"}]}"),
        false, BOS USER "<tool_result>a\n\n[Unsupported image_url]</tool_result>" ASSISTANT "</think>");
}

static void test_conversation_without_json(void **state) {
    (void)state;
    struct chat_message messages[] = {chat_message_of_text(CHAT_ROLE_SYSTEM, "S", 1),
                                      chat_message_of_text(CHAT_ROLE_USER, "Q", 1)};
    const struct chat_conversation conversation = {messages, 2};
    struct chat_encode_options options = chat_encode_options_default();
    struct chat_prompt prompt = {0};
    assert_int_equal(chat_encode_v4(&conversation, &options, &prompt), STATUS_OK);
    assert_string_equal(prompt.text.data, BOS "S" USER "Q" ASSISTANT "<think>");
    chat_prompt_deinit(&prompt);
}

static void test_malformed_requests(void **state) {
    (void)state;
    static const struct {
        const char *request;
        enum status status;
        const char *said;
    } cases[] = {
        {"{\"messages\": []}", STATUS_BAD_FORMAT, "at least one message"},
        {"{}", STATUS_BAD_FORMAT, "messages"},
        {MESSAGES("3"), STATUS_BAD_FORMAT, "messages[0] is not an object"},
        {MESSAGES(SAYS("a") ",{\"content\": \"x\"}"), STATUS_BAD_FORMAT, "messages[1] has no \"role\""},
        {MESSAGES("{\"role\": \"robot\"}"), STATUS_BAD_FORMAT, "messages[0].role is \"robot\""},
        {MESSAGES("{\"role\": \"user\", \"content\": 3}"), STATUS_BAD_FORMAT, "messages[0].content"},
        {MESSAGES("{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}"), STATUS_UNSUPPORTED,
         "messages[0].content[0] is of type \"image_url\""},
        {MESSAGES("{\"role\": \"user\", \"content\": [\"x\"]}"), STATUS_BAD_FORMAT,
         "content[0] has no \"type\""},
        {MESSAGES("{\"role\": \"assistant\", \"reasoning_content\": {}}"), STATUS_BAD_FORMAT,
         "messages[0].reasoning_content is not a string"},
        {MESSAGES("{\"role\": \"assistant\", \"tool_calls\": {}}"), STATUS_BAD_FORMAT,
         "messages[0].tool_calls is not a list"},
        {MESSAGES("{\"role\": \"assistant\", \"tool_calls\": [{}]}"), STATUS_BAD_FORMAT,
         "messages[0].tool_calls[0] has no function name"},
        {MESSAGES("{\"role\": \"user\", \"task\": \"dance\"}"), STATUS_BAD_FORMAT,
         "messages[0].task is \"dance\""},
        {MESSAGES("{\"role\": \"user\", \"wo_eos\": 1}"), STATUS_BAD_FORMAT, "messages[0].wo_eos"},
        {MESSAGES("{\"role\": \"system\", \"tools\": [{}]}"), STATUS_BAD_FORMAT,
         "messages[0].tools[0] has no function name"},
        {"{\"messages\": [{\"role\": \"user\"}], \"tools\": [{}]}", STATUS_BAD_FORMAT,
         "tools[0] has no function name"},
        {"{\"messages\": [{\"role\": \"user\"}], \"tools\": {}}", STATUS_BAD_FORMAT, "tools is not a list"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse_request_status(cases[i].request), cases[i].status);
        if (strstr(error_last()->message, cases[i].said) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", error_last()->message, cases[i].said);
        }
    }
}

/* Sorting must not become slow because a client sends many calls and results. */
static void test_many_tool_results(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    struct string_buffer request = {0};
    string_buffer_append_text(&request, "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [");
    for (int i = 0; i < COUNT; i++) {
        string_buffer_append_format(&request, "%s" CALL("%d", "f", "{}"), i > 0 ? "," : "", i);
    }
    string_buffer_append_text(&request, "]}");
    for (int i = COUNT; i > 0; i--) {
        string_buffer_append_format(&request, "," RESULT("%d", "r%d"), i - 1, i - 1);
    }
    string_buffer_append_text(&request, "]}");
    struct chat_encode_options options = chat_encode_options_default();
    struct chat_prompt prompt = render_request(request.data, &options);
    const char *at = prompt.text.data;
    for (int i = 0; i < COUNT; i++) {
        char result[64];
        snprintf(result, sizeof result, "<tool_result>r%d</tool_result>", i);
        at = strstr(at, result);
        assert_non_null(at);
    }
    chat_prompt_deinit(&prompt);
    string_buffer_deinit(&request);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_examples),
        cmocka_unit_test(test_open_turn_and_tasks),
        cmocka_unit_test(test_response_format),
        cmocka_unit_test(test_calls_and_sorted_results),
        cmocka_unit_test(test_sorting_details),
        cmocka_unit_test(test_arguments_that_are_no_object),
        cmocka_unit_test(test_efforts),
        cmocka_unit_test(test_developer_turns),
        cmocka_unit_test(test_reasoning_without_user_turn),
        cmocka_unit_test(test_tool_prompt_text),
        cmocka_unit_test(test_tool_prompt_ids),
        cmocka_unit_test(test_tools_on_system_message),
        cmocka_unit_test(test_tools_keep_all_reasoning),
        cmocka_unit_test(test_reasoning_is_open),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_content_forms),
        cmocka_unit_test(test_conversation_without_json),
        cmocka_unit_test(test_malformed_requests),
        cmocka_unit_test(test_many_tool_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
