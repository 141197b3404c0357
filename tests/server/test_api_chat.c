/* Chat completions: what requests ask of the service, and what their replies say, streamed and whole. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/api_fixture.h"

#define HI "\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"temperature\":0"
#define NO_THINKING "\"chat_template_kwargs\":{\"thinking\":false}"

static void test_whole_reply(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "first I think</think>Hello!" EOS);
    assert_int_equal(api_fixture_post(fixture, CHAT, "{" HI ",\"max_tokens\":100}"), 200);
    const struct json *body = fixture->body;
    assert_json_text(body, "id", "chatcmpl-request-1");
    assert_json_text(body, "object", "chat.completion");
    assert_json_text(body, "model", "tiny");
    assert_json_text(body, "choices.0.message.role", "assistant");
    assert_json_text(body, "choices.0.message.content", "Hello!");
    assert_json_text(body, "choices.0.message.reasoning", "first I think");
    assert_json_text(body, "choices.0.message.reasoning_content", "first I think");
    assert_json_text(body, "choices.0.finish_reason", "stop");
    assert_json_null(body, "choices.0.stop_reason");
    struct token_list prompt =
        api_fixture_ids(fixture, "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜><think>");
    struct token_list answer = api_fixture_ids(fixture, "first I think</think>Hello!" EOS);
    struct token_list reasoning = api_fixture_ids(fixture, "first I think</think>");
    assert_json_integer(body, "usage.prompt_tokens", (int64_t)prompt.count);
    assert_json_integer(body, "usage.completion_tokens", (int64_t)answer.count);
    assert_json_integer(body, "usage.total_tokens", (int64_t)(prompt.count + answer.count));
    assert_json_integer(body, "usage.prompt_tokens_details.cached_tokens", 2);
    assert_json_integer(body, "usage.completion_tokens_details.reasoning_tokens", (int64_t)reasoning.count);
    assert_json_integer(body, "usage.completion_tokens_details.accepted_prediction_tokens", 3);
    assert_json_integer(body, "usage.completion_tokens_details.rejected_prediction_tokens", 2);
    const struct script_request *request = script_service_request(fixture->service, 0);
    assert_int_equal(request->prompt_count, prompt.count);
    assert_memory_equal(request->prompt, prompt.ids, prompt.count * sizeof *prompt.ids);
    assert_true(request->starts_in_reasoning);
    token_list_deinit(&prompt);
    token_list_deinit(&answer);
    token_list_deinit(&reasoning);
}

static void test_stream(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "first I think</think>Hello!" EOS);
    assert_int_equal(api_fixture_post(fixture, CHAT,
                                      "{" HI ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}"),
                     200);
    assert_true(fixture->is_done);
    assert_json_text(fixture->events[0].data, "object", "chat.completion.chunk");
    assert_json_text(fixture->events[0].data, "choices.0.delta.role", "assistant");
    assert_stream_text(fixture, "choices.0.delta.reasoning", 0, "first I think");
    assert_stream_text(fixture, "choices.0.delta.reasoning_content", 0, "first I think");
    assert_stream_text(fixture, "choices.0.delta.content", 0, "Hello!");
    assert_int_equal(stream_count(fixture, "choices.0.finish_reason", 0), 1);
    assert_stream_text(fixture, "choices.0.finish_reason", 0, "stop");
    const struct json *last = fixture->events[fixture->event_count - 1].data;
    assert_int_equal(json_length(json_find(last, "choices")), 0);
    assert_true(json_int64(json_find(last, "usage.completion_tokens")) > 3);
}

/* Every field that reaches the service, in one request. */
static void test_fields_reach_the_service(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "x" EOS);
    assert_int_equal(
        api_fixture_post(
            fixture, CHAT,
            "{\"model\":\"tiny-2\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"temperature\":0.5,"
            "\"top_p\":0.25,\"top_k\":7,\"min_p\":0.125,\"repetition_penalty\":1.5,\"presence_penalty\":-1,"
            "\"frequency_penalty\":2.0,\"logit_bias\":{\"17\":-100,\"4\":1.5},\"seed\":42.0,\"max_tokens\":9,"
            "\"min_tokens\":3,\"stop\":[\"a\",\"bc\"],\"stop_token_ids\":[5,6],\"bad_words\":[\"no\"],"
            "\"allowed_token_ids\":[8,9],\"priority\":-4,\"cache_salt\":\"s\",\"logprobs\":true,"
            "\"top_logprobs\":4,\"prompt_logprobs\":2,\"user\":\"u\",\"nonsense\":1}"),
        200);
    const struct script_request *request = script_service_request(fixture->service, 0);
    assert_true(request->options.sampling.temperature == 0.5);
    assert_true(request->options.sampling.top_p == 0.25);
    assert_int_equal(request->options.sampling.top_k, 7);
    assert_true(request->options.sampling.min_p == 0.125);
    assert_true(request->options.sampling.repetition_penalty == 1.5);
    assert_true(request->options.sampling.presence_penalty == -1.0);
    assert_true(request->options.sampling.frequency_penalty == 2.0);
    assert_string_equal(request->logit_bias.data, "17=-100\n4=1.5\n");
    assert_int_equal(request->options.sampling.seed, 42);
    assert_int_equal(request->options.token_limit, 9);
    assert_int_equal(request->min_tokens, 3);
    assert_string_equal(request->stops.data, "a\nbc\n");
    /* 5, 6 and the model's own end token. */
    assert_int_equal(request->options.stop_token_count, 3);
    assert_string_equal(request->bad_words.data, "no\n");
    assert_string_equal(request->allowed.data, "8\n9\n");
    assert_int_equal(request->options.priority, -4);
    assert_true(request->options.skips_prefix_cache);
    assert_int_equal(request->options.log_probability_count, 4);
    assert_int_equal(request->options.prompt_log_probability_count, 2);
    assert_int_equal(api_unknown_field_count(fixture->api), 1);
}

