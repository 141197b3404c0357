/* The Responses API: items to prompts, the life of a response as events, what is kept and for how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/api_fixture.h"
#include "server/response_store.h"

#define RESPONSES "/v1/responses"
#define BOS "<｜begin▁of▁sentence｜>"
#define RUN_TOOL "\"tools\":[{\"type\":\"function\",\"name\":\"run\",\"parameters\":{\"type\":\"object\"}}]"
#define LONG_KEY "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
/* Fifteen, with a comma behind them. */
#define FIFTEEN_PAIRS                                                                                     \
    "\"a\":\"\",\"b\":\"\",\"c\":\"\",\"d\":\"\",\"e\":\"\",\"f\":\"\",\"g\":\"\",\"h\":\"\",\"i\":\"\"," \
    "\"j\":\"\",\"k\":\"\",\"l\":\"\",\"m\":\"\",\"n\":\"\",\"o\":\"\","
#define RUN_CALL                                                                                \
    "\n\n<" DSML "tool_calls>\n<" DSML "invoke name=\"run\">\n<" DSML                           \
    "parameter name=\"cmd\" string=\"true\">ls</" DSML "parameter>\n</" DSML "invoke>\n</" DSML \
    "tool_calls>"

static void test_whole_response(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "hm</think>Sure." RUN_CALL EOS);
    assert_int_equal(api_fixture_post(fixture, RESPONSES,
                                      "{\"model\":\"tiny\",\"input\":\"hi\",\"metadata\":{\"a\":\"b\"},"
                                      "\"temperature\":0.5," RUN_TOOL "}"),
                     200);
    const struct json *body = fixture->body;
    assert_json_text(body, "object", "response");
    assert_json_text(body, "status", "completed");
    assert_json_null(body, "error");
    assert_json_null(body, "incomplete_details");
    assert_json_text(body, "output.0.type", "reasoning");
    assert_json_text(body, "output.0.content.0.text", "hm");
    assert_json_text(body, "output.1.type", "message");
    assert_json_text(body, "output.1.role", "assistant");
    assert_json_text(body, "output.1.content.0.type", "output_text");
    assert_json_text(body, "output.1.content.0.text", "Sure.");
    assert_json_text(body, "output.2.type", "function_call");
    assert_json_text(body, "output.2.name", "run");
    assert_json_text(body, "output.2.arguments", "{\"cmd\": \"ls\"}");
    assert_json_text(body, "metadata.a", "b");
    assert_json_text(body, "tools.0.name", "run");
    assert_json_text(body, "tool_choice", "auto");
    assert_true(json_number(json_find(body, "temperature")) == 0.5);
    assert_true(json_number(json_find(body, "top_p")) == 1.0);
    assert_json_integer(body, "usage.input_tokens",
                        (int64_t)script_service_request(fixture->service, 0)->prompt_count);
    assert_json_integer(body, "usage.input_tokens_details.cached_tokens", 2);
}

/* The events' order, their numbers, and that the last one holds what the others added up to. */
static void test_stream(void **state) {
    static const char *const expected[] = {
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    };
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "hm</think>Sure." RUN_CALL EOS);
    assert_int_equal(api_fixture_post(fixture, RESPONSES, "{\"input\":\"hi\",\"stream\":true," RUN_TOOL "}"),
                     200);
    size_t place = 0;
    for (size_t i = 0; i < fixture->event_count; i++) {
        const struct stream_event *event = &fixture->events[i];
        assert_json_text(event->data, "type", event->name);
        assert_json_integer(event->data, "sequence_number", (int64_t)i);
        bool is_repeated = i > 0 && strstr(event->name, ".delta") != NULL &&
                           strcmp(fixture->events[i - 1].name, event->name) == 0;
        if (!is_repeated) {
            assert_true(place < sizeof expected / sizeof *expected);
            assert_string_equal(event->name, expected[place++]);
        }
    }
    assert_int_equal(place, sizeof expected / sizeof *expected);
    assert_stream_text(fixture, "delta", -1, "hmSure.{\"cmd\": \"ls\"}");
    const struct json *last = fixture->events[fixture->event_count - 1].data;
    assert_json_text(last, "response.output.1.content.0.text", "Sure.");
    assert_json_text(last, "response.output.2.arguments", "{\"cmd\": \"ls\"}");
    /* Items keep their ids. */
    const char *id = json_text(json_find(last, "response.output.2.id"), NULL);
    assert_json_text(fixture->events[fixture->event_count - 2].data, "item.id", id);
    assert_json_null(fixture->events[0].data, "response.usage");
}

