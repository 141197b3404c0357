/*
 * Log-probabilities of prompt tokens on layout-v4 with random weights.
 *
 * The reference is an own log-softmax over the logits that trace_logits gives, which is what
 * `sluice generate --prompt-logits` writes. After that the numbers of one quiet request are the reference of
 * all others: bit for bit, however the prompt is cut, whoever runs beside it, on any layout.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/scheduler_internal.h"
#include "sluice/request.h"
#include "support/checkpoint_edit.h"
#include "support/model_fixture.h"
#include "support/round_driver.h"
#include "tools/trace_logits.h"
#include "weights/fixture.h"

enum { VOCABULARY = 512, PROMPT = 301, CONTEXT = 512, TOP = 3, COMPANY = 5 };

struct score {
    struct sluice_log_probability chosen;
    struct sluice_log_probability top[TOP];
};

struct fixture {
    char directory[FIXTURE_PATH_BYTES];
    int32_t prompt[PROMPT];
    float logits[PROMPT][VOCABULARY];
    struct score quiet[PROMPT]; /* of token i; 0 unused */
};

static struct sluice_engine_options engine_options(const struct fixture *fixture) {
    struct sluice_engine_options options = model_options(fixture->directory);
    options.numerics = SLUICE_NUMERICS_NATIVE;
    options.thread_count = 2;
    options.context_tokens = CONTEXT;
    options.has_prefix_cache = true;
    return options;
}

static struct sluice_request_options request_options(const struct fixture *fixture) {
    struct sluice_request_options options = sluice_request_options_default();
    options.prompt = fixture->prompt;
    options.prompt_count = PROMPT;
    options.token_limit = 1;
    options.prompt_log_probability_count = TOP;
    return options;
}

static struct sluice_request *submit(struct sluice_engine *engine,
                                     const struct sluice_request_options *options) {
    struct sluice_request *request;
    EXPECT_OK(sluice_engine_submit(engine, options, &request));
    return request;
}

/* Waits for the end; the request must have scored its whole prompt. */
static void collect(struct sluice_request *request, struct score *scores) {
    struct sluice_request_state end = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
    if (end.finish_reason != SLUICE_FINISH_LENGTH) {
        fail_msg("the request ended early: %s", end.message);
    }
    memset(scores, 0, PROMPT * sizeof *scores);
    for (size_t i = 1; i < PROMPT; i++) {
        EXPECT_OK(sluice_request_prompt_log_probabilities(request, i, &scores[i].chosen, scores[i].top));
    }
    sluice_request_release(&request);
}

static void expect_same(const struct fixture *fixture, const struct score *scores, const char *what) {
    for (int i = 1; i < PROMPT; i++) {
        if (memcmp(&scores[i], &fixture->quiet[i], sizeof scores[i]) != 0) {
            fail_msg("%s: prompt token %d has log-probability %.17g, expected %.17g", what, i,
                     scores[i].chosen.log_probability, fixture->quiet[i].chosen.log_probability);
        }
    }
}

static enum status keep_row(void *context, int64_t position, bool is_draft, const float *logits) {
    struct fixture *fixture = context;
    assert_false(is_draft);
    memcpy(fixture->logits[position], logits, sizeof fixture->logits[position]);
    return STATUS_OK;
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture_make(fixture->directory);
    model_synthesise(fixture->directory, LAYOUT_CONFIG, NULL, 0);
    model_random_tokens(11, VOCABULARY, fixture->prompt, PROMPT);
    struct sluice_engine_options options = engine_options(fixture);
    struct engine_core *core = model_open(&options);
    EXPECT_OK(
        trace_logits(core, fixture->prompt, PROMPT, &(struct logits_sink){keep_row, fixture, false}, NULL));
    engine_core_close(&core);
    struct sluice_engine *engine;
    struct sluice_request_options request = request_options(fixture);
    EXPECT_OK(sluice_engine_open(&options, &engine));
    collect(submit(engine, &request), fixture->quiet);
    sluice_engine_close(&engine);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    fixture_remove(fixture->directory);
    free(fixture);
    return 0;
}

/* Numbers of tokens that go before this one: by logit, then by id. */
static int rank_of(const float *logits, int32_t token) {
    int rank = 0;
    for (int32_t v = 0; v < VOCABULARY; v++) {
        rank += logits[v] > logits[token] || (logits[v] == logits[token] && v < token);
    }
    return rank;
}

