/*
 * Requests on mini-v4 through the public interface: what comes out depends on the request alone.
 *
 * The reference is each request by itself, in an engine without prefix cache and without drafts. Tokens must
 * be equal, and the log-probabilities of the likeliest tokens, bit for bit: they come from whole rows of
 * logits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sluice/request.h"
#include "support/request_fixture.h"

/* With this many drafts the engine chooses how many by times, elsewhere drafts are made whatever they cost.
 */
enum { SEQUENCES = 8, ADAPTIVE_DRAFTS = 2 };

static struct sluice_engine *open_engine(int drafts, bool has_cache, int sequences, int step_tokens) {
    struct sluice_engine_options options = request_engine_options();
    struct sluice_engine *engine;
    options.sequence_limit = sequences;
    options.step_token_limit = step_tokens;
    options.has_prefix_cache = has_cache;
    options.draft.limit = drafts;
    options.draft.is_adaptive = drafts == ADAPTIVE_DRAFTS;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    return engine;
}

/* All at once, in an order of their own; every one gets what it gets alone. */
static void run_together(struct request_fixture *fixture, struct sluice_engine *engine, const char *what) {
    struct sluice_request *requests[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        requests[i] = request_submit(engine, &fixture->requests[i], request_fixture_below(fixture, 3));
    }
    for (int i = 0; i < REQUESTS; i++) {
        request_expect_same(fixture, i, requests[i], what);
        sluice_request_release(&requests[i]);
    }
    struct sluice_engine_stats stats = sluice_engine_stats(engine);
    assert_int_equal(stats.running_requests + stats.waiting_requests, 0);
    assert_int_equal(stats.free_pages + stats.cached_pages, sluice_engine_facts(engine).memory.page_count);
}

/* B160, T-9: what runs beside a request changes nothing. */
static void test_in_any_company(void **state) {
    struct request_fixture *fixture = *state;
    for (int drafts = 0; drafts <= 3; drafts += TESTS_ARE_SHORT ? 3 : 1) {
        for (int has_cache = 0; has_cache < 2; has_cache++) {
            char what[64];
            snprintf(what, sizeof what, "%d drafts, cache %d", drafts, has_cache);
            struct sluice_engine *engine =
                open_engine(drafts, has_cache != 0, SEQUENCES, 32 + 96 * has_cache);
            run_together(fixture, engine, what);
            if (has_cache) {
                run_together(fixture, engine, "again");
                assert_true(sluice_engine_stats(engine).cached_prompt_tokens > 0);
            }
            if (drafts > 0 && drafts != ADAPTIVE_DRAFTS) {
                assert_true(sluice_engine_stats(engine).accepted_drafts[0] > 0);
            }
            sluice_engine_close(&engine);
        }
    }
}

/* Until all have ended: what a request shows of its progress never goes back. */
static void watch_progress(struct sluice_request *const *requests) {
    struct sluice_request_state seen[SEQUENCES] = {0};
    for (int ended = 0; ended < SEQUENCES;) {
        ended = 0;
        for (int i = 0; i < SEQUENCES; i++) {
            struct sluice_request_state now = sluice_request_wait(requests[i], SIZE_MAX, SIZE_MAX, 0.0005);
            assert_true(now.prompt_tokens_done >= seen[i].prompt_tokens_done);
            assert_true(now.token_count >= seen[i].token_count);
            assert_true(now.preemptions >= seen[i].preemptions);
            assert_true(seen[i].prompt_tokens_done == 0 ||
                        now.cached_prompt_tokens == seen[i].cached_prompt_tokens);
            ended += now.phase == SLUICE_REQUEST_FINISHED;
            seen[i] = now;
        }
    }
}