/* Without fields: generation_config.json's sampling, the model's end token, no limit, a seed of its own. */
static void test_defaults(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "x" EOS);
    uint64_t seeds[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(
            api_fixture_post(fixture, CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"), 200);
        const struct script_request *request = script_service_request(fixture->service, i);
        assert_true(request->options.sampling.temperature == 1.0);
        assert_int_equal(request->options.token_limit, -1);
        assert_int_equal(request->options.stop_token_count, 1);
        assert_int_equal(request->options.log_probability_count, -1);
        assert_int_equal(request->options.prompt_log_probability_count, -1);
        assert_false(request->options.skips_prefix_cache);
        assert_int_equal(request->grammar, SERVICE_GRAMMAR_NONE);
        seeds[i] = request->options.sampling.seed;
    }
    assert_true(seeds[0] != seeds[1]);
    assert_int_equal(api_fixture_post(fixture, CHAT, "{" HI ",\"ignore_eos\":true,\"max_tokens\":1}"), 200);
    assert_int_equal(script_service_request(fixture->service, 2)->options.stop_token_count, 0);
}

/* Requests that are refused: which field is at fault, and what is said. */
static void test_refusals(void **state) {
    static const struct {
        const char *fields, *parameter, *message;
        int status;
    } cases[] = {
        {"\"temperature\":-1", "temperature", "temperature is -1; expected 0 to", 400},
        {"\"temperature\":\"hot\"", "temperature", "temperature is not a number", 400},
        {"\"top_p\":0", "top_p", "top_p is 0; expected above 0 to 1", 400},
        {"\"verbosity\":\"loud\"", "verbosity", "low, medium or high", 400},
        {"\"modalities\":[\"text\",\"audio\"]", "modalities", "text only", 400},
        {"\"user\":1", "user", "user is not a string", 400},
        {"\"metadata\":[1]", "metadata", "metadata is not an object", 400},
        {"\"service_tier\":\"gold\"", "service_tier", "auto, default, flex", 400},
        {"\"store\":\"yes\"", "store", "store is neither true nor false", 400},
        {"\"top_k\":1.5", "top_k", "top_k is not a whole number", 400},
        {"\"n\":0", "n", "n is 0; expected 1 to 128", 400},
        {"\"max_tokens\":0", "max_tokens", "max_tokens is 0", 400},
        {"\"max_tokens\":4,\"min_tokens\":5", "min_tokens", "min_tokens is 5, more than", 400},
        {"\"stop\":[\"\"]", "stop", "at least one character", 400},
        {"\"stop\":7", "stop", "no string", 400},
        {"\"stop_token_ids\":[-1]", "stop_token_ids", "no token id, at place 0", 400},
        {"\"logit_bias\":{\"x\":1}", "logit_bias", "no token id", 400},
        {"\"logit_bias\":{\"1\":101}", "logit_bias", "from -100 to 100", 400},
        {"\"allowed_token_ids\":[]", "allowed_token_ids", "allows no token", 400},
        {"\"top_logprobs\":2", "top_logprobs", "\"logprobs\": true only", 400},
        {"\"logprobs\":true,\"top_logprobs\":21", "top_logprobs", "expected 0 to 20", 400},
        {"\"stream\":1", "stream", "neither true nor false", 400},
        {"\"stream_options\":{}", "stream_options", "\"stream\": true only", 400},
        {"\"stream\":true,\"stream_options\":{\"include_usage\":3}", "stream_options.include_usage",
         "neither true nor false", 400},
        {"\"stream\":true,\"prompt_logprobs\":1", "prompt_logprobs", "not available in a stream", 400},
        {"\"seed\":0.5", "seed", "not a whole number", 400},
        {"\"use_beam_search\":true", "use_beam_search", "not supported", 400},
        {"\"chat_template\":\"{{x}}\"", "chat_template", "not supported", 400},
        {"\"documents\":[{}]", "documents", "not supported", 400},
        {"\"thinking_token_budget\":9", "thinking_token_budget", "not supported", 400},
        {"\"logprob_token_ids\":[1]", "logprob_token_ids", "not supported", 400},
        {"\"functions\":[{}]", "functions", "use tools", 400},
        {"\"chat_template_kwargs\":{\"thinking\":1}", "chat_template_kwargs.thinking", "neither", 400},
        {"\"continue_final_message\":true,\"add_generation_prompt\":true", "continue_final_message",
         "cannot both", 400},
        {"\"continue_final_message\":true", "messages", "role is assistant", 400},
        {"\"response_format\":{}", "response_format", "has no \"type\"", 400},
        {"\"response_format\":{\"type\":\"xml\"}", "response_format", "\"xml\"", 400},
        {"\"response_format\":{\"type\":\"json_schema\"}", "response_format", "has no schema", 400},
        {"\"guided_regex\":\"a\",\"guided_choice\":[\"b\"]", "guided_choice", "second form", 400},
        {"\"structured_outputs\":{\"regex\":7}", "structured_outputs.regex", "not a string", 400},
        {"\"structured_outputs\":{\"choice\":[]}", "structured_outputs.choice", "nothing to choose", 400},
        {"\"structured_outputs\":{\"regexp\":\"a\"}", "structured_outputs.regexp",
         "structured_outputs.regexp is not known; use json, json_object, regex, choice or grammar", 400},
        {"\"structured_outputs\":{\"regex\":\"a\",\"pattern\":null,\"schema\":{}}",
         "structured_outputs.schema", "not known", 400},
        {"\"structured_outputs\":{\"json\":{},\"disable_additional_properties\":true}",
         "structured_outputs.disable_additional_properties", "false into the schema", 400},
        {"\"reasoning_effort\":\"much\"", "reasoning_effort", "is \"much\"; use none, minimal, low", 400},
        {"\"reasoning_effort\":\"\"", "reasoning_effort", "use none", 400},
        {"\"chat_template_kwargs\":{\"reasoning_effort\":\"High\"}", "chat_template_kwargs.reasoning_effort",
         "is \"High\"", 400},
        {"\"tool_choice\":\"required\"", "tool_choice", "has no tools", 400},
        {"\"tools\":{}", "tools", "not a list", 400},
        {"\"tools\":[{}]", "messages", "no function name", 400},
        {"\"model\":\"other\"", "model", "`other` does not exist here", 404},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        api_fixture_reset(fixture);
        snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],%s}",
                 cases[i].fields);
        assert_int_equal(api_fixture_post(fixture, CHAT, body), cases[i].status);
        assert_json_text(fixture->body, "error.param", cases[i].parameter);
        const char *message = json_text(json_find(fixture->body, "error.message"), NULL);
        if (strstr(message, cases[i].message) == NULL) {
            fail_msg("%s: %s", cases[i].fields, message);
        }
        assert_json_text(fixture->body, "error.type",
                         cases[i].status == 404 ? "NotFoundError" : "BadRequestError");
        assert_json_integer(fixture->body, "error.code", cases[i].status);
        assert_int_equal(script_service_request_count(fixture->service), 0);
    }
}

