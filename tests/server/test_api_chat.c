/* Chat completions: what requests ask of the service, and what their replies say, streamed and whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_reply),
        cmocka_unit_test(test_stream),
    };
    return cmocka_run_group_tests(tests, api_fixture_open, api_fixture_close);
}
