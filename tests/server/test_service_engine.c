/* The engine behind the service interface gives what it gives behind its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/string_buffer.h"
#include "server/service_engine.h"
#include "support/service_client.h"

static struct service *open_service(void) {
    struct sluice_engine_options options = request_engine_options();
    struct service *service;
    options.sequence_limit = 8;
    EXPECT_OK(service_engine_open(&options, &service));
    return service;
}

static void test_answers_are_the_engines(void **state) {
    struct request_fixture *fixture = *state;
    static struct service_call calls[REQUESTS];
    struct service *service = open_service();
    struct service_client client;
    service_client_init(&client, service);
    for (int i = 0; i < REQUESTS; i++) {
        struct sluice_request_options options = request_options(&fixture->requests[i]);
        struct service_request request = service_request_of(&options);
        EXPECT_OK(service_call_submit(&client, &request, &calls[i]));
    }
    for (int i = 0; i < REQUESTS; i++) {
        service_call_wait(&calls[i], SIZE_MAX);
        request_expect_answer(fixture, i, &calls[i].answer, "through the service");
        service_call_release(&calls[i]);
    }
    struct service_stats stats;
    service->kind->stats(service, &stats);
    assert_int_equal(stats.engine.finished_requests, REQUESTS);
    assert_int_equal(stats.engine.running_requests + stats.engine.waiting_requests, 0);
    assert_int_equal(stats.worker_count, 1);
    assert_int_equal(stats.ready_count, 1);
    assert_true(stats.engine.cached_pages > 0);
    EXPECT_OK(service->kind->clear_prefix_cache(service));
    double deadline = clock_seconds() + 10.0;
    while (stats.engine.cached_pages > 0) {
        assert_true(clock_seconds() < deadline);
        service->kind->stats(service, &stats);
    }
    assert_int_equal(service->kind->facts(service).context_tokens, REQUEST_CONTEXT);
    service_client_deinit(&client);
    service->kind->close(&service);
    assert_null(service);
}

/* Those of the prompt are what the engine records, all before the first token. */
static void test_prompt_log_probabilities(void **state) {
    struct request_fixture *fixture = *state;
    static struct service_call call;
    struct service *service = open_service();
    struct service_client client;
    struct sluice_engine_options engine_options = request_engine_options();
    struct sluice_engine *engine;
    struct sluice_request *direct;
    struct sluice_request_options options = request_options(&fixture->requests[1]);
    options.prompt_log_probability_count = REQUEST_TOP;
    struct service_request request = service_request_of(&options);
    service_client_init(&client, service);
    EXPECT_OK(service_call_submit(&client, &request, &call));
    EXPECT_OK(sluice_engine_open(&engine_options, &engine));
    EXPECT_OK(sluice_engine_submit(engine, &options, &direct));
    sluice_request_wait(direct, SIZE_MAX, SIZE_MAX, -1.0);
    service_call_wait(&call, SIZE_MAX);
    request_expect_answer(fixture, 1, &call.answer, "with the prompt's log-probabilities");
    assert_int_equal(call.prompt_token_count, options.prompt_count);
    assert_memory_equal(call.prompt_tokens, options.prompt, options.prompt_count * sizeof *options.prompt);
    for (size_t i = 1; i < options.prompt_count; i++) {
        struct sluice_log_probability chosen;
        EXPECT_OK(sluice_request_prompt_log_probabilities(direct, i, &chosen, NULL));
        assert_int_equal(call.prompt_chosen[i].token, options.prompt[i]);
        assert_true(call.prompt_chosen[i].log_probability == chosen.log_probability);
    }
    sluice_request_release(&direct);
    sluice_engine_close(&engine);
    service_call_release(&call);
    service_client_deinit(&client);
    service->kind->close(&service);
}

static void test_given_up_and_cancelled(void **state) {
    struct request_fixture *fixture = *state;
    static struct service_call calls[2];
    struct service *service = open_service();
    struct service_client client;
    service_client_init(&client, service);
    for (int i = 0; i < 2; i++) {
        struct sluice_request_options options = request_options(&fixture->requests[i]);
        options.stop_token_count = 0;
        options.token_limit = -1;
        options.log_probability_count = -1;
        struct service_request request = service_request_of(&options);
        EXPECT_OK(service_call_submit(&client, &request, &calls[i]));
        service_call_wait(&calls[i], 1);
    }
    service->kind->cancel(calls[0].generation);
    service_call_wait(&calls[0], SIZE_MAX);
    assert_int_equal(calls[0].state.finish_reason, SLUICE_FINISH_CANCELLED);
    service_call_release(&calls[0]);
    service_call_release(&calls[1]);
    service->kind->close(&service);
    service_client_deinit(&client);
}