/* Forms of the answer reach the service as its grammars. */
static void test_grammars(void **state) {
    static const struct {
        const char *fields;
        enum service_grammar grammar;
        const char *text;
    } cases[] = {
        {"\"response_format\":{\"type\":\"text\"}", SERVICE_GRAMMAR_NONE, ""},
        {"\"response_format\":{\"type\":\"json_object\"}", SERVICE_GRAMMAR_JSON, ""},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"s\",\"schema\":{\"type\":"
         "\"integer\"}}}",
         SERVICE_GRAMMAR_JSON_SCHEMA, "{\"type\":\"integer\"}"},
        {"\"structured_outputs\":{\"json\":{\"type\":\"null\"}}", SERVICE_GRAMMAR_JSON_SCHEMA,
         "{\"type\":\"null\"}"},
        {"\"structured_outputs\":{\"regex\":\"a+\"}", SERVICE_GRAMMAR_REGEX, "a+"},
        {"\"structured_outputs\":{\"choice\":[\"a\",\"b\"]}", SERVICE_GRAMMAR_CHOICE, "[\"a\",\"b\"]"},
        {"\"structured_outputs\":{\"grammar\":\"root ::= x\"}", SERVICE_GRAMMAR_EBNF, "root ::= x"},
        /* What clients write out of vLLM's object without having set it, and what changes blanks only. */
        {"\"structured_outputs\":{\"regex\":\"a\",\"json\":null,\"structural_tag\":null,\"disable_fallback\":"
         "false,"
         "\"disable_any_whitespace\":true,\"disable_additional_properties\":false,\"whitespace_pattern\":\" "
         "\","
         "\"_backend\":null}",
         SERVICE_GRAMMAR_REGEX, "a"},
        {"\"guided_json\":\"{}\"", SERVICE_GRAMMAR_JSON_SCHEMA, "{}"},
        {"\"guided_regex\":\"b\"", SERVICE_GRAMMAR_REGEX, "b"},
        {"\"guided_choice\":[\"c\"]", SERVICE_GRAMMAR_CHOICE, "[\"c\"]"},
        {"\"guided_grammar\":\"g\"", SERVICE_GRAMMAR_EBNF, "g"},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[512];
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "x" EOS);
        snprintf(body, sizeof body, "{" HI ",%s}", cases[i].fields);
        assert_int_equal(api_fixture_post(fixture, CHAT, body), 200);
        const struct script_request *request = script_service_request(fixture->service, 0);
        assert_int_equal(request->grammar, cases[i].grammar);
        assert_string_equal(string_buffer_text(&request->grammar_text), cases[i].text);
    }
    /* What the service cannot do is a 400 with its sentence. */
    script_service_set_refusal(fixture->service, STATUS_UNSUPPORTED, "look-arounds are not supported");
    assert_int_equal(api_fixture_post(fixture, CHAT, "{" HI ",\"guided_regex\":\"(?=a)\",\"stream\":true}"),
                     400);
    assert_json_text(fixture->body, "error.message", "look-arounds are not supported");
    assert_json_text(fixture->body, "error.param", "guided_regex");
}