static void test_log_softmax_of_the_logits(void **state) {
    const struct fixture *fixture = *state;
    for (int i = 1; i < PROMPT; i++) {
        const float *logits = fixture->logits[i - 1];
        const struct score *score = &fixture->quiet[i];
        long double sum = 0.0L;
        for (int v = 0; v < VOCABULARY; v++) {
            sum += expl((long double)logits[v]);
        }
        assert_int_equal(score->chosen.token, fixture->prompt[i]);
        double expected = (double)((long double)logits[fixture->prompt[i]] - logl(sum));
        assert_true(fabs(score->chosen.log_probability - expected) < 1e-12 * (1.0 + fabs(expected)));
        for (int t = 0; t < TOP; t++) {
            int32_t token = score->top[t].token;
            assert_int_equal(rank_of(logits, token), t);
            expected = (double)((long double)logits[token] - logl(sum));
            assert_true(fabs(score->top[t].log_probability - expected) < 1e-12 * (1.0 + fabs(expected)));
        }
    }
}

/* Steps of one row, of odd numbers, of more than a block of the head; others read and answer beside it. */
static void test_any_chunks_and_company(void **state) {
    const struct fixture *fixture = *state;
    static const int step_tokens[] = {1, 6, 17, 64, 128, 512};
    static struct score scores[PROMPT];
    for (size_t i = 0; i < sizeof step_tokens / sizeof step_tokens[0]; i += TESTS_ARE_SHORT ? 2 : 1) {
        struct sluice_engine_options options = engine_options(fixture);
        struct sluice_request *company[COMPANY];
        struct sluice_engine *engine;
        options.step_token_limit = step_tokens[i];
        options.sequence_limit = step_tokens[i] < 1 + COMPANY ? 1 : 1 + COMPANY;
        options.draft.limit = (int)i % 3;
        options.draft.is_adaptive = false;
        EXPECT_OK(sluice_engine_open(&options, &engine));
        for (int j = 0; j < COMPANY; j++) {
            struct sluice_request_options other = request_options(fixture);
            other.prompt = fixture->prompt + 7 * j;
            other.prompt_count = 20;
            other.token_limit = 40;
            other.prompt_log_probability_count = j % 2 == 0 ? -1 : 0;
            company[j] = submit(engine, &other);
        }
        struct sluice_request_options request = request_options(fixture);
        collect(submit(engine, &request), scores);
        expect_same(fixture, scores, "in company");
        for (int j = 0; j < COMPANY; j++) {
            sluice_request_release(&company[j]);
        }
        sluice_engine_close(&engine);
    }
}

static void test_layouts(void **state) {
    const struct fixture *fixture = *state;
    static const struct sluice_parallel_options layouts[] = {
        {.pipeline = 2, .tensor = 1, .has_expert_parallelism = true},
        {.pipeline = 1, .tensor = 4, .has_expert_parallelism = true},
        {.pipeline = 2, .tensor = 2}};
    static struct score scores[PROMPT];
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        struct sluice_engine_options options = engine_options(fixture);
        struct sluice_engine *engine;
        struct sluice_request_options request = request_options(fixture);
        options.parallel = layouts[i];
        options.draft.limit = (int)i;
        options.step_token_limit = 100;
        EXPECT_OK(sluice_engine_open(&options, &engine));
        collect(submit(engine, &request), scores);
        expect_same(fixture, scores, "on ranks");
        sluice_engine_close(&engine);
    }
}

/* Nothing comes from the cache, which has all of it; and what the request leaves is there for the next. */
static void test_prefix_cache(void **state) {
    const struct fixture *fixture = *state;
    static struct score scores[PROMPT];
    struct sluice_engine_options options = engine_options(fixture);
    struct sluice_engine *engine;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    for (int round = 0; round < 2; round++) {
        struct sluice_request_options request = request_options(fixture);
        collect(submit(engine, &request), scores);
        expect_same(fixture, scores, "beside the prefix cache");
        assert_int_equal(sluice_engine_stats(engine).cached_prompt_tokens, 0);
    }
    struct sluice_request_options plain = request_options(fixture);
    plain.prompt_log_probability_count = -1;
    struct sluice_request *request = submit(engine, &plain);
    assert_int_equal(sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0).cached_prompt_tokens, 256);
    sluice_request_release(&request);
    sluice_engine_close(&engine);
}

