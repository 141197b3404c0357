/*
 * Faults that users of other engines met with schedulers and prefix caches, on mini-v4, whose window is 64
 * and whose pages have 128 positions: what is shared, pushed out or given up changes no text, and what is
 * cached is used. Clients that leave are the server's; here is what the engine does for them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/scheduler_internal.h"
#include "support/mini_fixture.h"
#include "support/model_fixture.h"
#include "support/round_driver.h"
#include "weights/fixture.h"

enum { TEXT = 2000, CONTEXT = 1024, WINDOW = 64, PAGE = 128 };

static int32_t text[TEXT];

static int set_up(void **state) {
    (void)state;
    mini_fill_text(text, TEXT);
    return 0;
}

static struct sluice_engine_options cached_options(void) {
    struct sluice_engine_options options = mini_engine_options(CONTEXT);
    options.has_prefix_cache = true;
    return options;
}

static void run_one(struct round_driver *driver, const struct sluice_request_options *request,
                    struct sequence *sequence) {
    round_driver_submit(driver, request, sequence);
    round_driver_finish(driver);
}

/* The same tokens, and the same log-probabilities: they show what greedy text hides. */
static void expect_same_text(const struct sequence *actual, const struct sequence *expected) {
    assert_int_equal(actual->finish_reason, SLUICE_FINISH_LENGTH);
    assert_int_equal(actual->token_count, expected->token_count);
    assert_memory_equal(actual->tokens, expected->tokens,
                        (size_t)expected->token_count * sizeof *expected->tokens);
    assert_int_equal(actual->rules.log_probability_count, expected->rules.log_probability_count);
    assert_memory_equal(actual->rules.log_probabilities, expected->rules.log_probabilities,
                        (size_t)((expected->token_count - expected->prompt_count) *
                                 (1 + expected->rules.log_probability_count)) *
                            sizeof *expected->rules.log_probabilities);
}

/*
 * B87: the same prompt again gave an empty answer, for the window was not restored: 5 windows, cold, three
 * times again, and once more after 50 other requests.
 */
static void test_same_prompt_again(void **state) {
    enum { OTHERS = TESTS_ARE_SHORT ? 12 : 50 };
    struct sluice_engine_options options = cached_options();
    struct sluice_request_options request = mini_request(text, 5 * WINDOW, 24);
    struct sequence cold, again;
    struct round_driver driver;
    (void)state;
    options.snapshot_limit = 2 * OTHERS;
    options.sequence_limit = 16; /* and pages for as many */
    options.draft.limit = 1;
    round_driver_open(&driver, &options);
    run_one(&driver, &request, &cold);
    assert_int_equal(cold.cached_prompt_tokens, 0);
    for (int i = 0; i < 4; i++) {
        for (int j = 0; i == 3 && j < OTHERS; j++) {
            struct sluice_request_options other = mini_request(text + 7 + 13 * j, 10 + 4 * (size_t)j, 3);
            struct sequence sequence;
            run_one(&driver, &other, &sequence);
            sequence_deinit(&sequence);
        }
        run_one(&driver, &request, &again);
        assert_int_equal(again.cached_prompt_tokens, (5 * WINDOW - 1) / PAGE * PAGE);
        expect_same_text(&again, &cold);
        sequence_deinit(&again);
    }
    sequence_deinit(&cold);
    round_driver_close(&driver);
}

/*
 * B89: cache and drafts together lost accuracy, each alone did not: prompts with a common beginning, in all
 * four settings, twice each.
 */
static void test_cache_and_drafts_together(void **state) {
    enum { PROMPTS = TESTS_ARE_SHORT ? 8 : 30, COMMON = PAGE + 20, OWN = 20, ANSWER = 12 };
    static struct sequence expected[PROMPTS], sequences[PROMPTS];
    (void)state;
    for (int setting = 0; setting < 4; setting++) {
        struct sluice_engine_options options = cached_options();
        struct round_driver driver;
        options.sequence_limit = 4;
        options.step_token_limit = 150;
        options.has_prefix_cache = setting % 2 == 1;
        options.draft.limit = setting / 2 * 2;
        round_driver_open(&driver, &options);
        for (int again = 0; again < 2; again++) {
            for (int i = 0; i < PROMPTS; i++) {
                int32_t prompt[COMMON + OWN];
                memcpy(prompt, text, COMMON * sizeof *prompt);
                memcpy(prompt + COMMON, text + COMMON + 31 * i, OWN * sizeof *prompt);
                struct sluice_request_options request =
                    mini_request(prompt, COMMON + 1 + (size_t)i % OWN, ANSWER);
                round_driver_submit(&driver, &request, &sequences[i]);
            }
            round_driver_finish(&driver);
            for (int i = 0; i < PROMPTS; i++) {
                if (setting == 0 && again == 0) {
                    expected[i] = sequences[i];
                } else {
                    expect_same_text(&sequences[i], &expected[i]);
                    sequence_deinit(&sequences[i]);
                }
            }
        }
        if (options.has_prefix_cache) {
            assert_true(scheduler_gauges(driver.work.scheduler).cached_prompt_tokens >=
                        (2 * PROMPTS - options.sequence_limit) * PAGE);
        }
        round_driver_close(&driver);
    }
    for (int i = 0; i < PROMPTS; i++) {
        sequence_deinit(&expected[i]);
    }
}

