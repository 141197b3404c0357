/* Completions: prompts in all forms, echo, log-probabilities in the older form, streams. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/api_fixture.h"

static void test_whole_reply(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, " world" EOS);
    assert_int_equal(api_fixture_post(fixture, COMPLETIONS, "{\"model\":\"tiny\",\"prompt\":\"hello\"}"),
                     200);
    assert_json_text(fixture->body, "id", "cmpl-request-1");
    assert_json_text(fixture->body, "object", "text_completion");
    assert_json_text(fixture->body, "choices.0.text", " world");
    assert_json_text(fixture->body, "choices.0.finish_reason", "stop");
    assert_json_null(fixture->body, "choices.0.logprobs");
    /* Completions are short unless they ask for more. */
    assert_int_equal(script_service_request(fixture->service, 0)->options.token_limit, 16);
    /* The prompt is taken as it is: no mark is added, and those that it spells are marks. */
    assert_int_equal(
        api_fixture_post(fixture, COMPLETIONS, "{\"prompt\":\"<｜begin▁of▁sentence｜>x\",\"max_tokens\":1}"),
        200);
    const struct script_request *request = script_service_request(fixture->service, 1);
    assert_int_equal(request->prompt_count, 2);
    assert_int_equal(request->prompt[0], 0);
}

static void test_prompt_forms(void **state) {
    static const struct {
        const char *prompt;
        size_t count;
        int32_t last_ids[3]; /* of each prompt; -1: whatever */
    } cases[] = {
        {"\"a\"", 1, {-1}},
        {"[5,6]", 1, {6}},
        {"[\"a\",\"b\",\"c\"]", 3, {-1, -1, -1}},
        {"[[5,6],[7],[8,9,10]]", 3, {6, 7, 10}},
        {"[\"a\",[7]]", 2, {-1, 7}},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        api_fixture_reset(fixture);
        script_service_add_text(fixture->service, "x" EOS);
        script_service_add_text(fixture->service, "y" EOS);
        script_service_add_text(fixture->service, "z" EOS);
        snprintf(body, sizeof body, "{\"prompt\":%s}", cases[i].prompt);
        assert_int_equal(api_fixture_post(fixture, COMPLETIONS, body), 200);
        assert_int_equal(script_service_request_count(fixture->service), cases[i].count);
        assert_int_equal(json_length(json_find(fixture->body, "choices")), cases[i].count);
        for (size_t k = 0; k < cases[i].count; k++) {
            const struct script_request *request = script_service_request(fixture->service, k);
            char path[48];
            snprintf(path, sizeof path, "choices.%zu.text", k);
            assert_json_text(fixture->body, path, k == 0 ? "x" : k == 1 ? "y" : "z");
            assert_true(cases[i].last_ids[k] < 0 ||
                        request->prompt[request->prompt_count - 1] == cases[i].last_ids[k]);
            assert_int_equal(request->options.choice_index, 0);
        }
    }
}

static void test_refusals(void **state) {
    static const struct {
        const char *fields, *parameter;
    } cases[] = {
        {"\"prompt\":7", "prompt"},
        {"\"prompt\":null", "prompt"},
        {"\"prompt\":[]", "prompt"},
        {"\"prompt\":\"\"", "prompt"},
        {"\"prompt\":[[]]", "prompt"},
        {"\"prompt\":[-1]", "prompt"},
        {"\"prompt\":[4096]", "prompt"},
        {"\"prompt\":[1,\"a\"]", "prompt"},
        {"\"prompt\":[\"a\",7]", "prompt"},
        {"\"prompt\":\"a\",\"best_of\":2", "best_of"},
        {"\"prompt\":\"a\",\"best_of\":1,\"n\":2", "best_of"},
        {"\"prompt\":\"a\",\"best_of\":3,\"n\":2", "best_of"},
        {"\"prompt\":\"a\",\"suffix\":\"b\"", "suffix"},
        {"\"prompt\":\"a\",\"max_tokens\":0", "max_tokens"},
        {"\"prompt\":\"a\",\"logprobs\":21", "logprobs"},
        {"\"prompt\":\"a\",\"logprobs\":true", "logprobs"},
    };
    struct api_fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[256];
        api_fixture_reset(fixture);
        snprintf(body, sizeof body, "{%s}", cases[i].fields);
        assert_int_equal(api_fixture_post(fixture, COMPLETIONS, body), 400);
        assert_json_text(fixture->body, "error.param", cases[i].parameter);
    }
}