static void assert_prompt(struct api_fixture *fixture, size_t index, const char *expected) {
    const struct script_request *request = script_service_request(fixture->service, index);
    struct string_buffer text = {0};
    assert_int_equal(
        tokenizer_decode(fixture->tokenizer, request->prompt, request->prompt_count, false, &text),
        STATUS_OK);
    assert_string_equal(text.data, expected);
    string_buffer_deinit(&text);
}

#define NO_THINKING "\"reasoning\":{\"effort\":\"none\"}"

/* Items of all kinds as input, as an agent sends them back. */
static void test_items(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "x" EOS);
    assert_int_equal(
        api_fixture_post(
            fixture, RESPONSES,
            "{\"instructions\":\"I\"," NO_THINKING ",\"input\":[{\"role\":\"developer\",\"content\":\"D\"},"
            "{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"q\"}]},"
            "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"content\":[{\"type\":\"reasoning_"
            "text\","
            "\"text\":\"R\"}]},{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":"
            "\"output_text\",\"text\":\"ok\"}]},{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":"
            "\"run\","
            "\"arguments\":\"{\\\"cmd\\\": "
            "\\\"ls\\\"}\"},{\"type\":\"function_call_output\",\"call_id\":\"c1\","
            "\"output\":\"out\"}]}"),
        200);
    assert_prompt(fixture, 0,
                  BOS "ID<｜User｜>q<｜Assistant｜></think>ok" RUN_CALL EOS
                      "<｜User｜><tool_result>out</tool_result><｜Assistant｜></think>");
}

/* A conversation that goes on: what was said and answered comes first; instructions do not stay. */
static void test_previous_response(void **state) {
    struct api_fixture *fixture = *state;
    char body[512];
    char id[64];
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "one" EOS);
    script_service_add_text(fixture->service, "two" EOS);
    script_service_add_text(fixture->service, "three" EOS);
    assert_int_equal(
        api_fixture_post(fixture, RESPONSES, "{\"instructions\":\"first\"," NO_THINKING ",\"input\":\"a\"}"),
        200);
    snprintf(id, sizeof id, "%s", json_text(json_find(fixture->body, "id"), NULL));
    for (int turn = 0; turn < 2; turn++) {
        snprintf(body, sizeof body, "{\"previous_response_id\":\"%s\"," NO_THINKING ",\"input\":\"%s\"}", id,
                 turn == 0 ? "b" : "c");
        assert_int_equal(api_fixture_post(fixture, RESPONSES, body), 200);
        assert_json_text(fixture->body, "previous_response_id", id);
        snprintf(id, sizeof id, "%s", json_text(json_find(fixture->body, "id"), NULL));
    }
    assert_prompt(fixture, 0, BOS "first<｜User｜>a<｜Assistant｜></think>");
    assert_prompt(fixture, 2,
                  BOS "<｜User｜>a<｜Assistant｜></think>one" EOS "<｜User｜>b<｜Assistant｜></think>two" EOS
                      "<｜User｜>c<｜Assistant｜></think>");
    assert_int_equal(
        api_fixture_post(fixture, RESPONSES, "{\"previous_response_id\":\"resp_no\",\"input\":\"\"}"), 404);
    assert_json_text(fixture->body, "error.param", "previous_response_id");
}