/*
 * B91: pushed out one token past a block, read again, its new token was dropped: pushed out around the ends
 * of pages, with and without a cache that keeps its beginning, with and without drafts.
 */
static void test_pushed_out_at_page_ends(void **state) {
    static const int32_t lengths[] = {PAGE - 1, PAGE, PAGE + 1, 2 * PAGE - 1, 2 * PAGE, 2 * PAGE + 1};
    struct sluice_request_options request = mini_request(text, PAGE - 20, PAGE + 40);
    struct sequence expected, sequence;
    (void)state;
    for (int setting = 0; setting < 4; setting += TESTS_ARE_SHORT ? 3 : 1) {
        struct sluice_engine_options options = cached_options();
        struct round_driver driver;
        options.has_prefix_cache = setting % 2 == 1;
        options.draft.limit = setting / 2 * 2;
        round_driver_open(&driver, &options);
        if (setting == 0) {
            run_one(&driver, &request, &expected);
        }
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            request.skips_prefix_cache = i % 2 == 1;
            round_driver_submit(&driver, &request, &sequence);
            while (round_driver_run(&driver)) {
                if (sequence.phase == SEQUENCE_RUNNING && sequence.token_count >= lengths[i] &&
                    sequence.preemptions == 0) {
                    scheduler_preempt(driver.work.scheduler, &sequence);
                }
            }
            assert_int_equal(sequence.preemptions, 1);
            expect_same_text(&sequence, &expected);
            sequence_deinit(&sequence);
        }
        round_driver_close(&driver);
    }
    sequence_deinit(&expected);
}

/*
 * B93: a client left and its request ran on to its limit: given up while it waits, in the second of five
 * chunks of its prompt and while it answers, it ends with the next step, and all its pages are there again.
 */
static void test_given_up_in_each_phase(void **state) {
    (void)state;
    for (int phase = 0; phase < 3; phase++) {
        struct sluice_engine_options options = mini_engine_options(CONTEXT);
        struct sluice_request_options request = mini_request(text, 5 * WINDOW, CONTEXT - 5 * WINDOW);
        struct sequence running, sequence;
        struct round_driver driver;
        options.step_token_limit = WINDOW;
        options.draft.limit = 2;
        round_driver_open(&driver, &options);
        if (phase == 0) {
            round_driver_submit(&driver, &request, &running);
        }
        round_driver_submit(&driver, &request, &sequence);
        for (int round = 0; round < (phase == 2 ? 8 : 2); round++) {
            assert_true(round_driver_run(&driver));
        }
        assert_int_equal(sequence.phase, phase == 0 ? SEQUENCE_WAITING : SEQUENCE_RUNNING);
        assert_true(phase != 1 || sequence.computed == 2 * WINDOW);
        assert_true(phase != 2 || sequence.token_count > sequence.prompt_count);
        sequence.is_cancelled = true;
        assert_int_equal(round_driver_run(&driver), phase == 0);
        assert_int_equal(sequence.finish_reason, SLUICE_FINISH_CANCELLED);
        if (phase == 0) {
            running.is_cancelled = true;
            assert_false(round_driver_run(&driver));
            sequence_deinit(&running);
        }
        round_driver_expect_idle(&driver);
        assert_int_equal(driver.work.pages.free_count, driver.work.pages.page_count);
        sequence_deinit(&sequence);
        round_driver_close(&driver);
    }
}

/*
 * B95: a prompt that grows by 30 tokens each time was read as a whole, or from the same place every time:
 * what is run is the new part, and a window and a page at most.
 */
static void test_growing_prompt(void **state) {
    struct sluice_engine_options options = cached_options();
    struct round_driver driver;
    (void)state;
    round_driver_open(&driver, &options);
    for (int i = 0; i < 12; i++) {
        struct sluice_request_options request = mini_request(text, 400 + 30 * (size_t)i, 1);
        struct sequence sequence;
        run_one(&driver, &request, &sequence);
        if (i > 0) {
            assert_in_range(sequence.prompt_count - sequence.cached_prompt_tokens, 1, 30 + WINDOW + PAGE);
        }
        sequence_deinit(&sequence);
    }
    round_driver_close(&driver);
}