/* The greatest value of an object of numbers. */
static double largest(const struct json *object) {
    double most = -1e9;
    for (const struct json_member *member = json_first(object); member != NULL;
         member = json_next(object, member)) {
        double value = json_number(json_member_value(member));
        most = value > most ? value : most;
    }
    return most;
}

/* What lm-evaluation-harness posts and reads: the prompt's tokens and one more, the first without a value. */
static void test_scoring(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    struct token_list answer = api_fixture_ids(fixture, "!");
    script_service_add(fixture->service, answer.ids, answer.count);
    assert_int_equal(
        api_fixture_post(fixture, COMPLETIONS,
                         "{\"model\":\"tiny\",\"prompt\":[[300,301,302],[400,401]],\"temperature\":0,"
                         "\"max_tokens\":1,\"logprobs\":1,\"seed\":1234,\"echo\":true}"),
        200);
    assert_int_equal(script_service_request(fixture->service, 0)->options.prompt_log_probability_count, 1);
    static const size_t prompt_counts[] = {3, 2};
    for (size_t i = 0; i < 2; i++) {
        char path[48];
        snprintf(path, sizeof path, "choices.%zu.logprobs", i);
        const struct json *logprobs = json_find(fixture->body, path);
        const struct json *values = json_get(logprobs, "token_logprobs");
        const struct json *tops = json_get(logprobs, "top_logprobs");
        assert_int_equal(json_length(values), prompt_counts[i] + 1);
        assert_int_equal(json_length(tops), prompt_counts[i] + 1);
        assert_int_equal(json_length(json_get(logprobs, "tokens")), prompt_counts[i] + 1);
        assert_int_equal(json_kind(json_at(values, 0)), JSON_KIND_NULL);
        assert_int_equal(json_kind(json_at(tops, 0)), JSON_KIND_NULL);
        for (size_t k = 1; k <= prompt_counts[i]; k++) {
            size_t place = k < prompt_counts[i] ? k : 0;
            assert_true(json_number(json_at(values, k)) == script_log_probability(place, 0));
            /* The script's tokens are the likeliest: greedy. */
            assert_true(largest(json_at(tops, k)) == json_number(json_at(values, k)));
        }
        snprintf(path, sizeof path, "choices.%zu.index", i);
        assert_json_integer(fixture->body, path, (int64_t)i);
    }
    token_list_deinit(&answer);
}

/* Offsets are characters of the text; with max_tokens 0 the text is the prompt. */
static void test_echo(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "é!" EOS);
    assert_int_equal(api_fixture_post(fixture, COMPLETIONS,
                                      "{\"prompt\":\"héllo\",\"echo\":true,\"logprobs\":0,\"max_tokens\":8}"),
                     200);
    assert_json_text(fixture->body, "choices.0.text", "hélloé!");
    const struct json *tokens = json_find(fixture->body, "choices.0.logprobs.tokens");
    const struct json *offsets = json_find(fixture->body, "choices.0.logprobs.text_offset");
    /* No token of this text is cut inside a character, so their lengths add up. */
    int64_t characters = 0;
    for (size_t i = 0; i < json_length(tokens); i++) {
        assert_int_equal(json_int64(json_at(offsets, i)), characters);
        for (const char *byte = json_text(json_at(tokens, i), NULL); *byte != '\0'; byte++) {
            characters += ((unsigned char)*byte & 0xC0) != 0x80;
        }
    }
    for (int is_streaming = 0; is_streaming < 2; is_streaming++) {
        assert_int_equal(api_fixture_post(fixture, COMPLETIONS,
                                          is_streaming
                                              ? "{\"prompt\":\"héllo\",\"echo\":true,\"max_tokens\":0,"
                                                "\"stream\":true}"
                                              : "{\"prompt\":\"héllo\",\"echo\":true,\"max_tokens\":0}"),
                         200);
        if (is_streaming) {
            assert_stream_text(fixture, "choices.0.text", 0, "héllo");
            assert_stream_text(fixture, "choices.0.finish_reason", 0, "length");
        } else {
            assert_json_text(fixture->body, "choices.0.text", "héllo");
            assert_json_integer(fixture->body, "usage.completion_tokens", 0);
        }
    }
}