/* Kept responses: got, deleted, gone; those that were not to be kept are not. */
static void test_get_and_delete(void **state) {
    struct api_fixture *fixture = *state;
    char path[128];
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "one" EOS);
    assert_int_equal(api_fixture_post(fixture, RESPONSES, "{" NO_THINKING ",\"input\":\"a\"}"), 200);
    snprintf(path, sizeof path, RESPONSES "/%s", json_text(json_find(fixture->body, "id"), NULL));
    assert_int_equal(api_fixture_get(fixture, path), 200);
    assert_json_text(fixture->body, "output.0.content.0.text", "one");
    api_fixture_send(fixture, "DELETE", path, "", 0);
    api_fixture_receive(fixture);
    assert_int_equal(fixture->reply.status, 200);
    assert_int_equal(json_bool(json_find(fixture->body, "deleted")), true);
    assert_int_equal(api_fixture_get(fixture, path), 404);
    api_fixture_send(fixture, "DELETE", path, "", 0);
    api_fixture_receive(fixture);
    assert_int_equal(fixture->reply.status, 404);
    assert_int_equal(api_fixture_post(fixture, RESPONSES, "{\"store\":false,\"input\":\"a\"}"), 200);
    snprintf(path, sizeof path, RESPONSES "/%s", json_text(json_find(fixture->body, "id"), NULL));
    assert_int_equal(api_fixture_get(fixture, path), 404);
}

/* In the background: the reply comes at once; asked for later it is whole, or cancelled on the way. */
static void test_background(void **state) {
    struct api_fixture *fixture = *state;
    for (int is_cancelled = 0; is_cancelled < 2; is_cancelled++) {
        char path[128];
        char cancel_path[160];
        static const char body[] = "{" NO_THINKING ",\"background\":true,\"input\":\"a\"}";
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "one two three four" EOS);
        api_fixture_send(fixture, "POST", RESPONSES, body, strlen(body));
        api_fixture_receive(fixture);
        assert_json_text(fixture->body, "status", "in_progress");
        snprintf(path, sizeof path, RESPONSES "/%s", json_text(json_find(fixture->body, "id"), NULL));
        snprintf(cancel_path, sizeof cancel_path, "%s/cancel", path);
        script_service_step(fixture->service);
        script_service_step(fixture->service);
        assert_int_equal(api_fixture_get(fixture, path), 200);
        if (is_cancelled) {
            api_fixture_send(fixture, "POST", cancel_path, "{}", 2);
            memory_reply_wait_for_end(&fixture->reply);
            assert_non_null(strstr(fixture->reply.body.data, "\"status\":\"cancelled\""));
        }
        while (script_service_step(fixture->service)) {
        }
        while (api_running_count(fixture->api) > 0) {
        }
        assert_int_equal(api_fixture_get(fixture, path), 200);
        assert_json_text(fixture->body, "status", is_cancelled ? "cancelled" : "completed");
        if (!is_cancelled) {
            assert_json_text(fixture->body, "output.0.content.0.text", "one two three four");
        }
    }
    assert_int_equal(api_fixture_post(fixture, RESPONSES "/resp_no/cancel", "{}"), 404);
}

static void test_ends_and_failures(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "a b c d e" EOS);
    assert_int_equal(
        api_fixture_post(fixture, RESPONSES, "{" NO_THINKING ",\"input\":\"a\",\"max_output_tokens\":2}"),
        200);
    assert_json_text(fixture->body, "status", "incomplete");
    assert_json_text(fixture->body, "incomplete_details.reason", "max_output_tokens");
    script_service_set_failure(fixture->service, STATUS_NOT_FINITE, 2);
    assert_int_equal(api_fixture_post(fixture, RESPONSES, "{\"input\":\"a\",\"stream\":true}"), 200);
    const struct stream_event *last = &fixture->events[fixture->event_count - 1];
    assert_string_equal(last->name, "response.failed");
    assert_json_text(last->data, "response.status", "failed");
    assert_json_text(last->data, "response.error.message", "the script says that this fails");
    assert_int_equal(api_fixture_post(fixture, RESPONSES, "{\"input\":\"a\"}"), 500);
}