/* Taken off in the middle of its prompt, and later in its answer: what is recorded stays as it is. */
static void test_preemption(void **state) {
    const struct fixture *fixture = *state;
    struct sluice_engine_options options = engine_options(fixture);
    struct round_driver driver;
    /* Tokens scored after each round: no step ends at the last page's end, and then answers are made. */
    static const int32_t scored_after[] = {1, 61, 121, 181, 241, PROMPT, PROMPT, PROMPT};
    options.step_token_limit = 60;
    options.draft.limit = 1;
    round_driver_open(&driver, &options);
    for (int rounds = 1; rounds < 8; rounds++) {
        struct sluice_request_options request = request_options(fixture);
        struct sequence sequence;
        request.token_limit = 5;
        round_driver_submit(&driver, &request, &sequence);
        for (int i = 0; i < rounds; i++) {
            assert_true(round_driver_run(&driver));
        }
        assert_int_equal(sequence.scored_count, scored_after[rounds]);
        scheduler_preempt(driver.work.scheduler, &sequence);
        /* Whoever reads it meanwhile must not see it written again. */
        sequence.rules.prompt_log_probabilities[0].token = -1;
        round_driver_finish(&driver);
        assert_int_equal(sequence.rules.prompt_log_probabilities[0].token, -1);
        sequence.rules.prompt_log_probabilities[0].token = fixture->prompt[1];
        assert_int_equal(sequence.scored_count, PROMPT);
        assert_int_equal(sequence.preemptions, 1);
        for (int i = 1; i < PROMPT; i++) {
            const struct sluice_log_probability *record =
                sequence.rules.prompt_log_probabilities + (i - 1) * (1 + TOP);
            assert_memory_equal(&record[0], &fixture->quiet[i].chosen, sizeof record[0]);
            assert_memory_equal(&record[1], fixture->quiet[i].top, sizeof fixture->quiet[i].top);
        }
        sequence_deinit(&sequence);
    }
    round_driver_close(&driver);
}

/* A prompt without probabilities ends its request in the step that finds out, not at the prompt's end. */
static void test_logits_not_finite(void **state) {
    const struct fixture *fixture = *state;
    static const unsigned char nan_bf16[2] = {0xC0, 0x7F};
    const struct checkpoint_patch patch = {"norm.weight", 0, nan_bf16, sizeof nan_bf16};
    char directory[FIXTURE_PATH_BYTES];
    fixture_make(directory);
    checkpoint_copy_edited(fixture->directory, directory,
                           &(struct checkpoint_edit){.patches = &patch, .patch_count = 1});
    struct sluice_engine_options options = engine_options(fixture);
    struct sluice_request_options request = request_options(fixture);
    struct sluice_engine *engine;
    options.model_directory = directory;
    options.step_token_limit = 50;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    struct sluice_request *scored = submit(engine, &request);
    struct sluice_request_state end = sluice_request_wait(scored, SIZE_MAX, SIZE_MAX, -1.0);
    assert_int_equal(end.finish_reason, SLUICE_FINISH_ERROR);
    assert_int_equal(end.status, SLUICE_NOT_FINITE);
    assert_non_null(strstr(end.message, "output head"));
    assert_int_equal(sluice_engine_stats(engine).steps, 1);
    sluice_request_release(&scored);
    sluice_engine_close(&engine);
    fixture_remove(directory);
}

static void test_what_is_refused(void **state) {
    const struct fixture *fixture = *state;
    struct sluice_engine_options options = engine_options(fixture);
    struct sluice_request_options request = request_options(fixture);
    struct sluice_log_probability chosen;
    struct sluice_engine *engine;
    struct sluice_request *scored;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    request.prompt_log_probability_count = 21;
    assert_int_equal(sluice_engine_submit(engine, &request, &scored), SLUICE_OUT_OF_RANGE);
    assert_non_null(strstr(sluice_last_error(), "prompt token"));
    for (int count = -1; count <= 0; count++) {
        request.prompt_log_probability_count = count;
        scored = submit(engine, &request);
        sluice_request_wait(scored, SIZE_MAX, SIZE_MAX, -1.0);
        for (size_t index = 0; index <= PROMPT; index += PROMPT) {
            assert_int_equal(sluice_request_prompt_log_probabilities(scored, index, &chosen, NULL),
                             SLUICE_BAD_ARGUMENT);
        }
        assert_int_equal(sluice_request_prompt_log_probabilities(scored, 1, &chosen, NULL),
                         count < 0 ? SLUICE_BAD_ARGUMENT : SLUICE_OK);
        sluice_request_release(&scored);
    }
    sluice_engine_close(&engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_softmax_of_the_logits),
        cmocka_unit_test(test_any_chunks_and_company),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_prefix_cache),
        cmocka_unit_test(test_preemption),
        cmocka_unit_test(test_logits_not_finite),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