static struct service_request schema_request(const struct sluice_request_options *options,
                                             const char *schema) {
    struct service_request request = service_request_of(options);
    request.rules.grammar = SERVICE_GRAMMAR_JSON_SCHEMA;
    request.rules.grammar_text = (struct service_text){schema, strlen(schema)};
    return request;
}

/* Forms that take seconds to work out do not keep those behind them waiting, and one of them is refused. */
static void test_slow_forms_let_others_pass(void **state) {
    struct request_fixture *fixture = *state;
    enum { SLOW = 3 };
    static struct service_call slow[SLOW], small;
    struct service *service = open_service();
    struct service_client client;
    service_client_init(&client, service);
    struct sluice_request_options options = request_options(&fixture->requests[0]);
    options.token_limit = 4;
    struct string_buffer schema = {0};
    for (int i = 0; i < SLOW; i++) {
        string_buffer_clear(&schema);
        string_buffer_append_format(&schema, "{\"title\": \"%d\", \"properties\": {\"p\": true", i);
        for (int k = 0; k < 20; k++) {
            string_buffer_append_format(
                &schema, ", \"p%d\": {\"type\": \"string\", \"pattern\": \"^((a?){%d}){40}$\"}", k, k + 60);
        }
        string_buffer_append_text(&schema, "}}");
        struct service_request request = schema_request(&options, string_buffer_text(&schema));
        EXPECT_OK(service_call_submit(&client, &request, &slow[i]));
    }
    struct service_request request = schema_request(&options, "{\"type\": \"boolean\"}");
    EXPECT_OK(service_call_submit(&client, &request, &small));
    service_call_wait(&small, SIZE_MAX);
    assert_true(small.state.token_count > 0);
    for (int i = 0; i < SLOW; i++) {
        service_call_take(&slow[i]);
        assert_false(slow[i].is_over);
        service_call_release(&slow[i]); /* nobody wants it any more: it is not worked out */
    }
    service_call_release(&small);
    request = schema_request(&options, string_buffer_text(&schema));
    EXPECT_OK(service_call_submit(&client, &request, &slow[0]));
    service_call_wait(&slow[0], SIZE_MAX);
    assert_int_equal(slow[0].state.finish_reason, SLUICE_FINISH_ERROR);
    assert_non_null(strstr(slow[0].message, "takes too long to work out"));
    service_call_release(&slow[0]);
    string_buffer_deinit(&schema);
    service_client_deinit(&client);
    service->kind->close(&service);
}

static void expect_refused(struct service *service, const struct service_request *request, enum status status,
                           const char *word) {
    struct generation *generation = NULL;
    assert_int_equal(service->kind->submit(service, request, &generation), status);
    assert_null(generation);
    if (strstr(error_last()->message, word) == NULL) {
        fail_msg("\"%s\" does not say %s", error_last()->message, word);
    }
}

static void test_what_cannot_be_done_is_refused(void **state) {
    struct request_fixture *fixture = *state;
    struct service *service = open_service();
    struct sluice_request_options options = request_options(&fixture->requests[0]);
    struct service_request request = service_request_of(&options);
    request.options.prompt_count = 0;
    expect_refused(service, &request, STATUS_BAD_ARGUMENT, "prompt is empty");
    int32_t outside = 1 << 20;
    request = service_request_of(&options);
    request.rules.allowed_tokens = &outside;
    request.rules.allowed_token_count = 1;
    expect_refused(service, &request, STATUS_OUT_OF_RANGE, "1048576");
    struct service_text blank = {"  ", 2};
    request = service_request_of(&options);
    request.rules.bad_words = &blank;
    request.rules.bad_word_count = 1;
    expect_refused(service, &request, STATUS_BAD_ARGUMENT, "bad_words[0]");
    service->kind->close(&service);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_the_engines),
        cmocka_unit_test(test_prompt_log_probabilities),
        cmocka_unit_test(test_given_up_and_cancelled),
        cmocka_unit_test(test_slow_forms_let_others_pass),
        cmocka_unit_test(test_what_cannot_be_done_is_refused),
    };
    return cmocka_run_group_tests(tests, request_fixture_set_up, request_fixture_tear_down);
}
