/*
 * The same bits on every layout (spec parallelism 6.1 L0 and L1, S-22, T-8): requests on layout-v4 over
 * pipeline stages, tensor ranks that share rows or not, whole or cut experts, ways to reach them, and drafts
 * give what one rank gives, token by token and, by their log-probabilities, logit by logit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sluice/request.h"
#include "support/model_fixture.h"
#include "weights/fixture.h"

enum { REQUESTS = 7, PROMPT_MAX = 140, ANSWER = 12, TOP = 3, SEQUENCES = 4 };

/* Ends of blocks of 4 and of 128, one token, and lengths between. */
static const int prompt_lengths[REQUESTS] = {1, 3, 4, 33, 127, 128, PROMPT_MAX};

struct answer {
    int32_t tokens[ANSWER];
    struct sluice_log_probability chosen[ANSWER];
    struct sluice_log_probability top[ANSWER][TOP];
};

struct fixture {
    char directory[FIXTURE_PATH_BYTES];
    int32_t prompts[REQUESTS][PROMPT_MAX];
    struct answer alone[NUMERICS_COUNT][REQUESTS];
};

struct layout {
    int pipeline;
    int tensor;
    bool has_expert_parallelism;
    int drafts;
    int step_tokens;
    bool has_cache;
    int rows;     /* enum sluice_row_sharing */
    int exchange; /* enum sluice_expert_exchange */
    int shared;   /* enum sluice_shared_experts */
    int gather;   /* enum sluice_row_gather */
    int rows_min;
    int in_flight;
    const char *partition; /* NULL: by cost */
    int moving;            /* experts move: 1, and how many copies there are besides; 0: they stay */
};

/* Names for the tables below. */
enum {
    ON = SLUICE_ROW_SHARING_ON,
    OFF = SLUICE_ROW_SHARING_OFF,
    AUTO = SLUICE_ROW_SHARING_AUTO,
    AGRS = SLUICE_EXPERT_EXCHANGE_GATHER,
    A2A = SLUICE_EXPERT_EXCHANGE_DISPATCH,
    CUT = SLUICE_SHARED_EXPERTS_CUT,
    WHOLE = SLUICE_SHARED_EXPERTS_WHOLE,
    EARLY = SLUICE_ROW_GATHER_EARLY,
    LATE = SLUICE_ROW_GATHER_LATE,
};

static struct sluice_engine *open_engine(const struct fixture *fixture, int numerics,
                                         const struct layout *layout) {
    struct sluice_engine_options options = sluice_engine_options_default();
    struct sluice_engine *engine;
    options.model_directory = fixture->directory;
    options.numerics = (enum sluice_numerics)numerics;
    options.thread_count = 2;
    options.context_tokens = 256;
    options.sequence_limit = SEQUENCES;
    options.step_token_limit = layout->step_tokens;
    options.has_prefix_cache = layout->has_cache;
    options.draft.limit = layout->drafts;
    options.draft.is_adaptive = false;
    options.parallel =
        (struct sluice_parallel_options){.pipeline = layout->pipeline,
                                         .tensor = layout->tensor,
                                         .has_expert_parallelism = layout->has_expert_parallelism,
                                         .row_sharing = (enum sluice_row_sharing)layout->rows,
                                         .shared_rows_min = layout->rows_min,
                                         .row_gather = (enum sluice_row_gather)layout->gather,
                                         .expert_exchange = (enum sluice_expert_exchange)layout->exchange,
                                         .shared_experts = (enum sluice_shared_experts)layout->shared,
                                         .in_flight = layout->in_flight,
                                         .has_movable_experts = layout->moving > 0,
                                         .expert_copies = layout->moving > 0 ? layout->moving - 1 : 0,
                                         .expert_move_interval = 2};
    if (layout->partition != NULL) {
        snprintf(options.parallel.layer_partition, SLUICE_LAYER_PARTITION_BYTES, "%s", layout->partition);
    }
    EXPECT_OK(sluice_engine_open(&options, &engine));
    return engine;
}

