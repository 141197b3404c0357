/* Anthropic's Messages API: conversations to prompts, blocks and their events, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/api_fixture.h"

#define MESSAGES "/v1/messages"
#define BOS "<｜begin▁of▁sentence｜>"
#define HI "\"model\":\"tiny\",\"max_tokens\":200,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define RUN_TOOL "\"tools\":[{\"name\":\"run\",\"description\":\"d\",\"input_schema\":{\"type\":\"object\"}}]"
#define RUN_CALL                                                                                \
    "\n\n<" DSML "tool_calls>\n<" DSML "invoke name=\"run\">\n<" DSML                           \
    "parameter name=\"cmd\" string=\"true\">ls</" DSML "parameter>\n</" DSML "invoke>\n</" DSML \
    "tool_calls>"

static void test_whole_message(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "hm</think>Sure." RUN_CALL EOS);
    assert_int_equal(api_fixture_post(fixture, MESSAGES, "{" HI "," RUN_TOOL "}"), 200);
    const struct json *body = fixture->body;
    assert_json_text(body, "id", "msg_request-1");
    assert_json_text(body, "type", "message");
    assert_json_text(body, "role", "assistant");
    assert_json_text(body, "content.0.type", "thinking");
    assert_json_text(body, "content.0.thinking", "hm");
    assert_json_text(body, "content.1.type", "text");
    assert_json_text(body, "content.1.text", "Sure.");
    assert_json_text(body, "content.2.type", "tool_use");
    assert_json_text(body, "content.2.name", "run");
    assert_json_text(body, "content.2.input.cmd", "ls");
    assert_json_text(body, "stop_reason", "tool_use");
    assert_json_null(body, "stop_sequence");
    assert_json_integer(body, "usage.input_tokens",
                        (int64_t)script_service_request(fixture->service, 0)->prompt_count);
}

/* The order of events, and that they add up to the whole message. */
static void test_stream(void **state) {
    static const char *const expected[] = {
        "message_start",       "ping",
        "content_block_start", "content_block_delta",
        "content_block_stop",  "content_block_start",
        "content_block_delta", "content_block_stop",
        "content_block_start", "content_block_delta",
        "content_block_stop",  "message_delta",
        "message_stop",
    };
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "hm</think>Sure." RUN_CALL EOS);
    assert_int_equal(api_fixture_post(fixture, MESSAGES, "{" HI "," RUN_TOOL ",\"stream\":true}"), 200);
    size_t place = 0;
    for (size_t i = 0; i < fixture->event_count; i++) {
        const struct stream_event *event = &fixture->events[i];
        assert_json_text(event->data, "type", event->name);
        /* Deltas of one block count as one. */
        bool is_repeated = i > 0 && strcmp(event->name, "content_block_delta") == 0 &&
                           strcmp(fixture->events[i - 1].name, event->name) == 0;
        if (!is_repeated) {
            assert_true(place < sizeof expected / sizeof *expected);
            assert_string_equal(event->name, expected[place++]);
        }
    }
    assert_int_equal(place, sizeof expected / sizeof *expected);
    assert_stream_text(fixture, "delta.thinking", -1, "hm");
    assert_stream_text(fixture, "delta.text", -1, "Sure.");
    assert_stream_text(fixture, "delta.partial_json", -1, "{\"cmd\": \"ls\"}");
    assert_stream_text(fixture, "delta.stop_reason", -1, "tool_use");
    assert_false(fixture->is_done);
    const struct json *delta = fixture->events[fixture->event_count - 2].data;
    struct token_list ids = api_fixture_ids(fixture, "hm</think>Sure." RUN_CALL EOS);
    assert_json_integer(delta, "usage.output_tokens", (int64_t)ids.count);
    token_list_deinit(&ids);
}

/* B165: the first event, the whole reply and count_tokens agree on the input. */
static void test_b165_input_tokens(void **state) {
    struct api_fixture *fixture = *state;
    char body[4096];
    char text[2000] = "";
    for (size_t i = 0; i < 300; i++) {
        strcat(text, "word ");
    }
    int64_t counts[3];
    for (int way = 0; way < 3; way++) {
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "a</think>b" EOS);
        snprintf(body, sizeof body,
                 "{\"model\":\"tiny\",\"max_tokens\":9,\"stream\":%s,\"system\":\"be kind\"," RUN_TOOL
                 ",\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}",
                 way == 0 ? "true" : "false", text);
        assert_int_equal(api_fixture_post(fixture, way == 2 ? "/v1/messages/count_tokens" : MESSAGES, body),
                         200);
        const struct json *root = way == 0 ? fixture->events[0].data : fixture->body;
        const char *path = way == 0   ? "message.usage.input_tokens"
                           : way == 1 ? "usage.input_tokens"
                                      : "input_tokens";
        counts[way] = json_int64(json_find(root, path));
    }
    assert_true(counts[0] > 300);
    assert_int_equal(counts[1], counts[0]);
    assert_int_equal(counts[2], counts[0]);
}

