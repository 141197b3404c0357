/*
 * The same bits alone and in company: several sequences in one step, in any order, in slots that others used.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/model_fixture.h"
#include "support/state_digest.h"
#include "weights/fixture.h"

enum { SEQUENCES = 6, LENGTH_MAX = TESTS_ARE_SHORT ? 40 : 150, SOLO_SLOT = SEQUENCES, ROWS_MAX = 512 };

/* One sequence, what it gives alone, and how far it is in a mixed run. */
struct token_run {
    int32_t length;
    int32_t slot;
    int32_t done;
    int32_t tokens[LENGTH_MAX];
    float logits[LENGTH_MAX][TINY_VOCABULARY];
    struct state_digest digest; /* at the end */
};

struct fixture {
    char directory[FIXTURE_PATH_BYTES];
    struct engine_core *engines[NUMERICS_COUNT];
    struct token_run sequences[SEQUENCES];
    float logits[ROWS_MAX][TINY_VOCABULARY];
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture_make(fixture->directory);
    model_synthesise(fixture->directory, TINY_CONFIG, NULL, 0);
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct sluice_engine_options options = model_options(fixture->directory);
        options.numerics = (enum sluice_numerics)numerics;
        options.sequence_limit = SEQUENCES + 1;
        options.thread_count = 2;
        fixture->engines[numerics] = model_open(&options);
    }
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        engine_core_close(&fixture->engines[numerics]);
    }
    fixture_remove(fixture->directory);
    free(fixture);
    return 0;
}

/* Makes sequence `index` of random tokens and runs it alone. */
static void make_sequence(struct fixture *fixture, struct engine_core *engine, int index, uint64_t seed,
                          int32_t length) {
    struct token_run *sequence = &fixture->sequences[index];
    *sequence = (struct token_run){.length = length};
    sequence->slot = index;
    model_random_tokens(seed * SEQUENCES + (uint64_t)index, TINY_VOCABULARY, sequence->tokens, length);
    model_run(engine, SOLO_SLOT, 0, sequence->tokens, length, sequence->logits[0]);
    state_digest_take(engine, SOLO_SLOT, length, &sequence->digest);
}

/* Runs counts[i] more tokens of sequence order[i], all in one step, and compares every row. */
static void run_step(struct fixture *fixture, struct engine_core *engine, const int *order,
                     const int32_t *counts) {
    struct step_segment segments[SEQUENCES];
    int32_t rows[ROWS_MAX];
    int32_t row_count = 0;
    int segment_count = 0;
    for (int i = 0; i < SEQUENCES; i++) {
        const struct token_run *sequence = &fixture->sequences[order[i]];
        if (counts[i] > 0) {
            segments[segment_count++] = (struct step_segment){sequence->slot, sequence->done, counts[i],
                                                              sequence->tokens + sequence->done};
        }
        for (int32_t k = 0; k < counts[i]; k++, row_count++) {
            rows[row_count] = row_count;
        }
    }
    struct step_plan plan = {.segments = segments,
                             .segment_count = segment_count,
                             .logit_rows = rows,
                             .logit_row_count = row_count};
    EXPECT_OK(executor_run(engine->executor, &plan, fixture->logits[0]));
    row_count = 0;
    for (int i = 0; i < SEQUENCES; i++) {
        struct token_run *sequence = &fixture->sequences[order[i]];
        char what[64];
        snprintf(what, sizeof what, "sequence %d from position %d", order[i], sequence->done);
        model_expect_same_logits(fixture->logits[row_count], sequence->logits[sequence->done], counts[i],
                                 TINY_VOCABULARY, what);
        row_count += counts[i];
        sequence->done += counts[i];
    }
}

static void check_final_states(const struct fixture *fixture, const struct engine_core *engine) {
    for (int i = 0; i < SEQUENCES; i++) {
        const struct token_run *sequence = &fixture->sequences[i];
        struct state_digest digest;
        assert_int_equal(sequence->done, sequence->length);
        state_digest_take(engine, sequence->slot, sequence->length, &digest);
        state_digest_expect_equal(engine, &digest, &sequence->digest, "batched");
    }
}