static void test_refusals(void **state) {
    static const struct {
        const char *body, *parameter;
        int status;
    } cases[] = {
        {"{}", "input", 400},
        {"{\"input\":7}", "input", 400},
        {"{\"input\":[]}", "input", 400},
        {"{\"input\":[{}]}", "input[0]", 400},
        {"{\"input\":[{\"type\":\"item_reference\"}]}", "input[0]", 400},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}", "input[0]", 400},
        {"{\"input\":[{\"role\":\"x\",\"content\":\"\"}]}", "input[0]", 400},
        {"{\"input\":[{\"type\":\"function_call\"}]}", "input[0]", 400},
        {"{\"input\":\"\",\"tools\":[{\"type\":\"web_search\"}]}", "tools", 400},
        {"{\"input\":\"\"," RUN_TOOL ",\"tool_choice\":{\"type\":\"function\",\"name\":\"no\"}}",
         "tool_choice", 400},
        {"{\"input\":\"\",\"conversation\":\"c\"}", "conversation", 400},
        {"{\"input\":\"\",\"background\":true,\"stream\":true}", "background", 400},
        {"{\"input\":\"\",\"top_logprobs\":2}", "top_logprobs", 400},
        {"{\"input\":\"\",\"max_output_tokens\":0}", "max_output_tokens", 400},
        {"{\"input\":\"\",\"text\":{\"format\":{\"type\":\"x\"}}}", "text.format", 400},
        {"{\"input\":\"\",\"text\":{\"format\":{\"type\":\"json_schema\"}}}", "text.format", 400},
        {"{\"input\":\"\",\"reasoning\":{\"effort\":\"much\"}}", "reasoning.effort", 400},
        {"{\"input\":\"\",\"reasoning\":{\"effort\":7}}", "reasoning.effort", 400},
        {"{\"input\":\"\",\"truncation\":\"oldest\"}", "truncation", 400},
        {"{\"input\":\"\",\"truncation\":true}", "truncation", 400},
        {"{\"input\":\"\",\"text\":{\"verbosity\":\"loud\"}}", "text.verbosity", 400},
        {"{\"input\":\"\",\"text\":{\"verbosity\":3}}", "text.verbosity", 400},
        {"{\"input\":\"\",\"metadata\":\"m\"}", "metadata", 400},
        {"{\"input\":\"\",\"metadata\":{\"a\":1}}", "metadata", 400},
        {"{\"input\":\"\",\"metadata\":{\"" LONG_KEY "\":\"\"}}", "metadata", 400},
        {"{\"input\":\"\",\"metadata\":{" FIFTEEN_PAIRS "\"y\":\"\",\"z\":\"\"}}", "metadata", 400},
        {"{\"input\":\"\",\"user\":7}", "user", 400},
        {"{\"input\":\"\",\"prompt_cache_key\":{}}", "prompt_cache_key", 400},
        {"{\"input\":\"\",\"include\":\"reasoning.encrypted_content\"}", "include", 400},
        {"{\"input\":\"\",\"include\":[1]}", "include", 400},
        {"{\"input\":\"\",\"include\":[\"everything\"]}", "include", 400},
        {"{\"input\":\"\",\"include\":[\"message.output_text.logprobs\"]}", "include", 400},
        {"{\"input\":\"\",\"service_tier\":\"gold\"}", "service_tier", 400},
        {"{\"input\":\"\",\"service_tier\":1}", "service_tier", 400},
        {"{\"input\":\"\",\"stream_options\":[1]}", "stream_options", 400},
        {"{\"input\":\"\",\"max_tool_calls\":-1}", "max_tool_calls", 400},
        {"{\"input\":\"\",\"max_tool_calls\":\"2\"}", "max_tool_calls", 400},
        {"{\"input\":\"\",\"model\":\"no\"}", "model", 404},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        api_fixture_reset(fixture);
        assert_int_equal(api_fixture_post(fixture, RESPONSES, cases[i].body), cases[i].status);
        if (*cases[i].parameter != '\0') {
            assert_json_text(fixture->body, "error.param", cases[i].parameter);
        }
    }
}