/* What conversations become: the prompt as text. */
static void test_prompts(void **state) {
    static const struct {
        const char *fields, *prompt;
    } cases[] = {
        {"\"system\":\"S\",\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]",
         BOS "S<｜User｜>q<｜Assistant｜><think>"},
        {"\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: "
         "cc_version=1\"},{\"type\":\"text\","
         "\"text\":\"A\",\"cache_control\":{\"type\":\"ephemeral\"}},{\"type\":\"text\",\"text\":\"B\"}],"
         "\"thinking\":{\"type\":\"disabled\"},\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
         "\"text\","
         "\"text\":\"q\"}]}]",
         BOS "A\n\nB<｜User｜>q<｜Assistant｜></think>"},
        {"\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"par\"}],"
         "\"thinking\":{\"type\":\"disabled\"}",
         BOS "<｜User｜>q<｜Assistant｜></think>par"},
        {"\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024},\"messages\":[{\"role\":\"user\","
         "\"content\":"
         "\"q\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"R\","
         "\"signature\":"
         "\"\"},{\"type\":\"text\",\"text\":\"ok\"},{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"run\","
         "\"input\":{\"cmd\":\"ls\"}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_"
         "id\":"
         "\"t1\",\"content\":[{\"type\":\"text\",\"text\":\"out\"}]},{\"type\":\"text\",\"text\":\"and?\"}]}"
         "]",
         BOS "<｜User｜>q<｜Assistant｜></think>ok" RUN_CALL EOS
             "<｜User｜><tool_result>out</tool_result>\n\nand?<｜Assistant｜><think>"},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[2048];
        struct string_buffer text = {0};
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "x" EOS);
        snprintf(body, sizeof body, "{\"model\":\"tiny\",\"max_tokens\":9,%s}", cases[i].fields);
        assert_int_equal(api_fixture_post(fixture, MESSAGES, body), 200);
        const struct script_request *request = script_service_request(fixture->service, 0);
        assert_int_equal(
            tokenizer_decode(fixture->tokenizer, request->prompt, request->prompt_count, false, &text),
            STATUS_OK);
        assert_string_equal(text.data, cases[i].prompt);
        string_buffer_deinit(&text);
    }
}

/* Ends of an answer, in this API's words; the stop sequence that ended it. */
static void test_ends(void **state) {
    static const struct {
        const char *script, *fields, *reason, *sequence;
    } cases[] = {
        {"a</think>b" EOS, "\"max_tokens\":50", "end_turn", NULL},
        {"a</think>b c d e f", "\"max_tokens\":4", "max_tokens", NULL},
        {"a</think>b stop c" EOS, "\"max_tokens\":50,\"stop_sequences\":[\"sto\"]", "stop_sequence", "sto"},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        bool is_streaming = i % 2 == 1;
        char body[512];
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, cases[i / 2].script);
        snprintf(body, sizeof body,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],%s,\"stream\":%s}",
                 cases[i / 2].fields, is_streaming ? "true" : "false");
        assert_int_equal(api_fixture_post(fixture, MESSAGES, body), 200);
        const struct json *root =
            is_streaming ? json_find(fixture->events[fixture->event_count - 2].data, "delta") : fixture->body;
        assert_json_text(root, "stop_reason", cases[i / 2].reason);
        if (cases[i / 2].sequence != NULL) {
            assert_json_text(root, "stop_sequence", cases[i / 2].sequence);
        } else {
            assert_json_null(root, "stop_sequence");
        }
    }
}

static void test_tool_choices(void **state) {
    static const struct {
        const char *choice, *grammar;
    } cases[] = {
        {"{\"type\":\"auto\",\"disable_parallel_tool_use\":true}",
         "\"tool_choice\":\"auto\",\"parallel_tool_calls\":false}"},
        {"{\"type\":\"any\"}", "\"tool_choice\":\"required\",\"parallel_tool_calls\":true}"},
        {"{\"type\":\"tool\",\"name\":\"run\"}", "\"tool_choice\":{\"type\":\"function\",\"function\":{"
                                                 "\"name\":\"run\"}},\"parallel_tool_calls\":true}"},
        {"{\"type\":\"none\"}", ""},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "x" EOS);
        snprintf(body, sizeof body, "{" HI "," RUN_TOOL ",\"tool_choice\":%s}", cases[i].choice);
        assert_int_equal(api_fixture_post(fixture, MESSAGES, body), 200);
        const char *grammar = string_buffer_text(&script_service_request(fixture->service, 0)->grammar_text);
        assert_non_null(strstr(grammar, cases[i].grammar));
        assert_int_equal(*grammar == '\0', *cases[i].grammar == '\0');
    }
}