static void run(const struct fixture *fixture, struct sluice_engine *engine, struct answer *answers) {
    struct sluice_request *requests[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        struct sluice_request_options options = sluice_request_options_default();
        options.prompt = fixture->prompts[i];
        options.prompt_count = (size_t)prompt_lengths[i];
        options.token_limit = ANSWER;
        options.sampling.temperature = i % 2 == 0 ? 0.0 : 0.8;
        options.sampling.seed = (uint64_t)i;
        options.log_probability_count = TOP;
        EXPECT_OK(sluice_engine_submit(engine, &options, &requests[i]));
    }
    for (int i = 0; i < REQUESTS; i++) {
        struct sluice_request_state end = sluice_request_wait(requests[i], SIZE_MAX, SIZE_MAX, -1.0);
        if (end.finish_reason != SLUICE_FINISH_LENGTH) {
            fail_msg("request %d ended early: %s", i, end.message);
        }
        for (size_t t = 0; t < ANSWER; t++) {
            answers[i].tokens[t] = sluice_request_token(requests[i], t);
            EXPECT_OK(
                sluice_request_log_probabilities(requests[i], t, &answers[i].chosen[t], answers[i].top[t]));
        }
        sluice_request_release(&requests[i]);
    }
}

static int set_up(void **state) {
    static const struct layout one_rank = {1, 1, true, 0, 64, false, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0};
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture_make(fixture->directory);
    model_synthesise(fixture->directory, LAYOUT_CONFIG, NULL, 0);
    for (int i = 0; i < REQUESTS; i++) {
        model_random_tokens(7, 512, fixture->prompts[i], PROMPT_MAX);
    }
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct sluice_engine *engine = open_engine(fixture, numerics, &one_rank);
        run(fixture, engine, fixture->alone[numerics]);
        sluice_engine_close(&engine);
    }
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    fixture_remove(fixture->directory);
    free(fixture);
    return 0;
}

static void expect_same(const struct fixture *fixture, int numerics, const struct layout *layout) {
    static struct answer answers[REQUESTS];
    struct sluice_engine *engine = open_engine(fixture, numerics, layout);
    run(fixture, engine, answers);
    sluice_engine_close(&engine);
    for (int i = 0; i < REQUESTS; i++) {
        if (memcmp(&answers[i], &fixture->alone[numerics][i], sizeof answers[i]) != 0) {
            fail_msg("numerics %d, pp %d, %d ticks, layers %s, tp %d, ep %d, %d drafts, sp %d, exchange %d, "
                     "shared %d, gather %d, moving %d: "
                     "request %d differs from one rank's",
                     numerics, layout->pipeline, layout->in_flight,
                     layout->partition == NULL ? "by cost" : layout->partition, layout->tensor,
                     layout->has_expert_parallelism, layout->drafts, layout->rows, layout->exchange,
                     layout->shared, layout->gather, layout->moving, i);
        }
    }
}

static void run_layouts(const struct fixture *fixture, const struct layout *layouts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (int numerics = TESTS_ARE_SHORT ? NUMERICS_COUNT - 1 : 0; numerics < NUMERICS_COUNT; numerics++) {
            expect_same(fixture, numerics, &layouts[i]);
        }
    }
}