static void shuffle(uint64_t *random, int *order) {
    for (int i = 0; i < SEQUENCES; i++) {
        order[i] = i;
    }
    for (int i = SEQUENCES - 1; i > 0; i--) {
        int other = (int)((model_next_random(random) >> 33) % (uint64_t)(i + 1));
        int swapped = order[i];
        order[i] = order[other];
        order[other] = swapped;
    }
}

/* Prompts without a finished block, beside longer ones: no filler is read, nothing leaks between rows. */
static void test_short_prompts(void **state) {
    struct fixture *fixture = *state;
    static const int32_t lengths[SEQUENCES] = {1, 2, 3, LENGTH_MAX / 2, LENGTH_MAX, 4};
    static const int order[SEQUENCES] = {0, 1, 3, 2, 5, 4};
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct engine_core *engine = fixture->engines[numerics];
        int32_t counts[SEQUENCES];
        for (int i = 0; i < SEQUENCES; i++) {
            make_sequence(fixture, engine, i, 1, lengths[i]);
        }
        for (int i = 0; i < SEQUENCES; i++) {
            counts[i] = lengths[order[i]];
        }
        run_step(fixture, engine, order, counts);
        check_final_states(fixture, engine);
    }
}

static int32_t sum_counts(const int32_t *counts) {
    int32_t sum = 0;
    for (int i = 0; i < SEQUENCES; i++) {
        sum += counts[i];
    }
    return sum;
}

/*
 * Random steps of random pieces in random order. Each round's sequences start in slots that hold another
 * sequence's rows, and a sequence may pause for some steps.
 */
static void test_random_schedules(void **state) {
    struct fixture *fixture = *state;
    uint64_t random = 20;
    for (int round = 0; round < (TESTS_ARE_SHORT ? 2 : 4); round++) {
        struct engine_core *engine = fixture->engines[round % 2];
        int32_t left = 0;
        for (int i = 0; i < SEQUENCES; i++) {
            int32_t length = 20 + (int32_t)((model_next_random(&random) >> 33) % (LENGTH_MAX - 19));
            make_sequence(fixture, engine, i, 2 + (uint64_t)round, length);
            fixture->sequences[i].slot = (i + round) % SEQUENCES;
            left += length;
        }
        while (left > 0) {
            int order[SEQUENCES];
            int32_t counts[SEQUENCES];
            shuffle(&random, order);
            for (int i = 0; i < SEQUENCES; i++) {
                const struct token_run *sequence = &fixture->sequences[order[i]];
                uint64_t limit = model_next_random(&random) >> 63 == 0 ? 2 : 40;
                counts[i] = (int32_t)((model_next_random(&random) >> 33) % limit);
                if (counts[i] > sequence->length - sequence->done) {
                    counts[i] = sequence->length - sequence->done;
                }
                left -= counts[i];
            }
            if (sum_counts(counts) > 0) {
                run_step(fixture, engine, order, counts);
            }
        }
        check_final_states(fixture, engine);
    }
}

/* A plan beyond what the executor was made for is refused, not run. */
static void test_refused_plans(void **state) {
    struct fixture *fixture = *state;
    struct executor *executor = fixture->engines[NUMERICS_IDEAL]->executor;
    struct step_segment segments[SEQUENCES + 2];
    int32_t tokens[ROWS_MAX + 1] = {0};
    for (int i = 0; i < SEQUENCES + 2; i++) {
        segments[i] = (struct step_segment){i, 0, 1, tokens};
    }
    struct step_plan plan = {.segments = segments, .segment_count = SEQUENCES + 2};
    fixture_expect_error(executor_run(executor, &plan, NULL), STATUS_INTERNAL, "8 segments exceeds");
    plan.segment_count = 1;
    segments[0].row_count = ROWS_MAX + 1;
    fixture_expect_error(executor_run(executor, &plan, NULL), STATUS_INTERNAL, "513 rows");
    segments[0].row_count = 0;
    fixture_expect_error(executor_run(executor, &plan, NULL), STATUS_INTERNAL, "without rows");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_prompts),
        cmocka_unit_test(test_random_schedules),
        cmocka_unit_test(test_refused_plans),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