static void test_refusals(void **state) {
    static const struct {
        const char *body, *message;
        int status;
    } cases[] = {
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", "max_tokens is missing", 400},
        {"{\"max_tokens\":1}", "messages needs at least one message", 400},
        {"{\"max_tokens\":1,\"metadata\":{\"user_id\":3},\"messages\":[]}",
         "metadata.user_id is not a string", 400},
        {"{\"max_tokens\":1,\"service_tier\":\"flex\",\"messages\":[]}",
         "service_tier is \"flex\"; use auto or standard_only", 400},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\"}]}", "messages.0 needs", 400},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"robot\",\"content\":\"\"}]}", "robot", 400},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}", "image",
         400},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[7]}]}", "missing", 400},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\"}]}]}",
         "tool_use without id", 400},
        {"{" HI ",\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}]}", "at place 0",
         400},
        {"{" HI "," RUN_TOOL ",\"tool_choice\":{\"type\":\"tool\",\"name\":\"walk\"}}",
         "tool_choice names \"walk\", which is not among the tools", 400},
        {"{" HI "," RUN_TOOL ",\"tool_choice\":{\"type\":\"required\"}}",
         "tool_choice.type is \"required\"; use auto, any, tool or none", 400},
        {"{" HI "," RUN_TOOL ",\"tool_choice\":{}}", "tool_choice.type is missing; use auto, any", 400},
        {"{" HI "," RUN_TOOL ",\"tool_choice\":{\"type\":7}}", "tool_choice.type is not a string", 400},
        {"{" HI "," RUN_TOOL ",\"tool_choice\":{\"type\":\"tool\"}}",
         "tool_choice.name is missing; the type tool", 400},
        {"{" HI "," RUN_TOOL ",\"tool_choice\":{\"type\":\"any\",\"disable_parallel_tool_use\":1}}",
         "tool_choice.disable_parallel_tool_use is neither", 400},
        {"{" HI ",\"tool_choice\":{\"type\":\"any\"}}", "tool_choice asks for a tool call, but", 400},
        {"{" HI ",\"thinking\":{}}", "thinking.type is missing; use enabled, adaptive or disabled", 400},
        {"{" HI ",\"thinking\":{\"type\":\"on\"}}", "thinking.type is \"on\"; use enabled", 400},
        {"{" HI ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1023}}",
         "thinking.budget_tokens is 1023; expected 1024 to", 400},
        {"{" HI ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":\"2048\"}}",
         "thinking.budget_tokens is not a whole number", 400},
        {"{" HI ",\"output_config\":{\"format\":{\"type\":\"xml\"}}}",
         "output_config.format has the type \"xml\"", 400},
        {"{" HI ",\"output_format\":{\"type\":\"json_schema\"}}",
         "output_format has no schema; it looks like {\"type\": \"json_schema\", \"schema\": {...}}", 400},
        {"{" HI ",\"output_config\":{\"format\":null},\"output_format\":{\"type\":\"xml\"}}",
         "output_format has", 400},
        {"{" HI ",\"output_config\":{\"effort\":7}}", "output_config.effort is not a string", 400},
        {"{" HI ",\"system\":7}", "system is neither", 400},
        {"{" HI ",\"system\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":null}]}",
         "no text block, at place 1", 400},
        {"{" HI ",\"system\":[7]}", "no text block, at place 0", 400},
        {"{" HI ",\"output_config\":{\"effort\":\"much\"}}", "output_config.effort is \"much\"", 400},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":7}]}]}",
         "messages.0 has a text block without a text", 400},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
         "\"content\":[{\"type\":\"text\"}]}]}",
         "messages.1 has a text block without a text", 400},
        {"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
         "\"tool_use_id\":\"t\",\"content\":7}]}]}",
         "neither a text nor a list of blocks", 400},
        {"{\"model\":\"none\"}", "does not exist", 404},
        {"{:", "not valid JSON", 400},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        api_fixture_reset(fixture);
        assert_int_equal(api_fixture_post(fixture, MESSAGES, cases[i].body), cases[i].status);
        assert_json_text(fixture->body, "type", "error");
        assert_json_text(fixture->body, "error.type",
                         cases[i].status == 404 ? "not_found_error" : "invalid_request_error");
        const char *message = json_text(json_find(fixture->body, "error.message"), NULL);
        if (strstr(message, cases[i].message) == NULL) {
            fail_msg("%s: %s", cases[i].body, message);
        }
    }
}

/* A failure in a stream is an error event of this API. */
static void test_failure(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "a b c d" EOS);
    script_service_set_failure(fixture->service, STATUS_NOT_FINITE, 2);
    assert_int_equal(api_fixture_post(fixture, MESSAGES, "{" HI ",\"stream\":true}"), 200);
    const struct stream_event *last = &fixture->events[fixture->event_count - 1];
    assert_string_equal(last->name, "error");
    assert_json_text(last->data, "error.type", "api_error");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_message),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_b165_input_tokens),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_tool_choices),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_failure),
    };
    return cmocka_run_group_tests(tests, api_fixture_open, api_fixture_close);
}