static void test_tensor_ranks(void **state) {
    static const struct layout layouts[] = {
        {1, 2, true, 0, 64, false, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0},
        {1, 2, false, 0, 64, false, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0},
        {1, 4, true, 0, 5, true, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0},
        {1, 4, false, 0, 64, false, OFF, AGRS, WHOLE, EARLY, 0, 0, NULL, 0}};
    run_layouts(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

static void test_stages(void **state) {
    static const struct layout layouts[] = {{2, 1, true, 0, 64, false, ON, AGRS, CUT, EARLY, 0, 0, NULL, 0},
                                            {3, 1, true, 0, 7, true, ON, AGRS, CUT, EARLY, 0, 0, NULL, 0},
                                            {8, 1, true, 0, 64, false, ON, AGRS, CUT, EARLY, 0, 0, NULL, 0}};
    run_layouts(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

/* P-1, P-25: any cut, a last stage without layers too, and fewer or more ticks under way than stages. */
static void test_cuts_and_ticks(void **state) {
    static const struct layout layouts[] = {
        {2, 1, true, 0, 16, false, OFF, AGRS, CUT, EARLY, 0, 1, "4,4", 0},
        {2, 1, true, 1, 5, true, OFF, AGRS, CUT, EARLY, 0, 3, "8,0", 0},
        {2, 2, true, 3, 9, true, ON, AGRS, CUT, LATE, 0, 4, "8,0", 0},
        {3, 1, true, 2, 33, true, OFF, AGRS, CUT, EARLY, 0, 2, "1,1,6", 0},
        {3, 1, true, 0, 4, true, OFF, AGRS, CUT, EARLY, 0, 6, "6,1,1", 0},
        {1, 1, true, 2, 7, true, OFF, AGRS, CUT, EARLY, 0, 3, NULL, 0}};
    run_layouts(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

static void test_drafts_on_ranks(void **state) {
    static const struct layout layouts[] = {{1, 2, true, 1, 64, true, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0},
                                            {2, 1, true, 2, 64, true, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0},
                                            {2, 2, false, 3, 9, false, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0},
                                            {3, 2, true, 3, 64, true, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0}};
    run_layouts(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

/* Every step, those of one row too, where most ranks then have none (S-8, T-2). */
static void test_shared_rows(void **state) {
    static const struct layout layouts[] = {{1, 2, true, 0, 64, false, ON, AGRS, CUT, EARLY, 0, 0, NULL, 0},
                                            {1, 2, false, 0, 9, true, ON, AGRS, WHOLE, LATE, 0, 0, NULL, 0},
                                            {1, 2, true, 0, 7, true, ON, A2A, WHOLE, LATE, 0, 0, NULL, 0},
                                            {1, 4, true, 0, 64, false, ON, A2A, CUT, LATE, 0, 0, NULL, 0},
                                            {1, 4, true, 0, 5, true, ON, AGRS, WHOLE, EARLY, 0, 0, NULL, 0},
                                            {1, 4, false, 0, 64, false, ON, A2A, CUT, EARLY, 0, 0, NULL, 0}};
    run_layouts(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

/* The switch is per step: prompts share their rows, answers do not (S-25, S-28). */
static void test_switch_by_rows(void **state) {
    static const struct layout layouts[] = {{1, 2, true, 0, 64, true, AUTO, AGRS, CUT, LATE, 0, 0, NULL, 0},
                                            {1, 4, true, 2, 64, true, AUTO, A2A, WHOLE, LATE, 0, 0, NULL, 0},
                                            {2, 2, true, 3, 33, true, AUTO, A2A, CUT, EARLY, 3, 0, NULL, 0}};
    run_layouts(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

/* S-22, S-24: over stages and with drafts, whose rows stay with their sources. */
static void test_shared_rows_on_stages(void **state) {
    static const struct layout layouts[] = {{2, 2, true, 0, 64, false, ON, A2A, CUT, LATE, 0, 0, NULL, 0},
                                            {3, 4, true, 0, 11, true, ON, AGRS, WHOLE, LATE, 0, 0, NULL, 0},
                                            {1, 2, true, 1, 64, true, ON, A2A, CUT, LATE, 0, 0, NULL, 0},
                                            {1, 4, false, 2, 9, false, ON, AGRS, CUT, EARLY, 0, 0, NULL, 0},
                                            {2, 2, false, 3, 9, true, ON, AGRS, WHOLE, LATE, 0, 0, NULL, 0},
                                            {3, 2, true, 3, 64, true, ON, A2A, CUT, EARLY, 0, 0, NULL, 0}};
    run_layouts(*state, layouts, sizeof layouts / sizeof layouts[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensor_ranks),          cmocka_unit_test(test_stages),
        cmocka_unit_test(test_cuts_and_ticks),        cmocka_unit_test(test_drafts_on_ranks),
        cmocka_unit_test(test_shared_rows),           cmocka_unit_test(test_switch_by_rows),
        cmocka_unit_test(test_shared_rows_on_stages),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