/* A stream says what a whole reply says, with echo, several prompts and log-probabilities. */
static void test_stream_equals_whole(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    script_service_add_text(fixture->service, "one two three four" EOS);
    script_service_add_text(fixture->service, "5 6 7" EOS);
#define SAME "\"prompt\":[\"a b\",\"c\"],\"max_tokens\":20,\"echo\":true,\"logprobs\":1,\"n\":2,\"seed\":3"
    assert_int_equal(api_fixture_post(fixture, COMPLETIONS, "{" SAME "}"), 200);
    struct string_buffer texts[4] = {{0}};
    size_t token_counts[4];
    for (size_t i = 0; i < 4; i++) {
        char path[48];
        snprintf(path, sizeof path, "choices.%zu.text", i);
        string_buffer_append_text(&texts[i], json_text(json_find(fixture->body, path), NULL));
        snprintf(path, sizeof path, "choices.%zu.logprobs.tokens", i);
        token_counts[i] = json_length(json_find(fixture->body, path));
    }
    assert_string_equal(texts[0].data, "a bone two three four");
    assert_string_equal(texts[3].data, "c5 6 7");
    assert_int_equal(script_service_request(fixture->service, 1)->options.choice_index, 1);
    assert_int_equal(api_fixture_post(fixture, COMPLETIONS, "{" SAME ",\"stream\":true}"), 200);
    for (size_t i = 0; i < 4; i++) {
        size_t tokens = 0;
        assert_stream_text(fixture, "choices.0.text", (int64_t)i, texts[i].data);
        assert_int_equal(stream_count(fixture, "choices.0.finish_reason", (int64_t)i), 1);
        for (size_t k = 0; k < fixture->event_count; k++) {
            const struct json *data = fixture->events[k].data;
            if (json_int64(json_find(data, "choices.0.index")) == (int64_t)i) {
                tokens += json_length(json_find(data, "choices.0.logprobs.tokens"));
            }
        }
        assert_int_equal(tokens, token_counts[i]);
        string_buffer_deinit(&texts[i]);
    }
}

/* Models and tokenizer endpoints. */
static void test_models_and_tokenizer(void **state) {
    struct api_fixture *fixture = *state;
    api_fixture_reset(fixture);
    assert_int_equal(api_fixture_get(fixture, "/v1/models"), 200);
    assert_json_text(fixture->body, "data.0.id", "tiny");
    assert_json_text(fixture->body, "data.1.id", "tiny-2");
    assert_json_integer(fixture->body, "data.0.max_model_len", 4096);
    assert_json_text(fixture->body, "data.0.root", SLUICE_SOURCE_DIR "/models/mini-v4");
    assert_int_equal(api_fixture_get(fixture, "/v1/models/tiny-2"), 200);
    assert_json_text(fixture->body, "id", "tiny-2");
    assert_int_equal(api_fixture_get(fixture, "/v1/models/none"), 404);
    struct token_list ids = api_fixture_ids(fixture, "hello world");
    assert_int_equal(api_fixture_post(fixture, "/tokenize",
                                      "{\"prompt\":\"hello world\",\"add_special_tokens\":false,"
                                      "\"return_token_strs\":true}"),
                     200);
    assert_json_integer(fixture->body, "count", (int64_t)ids.count);
    assert_json_integer(fixture->body, "tokens.0", ids.ids[0]);
    assert_json_integer(fixture->body, "max_model_len", 4096);
    assert_int_equal(json_length(json_find(fixture->body, "token_strs")), ids.count);
    token_list_deinit(&ids);
    ids = api_fixture_ids(fixture, "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜><think>");
    assert_int_equal(
        api_fixture_post(fixture, "/tokenize", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"),
        200);
    assert_json_integer(fixture->body, "count", (int64_t)ids.count);
    token_list_deinit(&ids);
    assert_int_equal(api_fixture_post(fixture, "/tokenize", "{}"), 400);
    assert_int_equal(api_fixture_post(fixture, "/detokenize", "{\"tokens\":[0,4084]}"), 200);
    assert_json_text(fixture->body, "prompt", "<｜begin▁of▁sentence｜><｜User｜>");
    assert_int_equal(api_fixture_post(fixture, "/detokenize", "{\"tokens\":[99999]}"), 400);
    assert_int_equal(api_fixture_post(fixture, "/detokenize", "{\"tokens\":[\"a\"]}"), 400);
    assert_int_equal(api_fixture_get(fixture, "/tokenizer_info"), 200);
    assert_json_text(fixture->body, "eos_token", EOS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_reply),
        cmocka_unit_test(test_prompt_forms),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_scoring),
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_stream_equals_whole),
        cmocka_unit_test(test_models_and_tokenizer),
    };
    return cmocka_run_group_tests(tests, api_fixture_open, api_fixture_close);
}
