/*
 * An answer that was interrupted goes on with the bits it would have had: tokens and log-probabilities after
 * any number of tokens that are handed back as the prompt's end are those of the answer in one go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "sluice/request.h"
#include "support/request_fixture.h"

/* Penalties of all three kinds: they tell output from prompt. */
static struct sluice_request_options options_of(const struct request_fixture *fixture, int index) {
    struct sluice_request_options options = request_options(&fixture->requests[index]);
    if (fixture->requests[index].has_penalties) {
        options.sampling.presence_penalty = 1.5;
        options.sampling.frequency_penalty = 0.8;
    }
    options.token_limit = REQUEST_ANSWER_MAX;
    return options;
}

static void run(struct sluice_engine *engine, const struct sluice_request_options *options,
                struct answer *out) {
    struct sluice_request *request;
    EXPECT_OK(sluice_engine_submit(engine, options, &request));
    request_collect(request, out);
    sluice_request_release(&request);
}

/* Runs what is left behind `done` tokens. */
static void run_rest(struct sluice_engine *engine, const struct sluice_request_options *whole,
                     const struct answer *expected, size_t done, struct answer *out) {
    int32_t tokens[REQUEST_CONTEXT];
    struct sluice_request_options options = *whole;
    memcpy(tokens, whole->prompt, whole->prompt_count * sizeof *tokens);
    memcpy(tokens + whole->prompt_count, expected->tokens, done * sizeof *tokens);
    options.prompt = tokens;
    options.prompt_count = whole->prompt_count + done;
    options.output_prefix_count = done;
    options.token_limit = whole->token_limit - (int64_t)done;
    run(engine, &options, out);
}

static void expect_rest(const struct answer *expected, const struct answer *rest, size_t done, int index) {
    size_t count = expected->count - done;
    bool is_same = rest->count == count && rest->reason == expected->reason &&
                   memcmp(rest->tokens, expected->tokens + done, count * sizeof *rest->tokens) == 0 &&
                   memcmp(rest->chosen, expected->chosen + done, count * sizeof *rest->chosen) == 0 &&
                   memcmp(rest->top, expected->top + done, count * sizeof *rest->top) == 0;
    if (!is_same) {
        fail_msg("request %d goes on otherwise after %zu of %zu tokens", index, done, expected->count);
    }
}

static void test_goes_on_with_the_same_bits(void **state) {
    struct request_fixture *fixture = *state;
    struct answer whole;
    struct answer rest;
    for (int drafts = TESTS_ARE_SHORT ? 2 : 0; drafts <= 2; drafts += 2) {
        struct sluice_engine_options engine_options = request_engine_options();
        struct sluice_engine *engine;
        engine_options.draft.limit = drafts;
        EXPECT_OK(sluice_engine_open(&engine_options, &engine));
        for (int i = 0; i < REQUESTS; i++) {
            struct sluice_request_options options = options_of(fixture, i);
            run(engine, &options, &whole);
            const size_t cuts[] = {1, whole.count / 2, whole.count - 1};
            for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
                if (cuts[c] > 0 && cuts[c] < whole.count) {
                    run_rest(engine, &options, &whole, cuts[c], &rest);
                    expect_rest(&whole, &rest, cuts[c], i);
                }
            }
        }
        sluice_engine_close(&engine);
    }
}

static void test_bounds(void **state) {
    struct request_fixture *fixture = *state;
    struct sluice_engine_options engine_options = request_engine_options();
    struct sluice_engine *engine;
    struct sluice_request *request;
    EXPECT_OK(sluice_engine_open(&engine_options, &engine));
    struct sluice_request_options options = request_options(&fixture->requests[0]);
    options.output_prefix_count = options.prompt_count;
    assert_int_equal(sluice_engine_submit(engine, &options, &request), SLUICE_OUT_OF_RANGE);
    assert_non_null(strstr(sluice_last_error(), "output_prefix_count"));
    sluice_engine_close(&engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_on_with_the_same_bits),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, request_fixture_set_up, request_fixture_tear_down);
}