/* What changes nothing is taken where its form is right; of tiers there is one. */
static void test_fields_that_change_nothing(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "a</think>b" EOS);
    assert_int_equal(
        api_fixture_post(
            fixture, RESPONSES,
            "{\"input\":\"hi\",\"text\":{\"verbosity\":\"low\"},\"user\":\"u\",\"metadata\":{" FIFTEEN_PAIRS
            "\"\":\"\"},\"include\":[\"reasoning.encrypted_content\"],\"service_tier\":\"flex\","
            "\"prompt_cache_key\":\"k\",\"safety_identifier\":\"s\"}"),
        200);
    assert_json_text(fixture->body, "service_tier", "default");
    assert_json_text(fixture->body, "text.verbosity", "low");
    assert_json_text(fixture->body, "user", "u");
}

/* A bound that is not reached is no number to be told. */
static void test_bounds_are_told_as_they_are(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    assert_int_equal(api_fixture_post(fixture, RESPONSES, "{\"input\":\"\",\"top_p\":0}"), 400);
    assert_json_text(fixture->body, "error.message", "top_p is 0; expected above 0 to 1");
    assert_int_equal(api_fixture_post(fixture, RESPONSES, "{\"input\":\"\",\"temperature\":-1}"), 400);
    assert_json_text(fixture->body, "error.message", "temperature is -1; expected 0 to 1e+09");
}

enum { CONTEXT_TOKENS = 4096, TURNS_MAX = 8 };

/* Posts turns "A word word ...", "B word ...", each but the last with an answer; the prompt as text. */
static int post_turns(struct api_fixture *fixture, size_t turn_count, size_t words, const char *fields,
                      struct string_buffer *prompt) {
    struct string_buffer body = {0};
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "a</think>b" EOS);
    string_buffer_append_format(&body, "{\"instructions\":\"Be kind.\"," RUN_TOOL ",%s,\"input\":[", fields);
    for (size_t turn = 0; turn < turn_count; turn++) {
        string_buffer_append_format(&body, "%s{\"role\":\"user\",\"content\":\"%c", turn > 0 ? "," : "",
                                    (char)('A' + turn));
        for (size_t i = 0; i < words; i++) {
            string_buffer_append_text(&body, " word");
        }
        string_buffer_append_text(&body, "\"}");
        if (turn + 1 < turn_count) {
            string_buffer_append_text(&body,
                                      ",{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"run\","
                                      "\"arguments\":\"{}\"},{\"type\":\"function_call_output\","
                                      "\"call_id\":\"c\",\"output\":\"out\"},"
                                      "{\"role\":\"assistant\",\"content\":\"yes\"}");
        }
    }
    string_buffer_append_text(&body, "]}");
    assert_int_equal(string_buffer_check(&body), STATUS_OK);
    int status = api_fixture_post(fixture, RESPONSES, body.data);
    string_buffer_clear(prompt);
    if (status == 200) {
        const struct script_request *request = script_service_request(fixture->service, 0);
        assert_true(request->prompt_count < CONTEXT_TOKENS);
        assert_int_equal(
            tokenizer_decode(fixture->tokenizer, request->prompt, request->prompt_count, false, prompt),
            STATUS_OK);
    }
    string_buffer_deinit(&body);
    return status;
}

/* "ABC": the turns whose messages are in a prompt. */
static void list_turns(const struct string_buffer *prompt, char names[TURNS_MAX]) {
    size_t count = 0;
    for (char name = 'A'; name < 'A' + TURNS_MAX - 1; name++) {
        char message[] = "<｜User｜>? word";
        *strchr(message, '?') = name;
        if (strstr(string_buffer_text(prompt), message) != NULL) {
            names[count++] = name;
        }
    }
    names[count] = '\0';
}