#define TOOL "{\"type\":\"function\",\"function\":{\"name\":\"run\",\"parameters\":{\"type\":\"object\"}}}"

/* tool_choice as a grammar; "auto" goes on without one that the service cannot do. */
static void test_tool_choices(void **state) {
    static const struct {
        const char *fields, *grammar;
    } cases[] = {
        {"", "{\"tools\":[" TOOL "],\"tool_choice\":\"auto\",\"parallel_tool_calls\":true}"},
        {",\"tool_choice\":\"auto\",\"parallel_tool_calls\":false",
         "{\"tools\":[" TOOL "],\"tool_choice\":\"auto\",\"parallel_tool_calls\":false}"},
        {",\"tool_choice\":\"required\"",
         "{\"tools\":[" TOOL "],\"tool_choice\":\"required\",\"parallel_tool_calls\":true}"},
        {",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"run\"}}",
         "{\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"run\"}},"
         "\"parallel_tool_calls\":true}"},
        {",\"tool_choice\":\"none\"", ""},
        {",\"response_format\":{\"type\":\"json_object\"}", ""},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[1024];
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "x" EOS);
        snprintf(body, sizeof body, "{" HI ",\"tools\":[" TOOL "]%s}", cases[i].fields);
        assert_int_equal(api_fixture_post(fixture, CHAT, body), 200);
        assert_string_equal(string_buffer_text(&script_service_request(fixture->service, 0)->grammar_text),
                            cases[i].grammar);
    }
    script_service_set_refusal(fixture->service, STATUS_UNSUPPORTED, "this schema is too much");
    assert_int_equal(api_fixture_post(fixture, CHAT, "{" HI ",\"tools\":[" TOOL "]}"), 200);
    assert_int_equal(
        api_fixture_post(fixture, CHAT, "{" HI ",\"tools\":[" TOOL "],\"tool_choice\":\"required\"}"), 400);
    script_service_set_refusal(fixture->service, STATUS_OK, "");
    assert_int_equal(api_fixture_post(fixture, CHAT,
                                      "{" HI ",\"tools\":[" TOOL "],\"tool_choice\":{\"type\":\"function\","
                                      "\"function\":{\"name\":\"walk\"}}}"),
                     400);
    assert_json_text(fixture->body, "error.param", "tool_choice");
}

