/*
 * Schedules at random on a small model with the real executor: whatever arrives when, is cut how, is pushed
 * out, given up, drafted or shared, each request gets the tokens and the log-probabilities that it gets
 * alone, bit for bit. Thousands of schedules run on the model on paper (tests/engine/test_scheduler).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/scheduler_internal.h"
#include "support/model_fixture.h"
#include "support/round_driver.h"
#include "weights/fixture.h"

enum {
    KINDS = 24, /* different requests */
    SCHEDULES = TESTS_ARE_SHORT ? 12 : 160,
    ENGINES = TESTS_ARE_SHORT ? 4 : 20, /* each runs its share of the schedules */
    REQUESTS_MAX = 8,
    STEM = 150,
    PROMPT_MAX = 170,
    ANSWER_MAX = 14,
    CONTEXT = PROMPT_MAX + ANSWER_MAX + 2,
    TOP = 2,
};

/* A request and what it gives alone. */
struct kind {
    int32_t prompt[PROMPT_MAX];
    struct sluice_request_options request;
    struct sequence alone;
};

struct fixture {
    char directory[FIXTURE_PATH_BYTES];
    struct kind kinds[KINDS];
    uint64_t random;
};

static int below(struct fixture *fixture, int limit) {
    return (int)((model_next_random(&fixture->random) >> 20) % (uint64_t)limit);
}

/* Prompts of all lengths, most of them with one of two beginnings; every sampling rule somewhere. */
static void plan_kinds(struct fixture *fixture) {
    for (int i = 0; i < KINDS; i++) {
        struct kind *kind = &fixture->kinds[i];
        int stem = below(fixture, 2) * below(fixture, STEM);
        int own = 1 + below(fixture, PROMPT_MAX - stem);
        model_random_tokens((uint64_t)below(fixture, 2), TINY_VOCABULARY, kind->prompt, stem);
        model_random_tokens(100 + (uint64_t)i, TINY_VOCABULARY, kind->prompt + stem, own);
        kind->request = sluice_request_options_default();
        kind->request.prompt = kind->prompt;
        kind->request.prompt_count = (size_t)(stem + own);
        kind->request.token_limit = 1 + below(fixture, ANSWER_MAX);
        kind->request.log_probability_count = TOP;
        kind->request.sampling.seed = (uint64_t)i;
        kind->request.sampling.temperature = below(fixture, 2) * 0.9;
        kind->request.sampling.top_k = below(fixture, 3) == 0 ? 20 : 0;
        kind->request.sampling.presence_penalty = below(fixture, 3) == 0 ? 0.5 : 0.0;
        kind->request.sampling.repetition_penalty = below(fixture, 3) == 0 ? 1.3 : 1.0;
    }
}

static struct sluice_engine_options base_options(const struct fixture *fixture) {
    struct sluice_engine_options options = model_options(fixture->directory);
    options.numerics = SLUICE_NUMERICS_NATIVE;
    options.thread_count = 2;
    options.context_tokens = CONTEXT;
    return options;
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->random = 20261130;
    fixture_make(fixture->directory);
    model_synthesise(fixture->directory, TINY_CONFIG, NULL, 0);
    plan_kinds(fixture);
    struct sluice_engine_options options = base_options(fixture);
    struct round_driver driver;
    round_driver_open(&driver, &options);
    for (int i = 0; i < KINDS; i++) {
        round_driver_submit(&driver, &fixture->kinds[i].request, &fixture->kinds[i].alone);
        round_driver_finish(&driver);
    }
    round_driver_close(&driver);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    for (int i = 0; i < KINDS; i++) {
        sequence_deinit(&fixture->kinds[i].alone);
    }
    fixture_remove(fixture->directory);
    free(fixture);
    return 0;
}

/* What became of the schedules, so that a generator that avoids the hard cases is noticed. */
struct tally {
    int64_t preemptions;
    int64_t cached_tokens;
    int64_t accepted_drafts;
    int finished;
    int cancelled;
};

/* As much as was generated is what comes alone; all of it unless the request was given up. */
static void check_result(const struct fixture *fixture, const struct sequence *sequence, int kind,
                         struct tally *tally) {
    const struct sequence *alone = &fixture->kinds[kind].alone;
    int32_t count = sequence->token_count - sequence->prompt_count;
    bool is_cancelled = sequence->finish_reason == SLUICE_FINISH_CANCELLED;
    assert_true(is_cancelled || sequence->finish_reason == alone->finish_reason);
    assert_true(is_cancelled || sequence->token_count == alone->token_count);
    assert_memory_equal(sequence->tokens, alone->tokens, (size_t)sequence->token_count * sizeof(int32_t));
    assert_memory_equal(sequence->rules.log_probabilities, alone->rules.log_probabilities,
                        (size_t)(count * (1 + TOP)) * sizeof(struct sluice_log_probability));
    tally->cancelled += is_cancelled;
    tally->finished += !is_cancelled;
    tally->preemptions += sequence->preemptions;
    tally->accepted_drafts += sequence->accepted_drafts;
    tally->cached_tokens += sequence->cached_prompt_tokens;
}