/* Turns of about 1000 tokens: which are kept, by the room that the answer asks for. */
static void test_truncation(void **state) {
    static const struct {
        size_t turn_count;
        const char *fields, *kept;
    } cases[] = {
        /* The context holds them. */
        {3, "\"truncation\":\"disabled\"", "ABC"},
        {3, "\"truncation\":\"auto\"", "ABC"},
        {3, "\"truncation\":\"auto\",\"max_output_tokens\":4000", "ABC"},
        /* It does not: an answer with no limit, or a large one, gets half of it. */
        {5, "\"truncation\":\"disabled\"", NULL},
        {5, "\"truncation\":null", NULL},
        {5, "\"max_tool_calls\":3", NULL},
        {5, "\"truncation\":\"auto\",\"max_output_tokens\":50", "CDE"},
        {5, "\"truncation\":\"auto\",\"max_output_tokens\":1500", "DE"},
        {5, "\"truncation\":\"auto\",\"max_output_tokens\":100000", "E"},
        {6, "\"truncation\":\"auto\"", "F"},
    };
    struct api_fixture *fixture = *state;
    struct string_buffer prompt = {0};
    struct token_list ids = api_fixture_ids(fixture, " word word word word word word word word word word");
    size_t words = 1050 * 10 / ids.count;
    token_list_deinit(&ids);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char names[TURNS_MAX];
        int status = post_turns(fixture, cases[i].turn_count, words, cases[i].fields, &prompt);
        assert_int_equal(status, cases[i].kept == NULL ? 400 : 200);
        if (cases[i].kept == NULL) {
            assert_json_text(fixture->body, "error.code", "context_length_exceeded");
            continue;
        }
        list_turns(&prompt, names);
        assert_string_equal(names, cases[i].kept);
        /* Instructions and tools stay; calls go with their outputs. */
        assert_int_equal(strncmp(prompt.data, BOS "Be kind.\n\n", strlen(BOS "Be kind.\n\n")), 0);
        assert_non_null(strstr(prompt.data, "\"name\": \"run\""));
        size_t outputs = 0;
        for (const char *at = prompt.data; (at = strstr(at, "<tool_result>out")) != NULL; at++) {
            outputs++;
        }
        assert_int_equal(outputs, strlen(names) - 1);
    }
    /* A message that is too long is not cut into. */
    assert_int_equal(post_turns(fixture, 2, 5 * words, "\"truncation\":\"auto\"", &prompt), 400);
    assert_json_text(fixture->body, "error.code", "context_length_exceeded");
    string_buffer_deinit(&prompt);
}

/* The store by itself: the least recently used go first, the old ones with time. */
static void test_store(void **state) {
    (void)state;
    struct response_store *store;
    struct string_buffer body = {0};
    struct string_buffer nothing = {0};
    string_buffer_append(&body, "0123456789", 10);
    assert_int_equal(response_store_create(1000, 100.0, &store), STATUS_OK);
    assert_int_equal(response_store_put(store, "a", &body, &nothing), STATUS_OK);
    size_t bytes = response_store_bytes(store);
    assert_true(bytes > 10);
    assert_int_equal(response_store_put(store, "a", &body, &nothing), STATUS_OK);
    assert_int_equal(response_store_bytes(store), bytes);
    response_store_destroy(&store);
    assert_int_equal(response_store_create(2 * bytes, 100.0, &store), STATUS_OK);
    assert_int_equal(response_store_put(store, "a", &body, &nothing), STATUS_OK);
    assert_int_equal(response_store_put(store, "b", &body, &nothing), STATUS_OK);
    assert_true(response_store_get(store, "a", NULL, NULL));
    assert_int_equal(response_store_put(store, "c", &body, &nothing), STATUS_OK);
    assert_false(response_store_get(store, "b", NULL, NULL));
    assert_true(response_store_get(store, "a", NULL, NULL));
    assert_true(response_store_get(store, "c", NULL, NULL));
    assert_true(response_store_delete(store, "c"));
    assert_false(response_store_delete(store, "c"));
    /* What is larger than the limit is not kept, and pushes nothing out. */
    for (int i = 0; i < 100; i++) {
        string_buffer_append(&body, "0123456789", 10);
    }
    assert_int_equal(response_store_put(store, "d", &body, &nothing), STATUS_OK);
    assert_false(response_store_get(store, "d", NULL, NULL));
    assert_true(response_store_get(store, "a", NULL, NULL));
    response_store_destroy(&store);
    assert_int_equal(response_store_create(1000000, 0.0, &store), STATUS_OK);
    assert_int_equal(response_store_put(store, "a", &body, &nothing), STATUS_OK);
    assert_false(response_store_get(store, "a", NULL, NULL));
    response_store_destroy(&store);
    string_buffer_deinit(&body);
}