/* B97: two conversations that took turns wiped each other's cache though most pages were free. */
static void test_conversations_that_alternate(void **state) {
    enum { TURNS = 3, QUESTION = 70, ANSWER = 20, LENGTH = TURNS * (QUESTION + ANSWER) };
    struct sluice_engine_options options = cached_options();
    int32_t said[2][LENGTH];
    int32_t lengths[2] = {0};
    struct round_driver driver;
    (void)state;
    options.sequence_limit = 8;
    round_driver_open(&driver, &options);
    assert_true(driver.work.pages.page_count >= 10 * 2 * (LENGTH / PAGE + 1));
    for (int turn = 0; turn < 2 * TURNS; turn++) {
        int who = turn % 2;
        struct sequence sequence;
        memcpy(said[who] + lengths[who], text + 211 * turn, QUESTION * sizeof *text);
        struct sluice_request_options request =
            mini_request(said[who], (size_t)lengths[who] + QUESTION, ANSWER);
        run_one(&driver, &request, &sequence);
        /* All full pages of what was run before; an answer's last token has not run. */
        int32_t known = lengths[who] == 0 ? 0 : (lengths[who] - 1) / PAGE * PAGE;
        assert_int_equal(sequence.cached_prompt_tokens, known);
        lengths[who] = sequence.token_count;
        memcpy(said[who], sequence.tokens, (size_t)lengths[who] * sizeof *text);
        sequence_deinit(&sequence);
    }
    assert_int_equal(prefix_cache_counters(driver.work.prefixes).evicted_pages, 0);
    round_driver_close(&driver);
}

/* B102: at idle, pages that are free and pages that are cached are all pages; without the cache, all are
 * free. */
static void test_nothing_lost_at_idle(void **state) {
    enum { REQUESTS = TESTS_ARE_SHORT ? 40 : 200 };
    static struct sequence sequences[REQUESTS];
    struct sluice_engine_options options = cached_options();
    struct round_driver driver;
    uint64_t random = 102;
    (void)state;
    options.sequence_limit = 6;
    options.draft.limit = 1;
    round_driver_open(&driver, &options);
    for (int i = 0; i < REQUESTS; i++) {
        struct sluice_request_options request =
            mini_request(text + model_next_random(&random) % 4 * 50, 1 + model_next_random(&random) % 300,
                         1 + (int64_t)(model_next_random(&random) % 20));
        round_driver_submit(&driver, &request, &sequences[i]);
    }
    while (round_driver_run(&driver)) {
        sequences[model_next_random(&random) % REQUESTS].is_cancelled = model_next_random(&random) % 2 == 0;
    }
    assert_int_equal(driver.finished, REQUESTS);
    round_driver_expect_idle(&driver);
    assert_true(driver.work.pages.free_count < driver.work.pages.page_count);
    prefix_cache_clear(driver.work.prefixes);
    assert_int_equal(driver.work.pages.free_count, driver.work.pages.page_count);
    for (int i = 0; i < REQUESTS; i++) {
        sequence_deinit(&sequences[i]);
    }
    round_driver_close(&driver);
}

/* A chunk that started at 32768 failed: any start works, and the last logits are those of other chunks. */
static void expect_same_in_chunks(const char *directory, const int32_t *prompt, int32_t count, int chunk) {
    struct sluice_engine_options options = model_options(directory);
    struct sluice_request_options request = mini_request(prompt, (size_t)count, 2);
    struct sequence sequences[2];
    options.numerics = SLUICE_NUMERICS_NATIVE;
    options.thread_count = 2;
    options.context_tokens = count + 4;
    request.log_probability_count = 20;
    for (int i = 0; i < 2; i++) {
        struct round_driver driver;
        options.step_token_limit = i == 0 ? chunk : chunk * 5 / 3;
        round_driver_open(&driver, &options);
        run_one(&driver, &request, &sequences[i]);
        round_driver_close(&driver);
    }
    expect_same_text(&sequences[1], &sequences[0]);
    sequence_deinit(&sequences[0]);
    sequence_deinit(&sequences[1]);
}

/* B99: a chunk that started at 32768 failed. */
static void test_chunks_start_anywhere(void **state) {
    enum { LONG = TESTS_ARE_SHORT ? 3000 : 40000 };
    static const struct config_change one_layer[] = {
        {"num_hidden_layers", "1"},        {"compress_ratios", "[4, 0]"}, {"num_hash_layers", "0"},
        {"num_nextn_predict_layers", "1"}, {"index_n_heads", "4"},
    };
    static int32_t tokens[LONG];
    char directory[FIXTURE_PATH_BYTES];
    (void)state;
    expect_same_in_chunks(SLUICE_SOURCE_DIR "/models/mini-v4", text, 460, 64);
    fixture_make(directory);
    model_synthesise(directory, TINY_CONFIG, one_layer, sizeof one_layer / sizeof one_layer[0]);
    model_random_tokens(99, TINY_VOCABULARY, tokens, LONG);
    expect_same_in_chunks(directory, tokens, LONG, LONG < 8192 ? 512 : 8192);
    fixture_remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_prompt_again),       cmocka_unit_test(test_cache_and_drafts_together),
        cmocka_unit_test(test_pushed_out_at_page_ends), cmocka_unit_test(test_given_up_in_each_phase),
        cmocka_unit_test(test_growing_prompt),          cmocka_unit_test(test_conversations_that_alternate),
        cmocka_unit_test(test_nothing_lost_at_idle),    cmocka_unit_test(test_chunks_start_anywhere),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