/* Puts right drafts into some sequences: a model of random weights hardly ever drafts what comes. */
static void force_some_drafts(struct fixture *fixture, const struct round_driver *driver,
                              struct sequence *sequences, const int *kinds, int count) {
    for (int i = 0; i < count && driver->bounds.draft_limit > 0; i++) {
        const struct sequence *alone = &fixture->kinds[kinds[i]].alone;
        if (below(fixture, 2) == 0) {
            round_driver_force_drafts(driver, &sequences[i], alone->tokens + alone->prompt_count,
                                      below(fixture, driver->bounds.draft_limit + 1),
                                      driver->bounds.draft_limit);
        }
    }
}

/* Takes a running request off now and then, at other moments than a lack of pages does. */
static void push_out_one(struct fixture *fixture, struct round_driver *driver) {
    struct sequence *first = scheduler_first(driver->work.scheduler, false);
    if (first != NULL && below(fixture, 20) == 0) {
        scheduler_preempt(driver->work.scheduler, first);
    }
}

static void run_schedule(struct fixture *fixture, struct round_driver *driver, struct tally *tally) {
    static struct sequence sequences[REQUESTS_MAX];
    int kinds[REQUESTS_MAX];
    int count = 1 + below(fixture, REQUESTS_MAX);
    int cancel_one_in = 4 + below(fixture, 40);
    bool skips_cache = below(fixture, 4) == 0;
    int submitted = 0;
    driver->finished = 0;
    while (driver->finished < count) {
        while (submitted < count && below(fixture, 3) > 0) {
            kinds[submitted] = below(fixture, KINDS);
            struct sluice_request_options request = fixture->kinds[kinds[submitted]].request;
            request.priority = below(fixture, 2);
            request.skips_prefix_cache = skips_cache;
            round_driver_submit(driver, &request, &sequences[submitted++]);
        }
        if (submitted > 0 && below(fixture, cancel_one_in) == 0) {
            sequences[below(fixture, submitted)].is_cancelled = true;
        }
        force_some_drafts(fixture, driver, sequences, kinds, submitted);
        round_driver_run(driver);
        push_out_one(fixture, driver);
    }
    round_driver_expect_idle(driver);
    for (int i = 0; i < count; i++) {
        check_result(fixture, &sequences[i], kinds[i], tally);
        sequence_deinit(&sequences[i]);
    }
}

/* An engine drawn at random; every second one has pages for one or two requests. */
static void open_random_engine(struct fixture *fixture, int number, struct round_driver *driver) {
    struct sluice_engine_options options = base_options(fixture);
    options.sequence_limit = 1 + below(fixture, 6);
    options.step_token_limit = options.sequence_limit + below(fixture, number % 3 == 0 ? 300 : 40);
    options.has_prefix_cache = below(fixture, 3) > 0;
    options.snapshot_limit = 1 + below(fixture, 8);
    options.draft.limit = number % 4;
    options.draft.is_adaptive = number % 8 == 3; /* measures at start, which takes time */
    if (number % 2 == 1) {
        struct engine_core *core;
        EXPECT_OK(engine_core_open(&options, &core));
        const struct sluice_memory_ledger *memory = &core->facts.memory;
        size_t page_bytes = memory->page_state_bytes / (size_t)memory->page_count;
        options.memory_limit_bytes = memory->copied_weight_bytes + memory->slot_state_bytes +
                                     memory->snapshot_bytes + memory->step_bytes + memory->host_bytes +
                                     (size_t)(3 + below(fixture, 2)) * page_bytes;
        engine_core_close(&core);
    }
    round_driver_open(driver, &options);
}

static void test_random_schedules(void **state) {
    struct fixture *fixture = *state;
    struct tally tally = {0};
    for (int i = 0; i < ENGINES; i++) {
        struct round_driver driver;
        open_random_engine(fixture, i, &driver);
        for (int schedule = 0; schedule < SCHEDULES / ENGINES; schedule++) {
            run_schedule(fixture, &driver, &tally);
        }
        round_driver_close(&driver);
    }
    /* Adaptive drafting follows the clock, so no run is the next one's twin: wide margins, many schedules. */
    if (!TESTS_ARE_SHORT) {
        assert_true(tally.finished > SCHEDULES);
        assert_true(tally.cancelled > SCHEDULES / 10);
        assert_true(tally.preemptions > SCHEDULES / 10);
        assert_true(tally.cached_tokens > 128 * 10);
        assert_true(tally.accepted_drafts > SCHEDULES);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_schedules),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