/* Log-probabilities of all tokens, with their true bytes. */
static void test_log_probabilities(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    struct token_list ids = api_fixture_ids(fixture, "ab" EOS);
    script_service_add(fixture->service, ids.ids, ids.count);
    assert_int_equal(api_fixture_post(fixture, CHAT,
                                      "{" HI "," NO_THINKING ",\"logprobs\":true,\"top_logprobs\":2,"
                                      "\"prompt_logprobs\":1,\"return_token_ids\":true}"),
                     200);
    const struct json *list = json_find(fixture->body, "choices.0.logprobs.content");
    assert_int_equal(json_length(list), ids.count);
    assert_json_text(list, "0.token", ids.count == 2 ? "ab" : "a");
    assert_true(json_number(json_find(list, "0.logprob")) == script_log_probability(0, 0));
    assert_json_integer(list, "0.bytes.0", 'a');
    assert_int_equal(json_length(json_find(list, "0.top_logprobs")), 2);
    assert_true(json_number(json_find(list, "1.top_logprobs.1.logprob")) == script_log_probability(1, 1));
    const struct json *prompt = json_find(fixture->body, "prompt_logprobs");
    assert_int_equal(json_length(prompt), json_length(json_find(fixture->body, "prompt_token_ids")));
    assert_int_equal(json_kind(json_at(prompt, 0)), JSON_KIND_NULL);
    assert_int_equal(json_length(json_at(prompt, 1)), 1);
    assert_int_equal(json_length(json_find(fixture->body, "choices.0.token_ids")), ids.count);
    /* A stream has the same, in pieces; token_ids joined are all tokens. */
    assert_int_equal(api_fixture_post(fixture, CHAT,
                                      "{" HI "," NO_THINKING ",\"logprobs\":true,\"stream\":true,"
                                      "\"return_token_ids\":true,\"return_tokens_as_token_ids\":true}"),
                     200);
    size_t entry_count = 0;
    size_t id_count = 0;
    for (size_t i = 0; i < fixture->event_count; i++) {
        const struct json *data = fixture->events[i].data;
        const struct json *content = json_find(data, "choices.0.logprobs.content");
        entry_count += content == NULL ? 0 : json_length(content);
        const struct json *token_ids = json_find(data, "choices.0.token_ids");
        id_count += token_ids == NULL ? 0 : json_length(token_ids);
    }
    assert_int_equal(entry_count, ids.count);
    assert_int_equal(id_count, ids.count);
    char name[32];
    snprintf(name, sizeof name, "token_id:%d", ids.ids[0]);
    assert_json_text(fixture->events[1].data, "choices.0.logprobs.content.0.token", name);
    token_list_deinit(&ids);
}

