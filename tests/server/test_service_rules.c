/* Rules of requests through the engine's service: kept, with and without drafts, and from any point on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/service_engine.h"
#include "support/rule_cases.h"
#include "support/service_client.h"

enum { ANSWERS = TESTS_ARE_SHORT ? RULE_CASES : 2 * RULE_CASES, ROOM = 400 };

static struct service *open_service(int draft_limit) {
    struct sluice_engine_options options = request_engine_options();
    struct service *service;
    options.sequence_limit = 4;
    options.draft.limit = draft_limit;
    options.draft.is_adaptive = false;
    EXPECT_OK(service_engine_open(&options, NULL, &service));
    return service;
}

/* Answer `index`: the rules are those of a case, twice each: greedy, then sampled. */
static struct service_request request_of(struct request_fixture *fixture, int index) {
    const struct planned_request *planned = &fixture->requests[index % REQUESTS];
    struct sluice_request_options options = request_options(planned);
    options.token_limit = REQUEST_ANSWER_MAX;
    options.sampling.temperature = index < RULE_CASES ? 0.0 : 0.8;
    options.sampling.seed = (uint64_t)index;
    struct service_request request = service_request_of(&options);
    request.rules = rule_case_rules(index % RULE_CASES);
    return request;
}

static void run_all(struct request_fixture *fixture, int draft_limit, struct answer *answers) {
    static struct service_call calls[ANSWERS];
    struct service *service = open_service(draft_limit);
    struct service_client client;
    service_client_init(&client, service);
    for (int i = 0; i < ANSWERS; i++) {
        struct service_request request = request_of(fixture, i);
        EXPECT_OK(service_call_submit(&client, &request, &calls[i]));
    }
    for (int i = 0; i < ANSWERS; i++) {
        service_call_wait(&calls[i], SIZE_MAX);
        answers[i] = calls[i].answer;
        service_call_release(&calls[i]);
    }
    service_client_deinit(&client);
    service->kind->close(&service);
}

static struct answer plain[ANSWERS];

static void test_rules_are_kept(void **state) {
    run_all(*state, 0, plain);
    for (int i = 0; i < ANSWERS; i++) {
        rule_case_expect_kept(i % RULE_CASES, &plain[i]);
    }
}

static void test_drafts_change_nothing(void **state) {
    static struct answer drafted[ANSWERS];
    run_all(*state, 3, drafted);
    for (int i = 0; i < ANSWERS; i++) {
        if (memcmp(&drafted[i], &plain[i], sizeof plain[i]) != 0) {
            fail_msg("drafts change an answer with %s", rule_case_name(i % RULE_CASES));
        }
    }
}

/* An answer that is interrupted goes on as it would have, wherever that happens. */
static void test_answers_go_on(void **state) {
    static struct service_call call;
    int32_t text[ROOM + REQUEST_ANSWER_MAX];
    struct service *service = open_service(3);
    struct service_client client;
    service_client_init(&client, service);
    for (int i = 0; i < ANSWERS; i++) {
        const struct answer *whole = &plain[i];
        for (size_t cut = 1; cut < whole->count; cut += TESTS_ARE_SHORT ? 17 : 3) {
            struct service_request request = request_of(*state, i);
            struct sluice_request_options *options = &request.options;
            memcpy(text, options->prompt, options->prompt_count * sizeof *text);
            memcpy(text + options->prompt_count, whole->tokens, cut * sizeof *text);
            options->prompt = text;
            options->prompt_count += cut;
            options->output_prefix_count = cut;
            options->token_limit -= (int64_t)cut;
            EXPECT_OK(service_call_submit(&client, &request, &call));
            service_call_wait(&call, SIZE_MAX);
            if (call.answer.count != whole->count - cut || call.answer.reason != whole->reason ||
                memcmp(call.answer.tokens, whole->tokens + cut, call.answer.count * sizeof *text) != 0) {
                fail_msg("an answer with %s goes on otherwise behind token %zu of %zu",
                         rule_case_name(i % RULE_CASES), cut, whole->count);
            }
            service_call_release(&call);
        }
    }
    service_client_deinit(&client);
    service->kind->close(&service);
}

