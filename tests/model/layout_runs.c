/* One fixture: the answers of one rank in both numerics. */
#include "model/layout_runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/model_fixture.h"
#include "weights/fixture.h"

enum { REQUESTS = TESTS_ARE_SHORT ? 5 : 7, PROMPT_MAX = 140, ANSWER = 12, TOP = 3, SEQUENCES = 4 };

/* One token, ends of blocks of 4 and of 128, and lengths between; the last ones unless tests are short. */
static const int prompt_lengths[] = {1, 3, 4, 33, 128, 127, PROMPT_MAX};

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
        (struct sluice_parallel_options){.data = layout->data,
                                         .pipeline = layout->pipeline,
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

const char *layout_directory(const void *state) {
    const struct fixture *fixture = state;
    return fixture->directory;
}

int layout_set_up(void **state) {
    static const struct layout one_rank = {1, 1, true, 0, 64, false, OFF, AGRS, CUT, EARLY, 0, 0, NULL, 0, 1};
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

int layout_tear_down(void **state) {
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
            fail_msg("numerics %d, dp %d, pp %d, %d ticks, layers %s, tp %d, ep %d, %d drafts, sp %d, "
                     "exchange %d, "
                     "shared %d, gather %d, moving %d: "
                     "request %d differs from one rank's",
                     numerics, layout->data, layout->pipeline, layout->in_flight,
                     layout->partition == NULL ? "by cost" : layout->partition, layout->tensor,
                     layout->has_expert_parallelism, layout->drafts, layout->rows, layout->exchange,
                     layout->shared, layout->gather, layout->moving, i);
        }
    }
}

void layout_expect_same(const void *state, const struct layout *layouts, size_t count) {
    const struct fixture *fixture = state;
    for (size_t i = 0; i < count; i++) {
        for (int numerics = TESTS_ARE_SHORT ? NUMERICS_COUNT - 1 : 0; numerics < NUMERICS_COUNT; numerics++) {
            expect_same(fixture, numerics, &layouts[i]);
        }
    }
}