/* Prompts that continue an answer, or leave its turn closed. */
static void test_prompt_switches(void **state) {
    static const struct {
        const char *fields, *prompt;
    } cases[] = {
        {"\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"par\"}],"
         "\"continue_final_message\":true,\"add_generation_prompt\":false," NO_THINKING,
         "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜></think>par"},
        {"\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],\"add_generation_prompt\":false",
         "<｜begin▁of▁sentence｜><｜User｜>q"},
        {"\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"q\"}]}],"
         "\"reasoning_effort\":\"none\"",
         "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜></think>"},
        {"\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],\"chat_template_kwargs\":{\"enable_thinking\":"
         "false}",
         "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜></think>"},
        {"\"messages\":[{\"role\":\"user\",\"content\":\"abcdef ghi\"}],\"truncate_prompt_tokens\":2",
         "<｜Assistant｜><think>"},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[1024];
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "tial" EOS);
        snprintf(body, sizeof body, "{%s,\"echo\":true}", cases[i].fields);
        assert_int_equal(api_fixture_post(fixture, CHAT, body), 200);
        const struct script_request *request = script_service_request(fixture->service, 0);
        struct token_list expected = api_fixture_ids(fixture, cases[i].prompt);
        assert_int_equal(request->prompt_count, expected.count);
        assert_memory_equal(request->prompt, expected.ids, expected.count * sizeof *expected.ids);
        token_list_deinit(&expected);
        if (i == 0) {
            assert_json_text(fixture->body, "choices.0.message.content", "partial");
        }
    }
}

/* The service fails: before anything was sent a status, in a stream an event; other requests go on. */
static void test_failures(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "one two three four five six" EOS);
    script_service_set_refusal(fixture->service, STATUS_PEER_LOST, "the worker is being restarted");
    assert_int_equal(api_fixture_post(fixture, CHAT, "{" HI ",\"stream\":true}"), 503);
    assert_json_text(fixture->body, "error.message", "the worker is being restarted");
    assert_string_equal(fixture->reply.headers.data, "Retry-After: 1\n");
    script_service_set_refusal(fixture->service, STATUS_OK, "");
    script_service_set_failure(fixture->service, STATUS_PEER_LOST, 3);
    assert_int_equal(api_fixture_post(fixture, CHAT, "{" HI "}"), 503);
    assert_int_equal(api_fixture_post(fixture, CHAT, "{" HI ",\"stream\":true}"), 200);
    assert_true(fixture->is_done);
    const struct json *last = fixture->events[fixture->event_count - 1].data;
    assert_json_text(last, "error.message", "the script says that this fails");
    assert_json_integer(last, "error.code", 503);
    assert_int_equal(stream_count(fixture, "choices.0.finish_reason", 0), 0);
    assert_int_equal(script_service_live_count(fixture->service), 0);
    assert_int_equal(api_running_count(fixture->api), 0);
}