static void expect_end(struct service *service, const struct service_request *request,
                       enum sluice_status status, const char *words) {
    static struct service_call call;
    struct service_client client;
    service_client_init(&client, service);
    EXPECT_OK(service_call_submit(&client, request, &call));
    service_call_wait(&call, SIZE_MAX);
    assert_int_equal(call.state.status, status);
    assert_int_equal(call.answer.reason, SLUICE_FINISH_ERROR);
    if (strstr(call.message, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", call.message, words);
    }
    service_call_release(&call);
    service_client_deinit(&client);
}

static struct service_request with_grammar(struct request_fixture *fixture, enum service_grammar grammar,
                                           const char *text) {
    struct service_request request = request_of(fixture, 0);
    request.rules = (struct service_rules){.grammar = grammar, .grammar_text = {text, strlen(text)}};
    return request;
}

static void test_grammars_that_cannot_be(void **state) {
    struct service *service = open_service(0);
    struct service_request request = with_grammar(*state, SERVICE_GRAMMAR_REGEX, "[a-");
    expect_end(service, &request, SLUICE_BAD_FORMAT, "closing bracket");
    request = with_grammar(*state, SERVICE_GRAMMAR_JSON_SCHEMA, "{\"$ref\":\"http://elsewhere/\"}");
    expect_end(service, &request, SLUICE_UNSUPPORTED, "$ref");
    request = with_grammar(*state, SERVICE_GRAMMAR_REGEX, "ab?");
    request.options.prompt_count = 0;
    expect_end(service, &request, SLUICE_BAD_ARGUMENT, "prompt is empty");
    /* One that need not be is left out. */
    static struct service_call call;
    struct service_client client;
    service_client_init(&client, service);
    request = with_grammar(*state, SERVICE_GRAMMAR_JSON_SCHEMA, "{\"$ref\":\"http://elsewhere/\"}");
    request.rules.is_grammar_optional = true;
    EXPECT_OK(service_call_submit(&client, &request, &call));
    service_call_wait(&call, SIZE_MAX);
    assert_memory_equal(&call.answer, &plain[0], sizeof plain[0]);
    service_call_release(&call);
    service_client_deinit(&client);
    service->kind->close(&service);
}

/* Generations are cancelled and given up while their grammars are being compiled, and soon after. */
static void test_given_up_while_compiling(void **state) {
    enum { CALLS = 40 };
    static struct service_call calls[CALLS];
    struct service *service = open_service(0);
    struct service_client client;
    service_client_init(&client, service);
    for (int i = 0; i < CALLS; i++) {
        char pattern[32];
        snprintf(pattern, sizeof pattern, "([a-z]{1,%d} ){3,9}", 2 + i);
        struct service_request request = with_grammar(*state, SERVICE_GRAMMAR_REGEX, pattern);
        EXPECT_OK(service_call_submit(&client, &request, &calls[i]));
        if (i % 4 == 1) {
            service->kind->cancel(calls[i].generation);
        } else if (i % 4 == 2) {
            service_call_release(&calls[i]);
        } else if (i % 4 == 3) {
            service_call_wait(&calls[i], 1);
            service_call_release(&calls[i]);
        }
    }
    for (int i = 0; i < CALLS; i++) {
        if (calls[i].generation != NULL) {
            service_call_wait(&calls[i], SIZE_MAX);
            assert_true(i % 4 == 0 || calls[i].answer.reason == SLUICE_FINISH_CANCELLED ||
                        calls[i].answer.count > 0);
            service_call_release(&calls[i]);
        }
    }
    service->kind->close(&service);
    service_client_deinit(&client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules_are_kept),
        cmocka_unit_test(test_drafts_change_nothing),
        cmocka_unit_test(test_answers_go_on),
        cmocka_unit_test(test_grammars_that_cannot_be),
        cmocka_unit_test(test_given_up_while_compiling),
    };
    return cmocka_run_group_tests(tests, request_fixture_set_up, request_fixture_tear_down);
}