/* T-9: pages for three long answers where eight run: they push each other out and read their tokens again. */
static void test_under_memory_pressure(void **state) {
    struct request_fixture *fixture = *state;
    enum { LONG = 300 };
    static int32_t texts[SEQUENCES][LONG];
    struct sluice_request *requests[SEQUENCES];
    struct sluice_engine_options options = request_engine_options();
    options.sequence_limit = SEQUENCES;
    options.step_token_limit = 64;
    options.draft.limit = 2;
    for (int is_tight = 0; is_tight < 2; is_tight++) {
        struct sluice_engine *engine;
        EXPECT_OK(sluice_engine_open(&options, &engine));
        struct sluice_memory_ledger memory = sluice_engine_facts(engine).memory;
        for (int i = 0; i < SEQUENCES; i++) {
            struct sluice_request_options request = sluice_request_options_default();
            request.prompt = fixture->requests[i].prompt;
            request.prompt_count =
                fixture->requests[i].prompt_count < 20 ? fixture->requests[i].prompt_count : 20;
            request.token_limit = LONG;
            request.sampling.seed = (uint64_t)i;
            EXPECT_OK(sluice_engine_submit(engine, &request, &requests[i]));
        }
        watch_progress(requests);
        for (int i = 0; i < SEQUENCES; i++) {
            struct sluice_request_state end = sluice_request_wait(requests[i], SIZE_MAX, SIZE_MAX, -1.0);
            assert_int_equal(end.token_count, LONG);
            for (size_t t = 0; t < LONG; t++) {
                int32_t token = sluice_request_token(requests[i], t);
                assert_true(!is_tight || texts[i][t] == token);
                texts[i][t] = token;
            }
            sluice_request_release(&requests[i]);
        }
        assert_true(!is_tight || sluice_engine_stats(engine).preemptions > 0);
        assert_true(is_tight || sluice_engine_stats(engine).preemptions == 0);
        sluice_engine_close(&engine);
        size_t page_bytes = memory.page_state_bytes / (size_t)memory.page_count;
        options.memory_limit_bytes = memory.copied_weight_bytes + memory.slot_state_bytes +
                                     memory.snapshot_bytes + memory.step_bytes + memory.host_bytes +
                                     10 * page_bytes;
    }
}

/* T-9: a second time the beginning is there: only what follows the last page is run, with the same result. */
static void test_cached_prompts(void **state) {
    struct request_fixture *fixture = *state;
    struct sluice_engine *engine = open_engine(1, true, 1, 512);
    for (int i = 0; i < REQUESTS; i++) {
        for (int round = 0; round < 2; round++) {
            struct sluice_request *request = request_submit(engine, &fixture->requests[i], 0);
            request_expect_same(fixture, i, request, round == 0 ? "cold" : "warm");
            size_t wanted = (fixture->requests[i].prompt_count - 1) / 128 * 128;
            if (round == 1) {
                assert_int_equal(sluice_request_state(request).cached_prompt_tokens, wanted);
            }
            sluice_request_release(&request);
        }
    }
    EXPECT_OK(sluice_engine_clear_prefix_cache(engine));
    assert_int_equal(sluice_engine_stats(engine).cached_pages, 0);
    sluice_engine_close(&engine);
}

/* T-9: requests that are given up at any moment leave the others alone and give all back. */
static void test_cancelled_among_others(void **state) {
    struct request_fixture *fixture = *state;
    struct sluice_engine *engine = open_engine(2, true, SEQUENCES, 64);
    struct sluice_request *kept[REQUESTS];
    struct sluice_request *dropped[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        dropped[i] = request_submit(engine, &fixture->requests[request_fixture_below(fixture, REQUESTS)], 0);
        kept[i] = request_submit(engine, &fixture->requests[i], 0);
        if (request_fixture_below(fixture, 2) == 0) {
            sluice_request_wait(dropped[i], 0, SIZE_MAX, 0.01);
        }
        if (request_fixture_below(fixture, 2) == 0) {
            sluice_request_cancel(dropped[i]);
            sluice_request_wait(dropped[i], SIZE_MAX, SIZE_MAX, -1.0);
        }
        sluice_request_release(&dropped[i]);
    }
    for (int i = 0; i < REQUESTS; i++) {
        request_expect_same(fixture, i, kept[i], "beside cancelled ones");
        sluice_request_release(&kept[i]);
    }
    struct sluice_engine_stats stats = sluice_engine_stats(engine);
    assert_int_equal(stats.finished_requests + stats.running_requests + stats.waiting_requests, 2 * REQUESTS);
    sluice_engine_close(&engine);
}