/* A question and steps with an output of about 700 tokens each, "A word word ..." and so on; the prompt. */
static int post_steps(struct api_fixture *fixture, size_t step_count, size_t words, const char *fields,
                      struct string_buffer *prompt) {
    struct string_buffer body = {0};
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "a</think>b" EOS);
    string_buffer_append_format(&body,
                                "{" RUN_TOOL ",%s,\"input\":[{\"role\":\"user\",\"content\":\"Old.\"},"
                                "{\"role\":\"user\",\"content\":\"Do it.\"}",
                                fields);
    for (size_t step = 0; step < step_count; step++) {
        string_buffer_append_format(&body,
                                    ",{\"type\":\"function_call\",\"call_id\":\"c%zu\",\"name\":\"run\","
                                    "\"arguments\":\"{}\"},{\"type\":\"function_call_output\","
                                    "\"call_id\":\"c%zu\",\"output\":\"%c",
                                    step, step, (char)('A' + step));
        for (size_t i = 0; i < words; i++) {
            string_buffer_append_text(&body, " word");
        }
        string_buffer_append_text(&body, "\"}");
    }
    string_buffer_append_text(&body, "]}");
    assert_int_equal(string_buffer_check(&body), STATUS_OK);
    int status = api_fixture_post(fixture, RESPONSES, body.data);
    string_buffer_clear(prompt);
    if (status == 200) {
        const struct script_request *request = script_service_request(fixture->service, 0);
        assert_int_equal(
            tokenizer_decode(fixture->tokenizer, request->prompt, request->prompt_count, false, prompt),
            STATUS_OK);
    }
    string_buffer_deinit(&body);
    return status;
}

static size_t count_of(const struct string_buffer *text, const char *part) {
    size_t count = 0;
    for (const char *at = string_buffer_text(text); (at = strstr(at, part)) != NULL; at++) {
        count++;
    }
    return count;
}

/* An agent's work on one question: the question stays, and so does the last step, the oldest ones go. */
static void test_truncation_within_a_turn(void **state) {
    static const struct {
        size_t step_count;
        const char *fields;
        size_t kept; /* steps; 0: refused */
    } cases[] = {
        {5, "\"truncation\":\"auto\"", 5},
        {7, "\"truncation\":\"disabled\"", 0},
        {7, "\"truncation\":\"auto\",\"max_output_tokens\":50", 5},
        {7, "\"truncation\":\"auto\",\"max_output_tokens\":1000", 3},
        {7, "\"truncation\":\"auto\"", 2},
    };
    struct api_fixture *fixture = *state;
    struct string_buffer prompt = {0};
    struct token_list ids = api_fixture_ids(fixture, " word word word word word word word word word word");
    size_t words = 700 * 10 / ids.count;
    token_list_deinit(&ids);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status = post_steps(fixture, cases[i].step_count, words, cases[i].fields, &prompt);
        assert_int_equal(status, cases[i].kept == 0 ? 400 : 200);
        if (cases[i].kept == 0) {
            continue;
        }
        assert_int_equal(count_of(&prompt, "Do it."), 1);
        assert_int_equal(count_of(&prompt, "Old."), cases[i].kept == cases[i].step_count);
        for (size_t step = 0; step < cases[i].step_count; step++) {
            char output[] = "<tool_result>? word";
            *strchr(output, '?') = (char)('A' + step);
            assert_int_equal(count_of(&prompt, output), step + cases[i].kept >= cases[i].step_count);
        }
        /* No output without its call, and no call without its output. */
        assert_int_equal(count_of(&prompt, "invoke name=\"run\""), cases[i].kept);
    }
    string_buffer_deinit(&prompt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_response),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_items),
        cmocka_unit_test(test_previous_response),
        cmocka_unit_test(test_get_and_delete),
        cmocka_unit_test(test_background),
        cmocka_unit_test(test_ends_and_failures),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_truncation_within_a_turn),
        cmocka_unit_test(test_fields_that_change_nothing),
        cmocka_unit_test(test_bounds_are_told_as_they_are),
        cmocka_unit_test(test_store),
    };
    return cmocka_run_group_tests(tests, api_fixture_open, api_fixture_close);
}