/* A client that leaves frees its generations, streamed or not. */
static void test_client_leaves(void **state) {
    struct api_fixture *fixture = *state;
    for (int is_streaming = 0; is_streaming < 2; is_streaming++) {
        char body[256];
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "one two three" EOS);
        snprintf(body, sizeof body, "{" HI ",\"n\":2,\"stream\":%s}", is_streaming ? "true" : "false");
        api_fixture_send(fixture, "POST", CHAT, body, strlen(body));
        script_service_wait_for_requests(fixture->service, 2);
        script_service_step(fixture->service);
        memory_reply_leave(&fixture->reply);
        memory_reply_wait_for_end(&fixture->reply);
        while (api_running_count(fixture->api) > 0) {
            sched_yield();
        }
        assert_int_equal(script_service_live_count(fixture->service), 0);
    }
}

/* More generations than allowed: 429, and when to come back; if the limit can never be kept: 400. */
static void test_running_limit(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    struct api_options options = api_fixture_options(fixture);
    struct api *api = fixture->api;
    options.running_limit = 2;
    assert_int_equal(api_open(&options, &fixture->api), STATUS_OK);
    script_service_add_text(fixture->service, "x" EOS);
    static const char body[] = "{" HI "}";
    struct api_fixture other = {
        .tokenizer = fixture->tokenizer, .service = fixture->service, .api = fixture->api};
    api_fixture_send(&other, "POST", CHAT, body, strlen(body));
    script_service_wait_for_requests(fixture->service, 1);
    assert_int_equal(api_fixture_post(fixture, CHAT, "{" HI ",\"n\":2}"), 429);
    assert_string_equal(fixture->reply.headers.data, "Retry-After: 1\n");
    assert_json_text(fixture->body, "error.type", "RateLimitError");
    assert_int_equal(api_fixture_post(fixture, CHAT, "{" HI ",\"n\":3}"), 400);
    assert_json_text(fixture->body, "error.param", "n");
    api_fixture_receive(&other);
    memory_reply_deinit(&other.reply);
    json_free(&other.body);
    assert_int_equal(api_fixture_post(fixture, CHAT, "{" HI ",\"n\":2}"), 200);
    api_close(&fixture->api);
    fixture->api = api;
}

/* Closing ends what is under way with an error. */
static void test_close(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    struct api_options options = api_fixture_options(fixture);
    struct api *api = fixture->api;
    assert_int_equal(api_open(&options, &fixture->api), STATUS_OK);
    script_service_add_text(fixture->service, "one two three" EOS);
    static const char body[] = "{" HI ",\"stream\":true}";
    api_fixture_send(fixture, "POST", CHAT, body, strlen(body));
    script_service_wait_for_requests(fixture->service, 1);
    api_close(&fixture->api);
    assert_true(memory_reply_is_ended(&fixture->reply));
    assert_non_null(strstr(string_buffer_text(&fixture->reply.body), "the server is stopping"));
    assert_int_equal(script_service_live_count(fixture->service), 0);
    fixture->api = api;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_reply),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_fields_reach_the_service),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_grammars),
        cmocka_unit_test(test_tool_choices),
        cmocka_unit_test(test_log_probabilities),
        cmocka_unit_test(test_prompt_switches),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_client_leaves),
        cmocka_unit_test(test_running_limit),
        cmocka_unit_test(test_close),
    };
    return cmocka_run_group_tests(tests, api_fixture_open, api_fixture_close);
}