/* A rule that forbids what the model wants, ends the answer at a token, and sees every accepted token. */
struct rule {
    int32_t forbidden;
    int32_t last;
    int32_t seen[REQUEST_ANSWER_MAX];
    size_t seen_count;
};

static size_t count_allowed(void *context, const int32_t *drafts, size_t draft_count) {
    const struct rule *rule = context;
    size_t count = 0;
    while (count < draft_count && drafts[count] != rule->forbidden) {
        count++;
    }
    return count;
}

static bool allow(void *context, const int32_t *drafts, size_t draft_count, uint32_t *mask) {
    const struct rule *rule = context;
    (void)drafts;
    (void)draft_count;
    memset(mask, 0xff, 4096 / 8);
    mask[rule->forbidden / 32] &= ~(1u << (rule->forbidden % 32));
    return true;
}

static bool accept(void *context, int32_t token) {
    struct rule *rule = context;
    rule->seen[rule->seen_count++] = token;
    return token == rule->last;
}

/* M-10: rules see accepted tokens only, and drafts that they forbid are none. */
static void test_constraints_hold_with_drafts(void **state) {
    struct request_fixture *fixture = *state;
    int32_t texts[2][REQUEST_ANSWER_MAX];
    size_t counts[2];
    for (int drafts = 0; drafts < 2; drafts++) {
        struct sluice_engine *engine = open_engine(3 * drafts, false, 1, 512);
        struct rule rule = {.forbidden = fixture->alone[0].tokens[0], .last = -1};
        struct sluice_request_options options = sluice_request_options_default();
        struct sluice_request *request;
        options.prompt = fixture->requests[0].prompt;
        options.prompt_count = fixture->requests[0].prompt_count;
        options.token_limit = REQUEST_ANSWER_MAX;
        options.sampling.temperature = 0.0;
        options.constraint = (struct sluice_constraint){
            .count_allowed = count_allowed, .allow = allow, .accept = accept, .context = &rule};
        EXPECT_OK(sluice_engine_submit(engine, &options, &request));
        struct sluice_request_state end = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
        counts[drafts] = end.token_count;
        assert_int_equal(rule.seen_count, end.token_count);
        for (size_t i = 0; i < end.token_count; i++) {
            texts[drafts][i] = sluice_request_token(request, i);
            assert_int_equal(rule.seen[i], texts[drafts][i]);
            assert_int_not_equal(texts[drafts][i], rule.forbidden);
        }
        sluice_request_release(&request);
        /* And with an end in the middle of what a round accepts. */
        rule = (struct rule){.forbidden = rule.forbidden, .last = texts[drafts][10]};
        EXPECT_OK(sluice_engine_submit(engine, &options, &request));
        end = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
        assert_int_equal(end.finish_reason, SLUICE_FINISH_STOP);
        assert_true(end.token_count <= 11);
        assert_int_equal(sluice_request_token(request, end.token_count - 1), rule.last);
        sluice_request_release(&request);
        sluice_engine_close(&engine);
    }
    assert_int_equal(counts[0], counts[1]);
    assert_memory_equal(texts[0], texts[1], counts[0] * sizeof texts[0][0]);
}

/* B65: the earliest boundary wins, inside a run of accepted drafts too. */
static void test_ends_inside_accepted_drafts(void **state) {
    struct request_fixture *fixture = *state;
    struct sluice_engine *engine = open_engine(5, false, 1, 512);
    const struct answer *answer = &fixture->alone[0];
    for (int i = 0; i < REQUESTS && answer->count < 12; i++) {
        answer = &fixture->alone[i];
    }
    const struct planned_request *planned = &fixture->requests[answer - fixture->alone];
    for (size_t stop = 0; stop < answer->count; stop++) {
        size_t first = 0;
        while (answer->tokens[first] != answer->tokens[stop]) {
            first++;
        }
        for (size_t limit = 1; limit <= answer->count; limit += 3) {
            struct sluice_request_options options = sluice_request_options_default();
            struct sluice_request *request;
            options.prompt = planned->prompt;
            options.prompt_count = planned->prompt_count;
            options.sampling.temperature = planned->temperature;
            options.sampling.seed = planned->seed;
            options.sampling.repetition_penalty = planned->has_penalties ? 1.2 : 1.0;
            options.token_limit = (int64_t)limit;
            options.stop_tokens = &answer->tokens[stop];
            options.stop_token_count = 1;
            EXPECT_OK(sluice_engine_submit(engine, &options, &request));
            struct sluice_request_state end = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
            bool is_stopped = first + 1 <= limit;
            assert_int_equal(end.finish_reason, is_stopped ? SLUICE_FINISH_STOP : SLUICE_FINISH_LENGTH);
            assert_int_equal(end.token_count, is_stopped ? first + 1 : limit);
            for (size_t i = 0; i < end.token_count; i++) {
                assert_int_equal(sluice_request_token(request, i), answer->tokens[i]);
            }
            sluice_request_release(&request);
        }
    }
    sluice_engine_close(&engine);
}

static void expect_refused(struct sluice_engine *engine, const struct sluice_request_options *options,
                           enum sluice_status status, const char *sentence) {
    struct sluice_request *request;
    assert_int_equal(sluice_engine_submit(engine, options, &request), status);
    assert_null(request);
    if (strstr(sluice_last_error(), sentence) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", sluice_last_error(), sentence);
    }
}

static void test_what_is_refused(void **state) {
    struct request_fixture *fixture = *state;
    (void)fixture;
    struct sluice_engine *engine = open_engine(0, true, 1, 512);
    int32_t tokens[512] = {5};
    struct sluice_request_options good = sluice_request_options_default();
    good.prompt = tokens;
    good.prompt_count = 1;
    struct sluice_request_options options = good;
    options.prompt_count = 0;
    expect_refused(engine, &options, SLUICE_BAD_ARGUMENT, "empty");
    options = good;
    options.prompt_count = 512;
    expect_refused(engine, &options, SLUICE_CONTEXT_FULL, "--max-model-len");
    options = good;
    options.token_limit = 0;
    expect_refused(engine, &options, SLUICE_OUT_OF_RANGE, "token_limit");
    options = good;
    options.sampling.top_p = 0.0;
    expect_refused(engine, &options, SLUICE_OUT_OF_RANGE, "top_p");
    options = good;
    options.draft_limit = 1;
    /* Spec parallelism 6.5, CFG-11, M-25. */
    expect_refused(engine, &options, SLUICE_OUT_OF_RANGE,
                   "draft_limit is 1, but the engine was opened for at most 0 drafts");
    options = good;
    options.log_probability_count = 21;
    expect_refused(engine, &options, SLUICE_OUT_OF_RANGE, "log-probabilities");
    options = good;
    options.stop_tokens = &(int32_t){4096};
    options.stop_token_count = 1;
    expect_refused(engine, &options, SLUICE_OUT_OF_RANGE, "stop token 4096");
    tokens[0] = 4096; /* G-18 */
    expect_refused(engine, &good, SLUICE_OUT_OF_RANGE, "index 0");
    sluice_engine_close(&engine);
}

static void test_deadline(void **state) {
    struct request_fixture *fixture = *state;
    struct sluice_engine *engine = open_engine(0, false, 1, 512);
    struct sluice_request_options options = sluice_request_options_default();
    struct sluice_request *request;
    options.prompt = fixture->requests[0].prompt;
    options.prompt_count = fixture->requests[0].prompt_count;
    options.timeout_seconds = 1e-6;
    EXPECT_OK(sluice_engine_submit(engine, &options, &request));
    struct sluice_request_state end = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
    assert_int_equal(end.finish_reason, SLUICE_FINISH_DEADLINE);
    sluice_request_release(&request);
    sluice_engine_close(&engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_any_company),
        cmocka_unit_test(test_under_memory_pressure),
        cmocka_unit_test(test_cached_prompts),
        cmocka_unit_test(test_cancelled_among_others),
        cmocka_unit_test(test_constraints_hold_with_drafts),
        cmocka_unit_test(test_ends_inside_accepted_drafts),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_deadline),
    };
    return cmocka_run_group_tests(tests, request_fixture_set_up, request_fixture_tear_down);
}
