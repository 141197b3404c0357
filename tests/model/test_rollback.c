/*
 * Rejected drafts leave nothing behind (spec parallelism 4.5): a round writes drafts after committed tokens,
 * some are rejected, and the sequence goes on from there as if they had never been. Nothing is undone.
 *
 * The rings hold just the rows that this needs. With one row less results must differ, which shows that the
 * test looks where it hurts.
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

/* A round verifies the token at p and up to DRAFTS drafts. */
enum {
    LENGTH = TESTS_ARE_SHORT ? 144 : 272,
    DRAFTS = 3,
    ROUND_ROWS = DRAFTS + 1,
    REFERENCE_SLOT = 0,
    SLOT = 1
};

/* What the run without any draft gave. */
struct reference {
    float logits[LENGTH][TINY_VOCABULARY];
    float draft_logits[LENGTH][TINY_VOCABULARY];
    struct state_digest digests[LENGTH + 1];
};

struct fixture {
    char directory[FIXTURE_PATH_BYTES];
    int32_t tokens[LENGTH];
    int32_t wrong[LENGTH]; /* differs from tokens everywhere */
    struct engine_core *engines[NUMERICS_COUNT];
    struct reference references[NUMERICS_COUNT];
};

/* The MTP layer over `count` rows from row `first_row` of the step before: row i with next_tokens[i]. */
static void run_draft_rows(struct engine_core *engine, int32_t slot, int32_t first_position,
                           const int32_t *next_tokens, int32_t first_row, int32_t count, float *logits) {
    static const int32_t rows[ROUND_ROWS] = {0, 1, 2, 3};
    struct step_segment segment = {slot, first_position, count, next_tokens};
    struct draft_plan plan = {.segments = &segment,
                              .segment_count = 1,
                              .source = DRAFT_SOURCE_STEP,
                              .source_rows = rows + first_row,
                              .writes_state_only = logits == NULL};
    EXPECT_OK(executor_run_draft(engine->executor, &plan, logits));
}

/* The same from the step's first row on. */
static void run_draft(struct engine_core *engine, int32_t slot, int32_t first_position,
                      const int32_t *next_tokens, int32_t count, float *logits) {
    run_draft_rows(engine, slot, first_position, next_tokens, 0, count, logits);
}

/* Steps 2..K of a round: the MTP layer over what it gave itself, at `position` and after (M-28). */
static void run_draft_steps(struct engine_core *engine, int32_t position, const int32_t *next_tokens) {
    static const int32_t row = 0;
    float logits[TINY_VOCABULARY];
    for (int32_t i = 0; i < DRAFTS - 1; i++) {
        struct step_segment segment = {SLOT, position + i, 1, next_tokens + i};
        struct draft_plan plan = {
            .segments = &segment, .segment_count = 1, .source = DRAFT_SOURCE_DRAFT, .source_rows = &row};
        EXPECT_OK(executor_run_draft(engine->executor, &plan, logits));
    }
}

static void make_reference(struct fixture *fixture, int numerics) {
    struct engine_core *engine = fixture->engines[numerics];
    struct reference *reference = &fixture->references[numerics];
    for (int32_t p = 0; p < LENGTH; p++) {
        model_run(engine, REFERENCE_SLOT, p, &fixture->tokens[p], 1, reference->logits[p]);
        if (p + 1 < LENGTH) {
            run_draft(engine, REFERENCE_SLOT, p, &fixture->tokens[p + 1], 1, reference->draft_logits[p]);
        }
        state_digest_take(engine, REFERENCE_SLOT, p + 1, &reference->digests[p + 1]);
    }
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture_make(fixture->directory);
    model_synthesise(fixture->directory, TINY_CONFIG, NULL, 0);
    model_spec_tokens(fixture->tokens, LENGTH);
    for (int i = 0; i < LENGTH; i++) {
        fixture->wrong[i] = (fixture->tokens[i] + 1 + 7 * (i % 50)) % TINY_VOCABULARY;
        assert_int_not_equal(fixture->wrong[i], fixture->tokens[i]);
    }
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct sluice_engine_options options = model_options(fixture->directory);
        options.numerics = (enum sluice_numerics)numerics;
        options.sequence_limit = ROUND_ROWS; /* as many rows a draft pass with logits may have */
        options.draft.limit = DRAFTS;
        options.context_tokens = LENGTH;
        options.thread_count = 2;
        fixture->engines[numerics] = model_open(&options);
        make_reference(fixture, numerics);
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

/* A round at `position`: `rows` rows of which the first `kept` hold the true tokens. */
struct round {
    int32_t position;
    int32_t rows;
    int32_t kept;
};

/*
 * The round's main and draft passes. The draft rows of what is kept are then made again, with true tokens:
 * all but the last as state alone, from which further drafts go on.
 */
static void run_round(const struct fixture *fixture, struct engine_core *engine, const struct round *round) {
    int32_t tokens[ROUND_ROWS + 1];
    float logits[ROUND_ROWS][TINY_VOCABULARY];
    memcpy(tokens, fixture->wrong + round->position, sizeof tokens);
    memcpy(tokens, fixture->tokens + round->position, (size_t)round->kept * sizeof *tokens);
    model_run(engine, SLOT, round->position, tokens, round->rows, logits[0]);
    run_draft(engine, SLOT, round->position, tokens + 1, round->rows, logits[0]);
    if (round->kept > 0) {
        const int32_t *next_tokens = fixture->tokens + round->position + 1;
        int32_t last = round->kept - 1;
        if (last > 0) {
            run_draft(engine, SLOT, round->position, next_tokens, last, NULL);
        }
        run_draft_rows(engine, SLOT, round->position + last, next_tokens + last, last, 1, logits[0]);
        run_draft_steps(engine, round->position + round->kept, tokens + 1);
    }
}

/*
 * Goes on with the true tokens from behind the kept rows to the end of the round's reach, and counts what
 * differs from the reference: rows of logits, or the state.
 */
static int count_differences(const struct fixture *fixture, struct engine_core *engine,
                             const struct reference *reference, const struct round *round) {
    int32_t first = round->position + round->kept;
    int32_t rows = ROUND_ROWS - round->kept;
    float logits[ROUND_ROWS][TINY_VOCABULARY];
    struct state_digest digest;
    int differences = 0;
    model_run(engine, SLOT, first, fixture->tokens + first, rows, logits[0]);
    differences += memcmp(logits, reference->logits[first], (size_t)rows * sizeof logits[0]) != 0;
    run_draft(engine, SLOT, first, fixture->tokens + first + 1, rows, logits[0]);
    differences += memcmp(logits, reference->draft_logits[first], (size_t)rows * sizeof logits[0]) != 0;
    state_digest_take(engine, SLOT, first + rows, &digest);
    differences += memcmp(&digest.kinds, &reference->digests[first + rows].kinds,
                          (size_t)digest.count * sizeof digest.kinds[0]) != 0;
    return differences;
}

/* Brings the slot to `position` with true tokens, from where it is known to be right. */
static void advance(const struct fixture *fixture, struct engine_core *engine, int32_t *from,
                    int32_t position) {
    while (*from < position) {
        int32_t rows = position - *from < ROUND_ROWS ? position - *from : ROUND_ROWS;
        model_run(engine, SLOT, *from, fixture->tokens + *from, rows, NULL);
        run_draft(engine, SLOT, *from, fixture->tokens + *from + 1, rows, NULL);
        *from += rows;
    }
}

/* Positions where something ends: the start, a window, a block of 16, of 128, twice that; and any residue. */
static const int32_t all_positions[] = {0,   1,   2,   3,   4,   5,   6,   7,   8,   9,
                                        14,  15,  16,  17,  31,  63,  124, 125, 126, 127,
                                        128, 129, 130, 131, 252, 253, 254, 255, 256, 257};
/* The same in few: for numerics whose addresses are the same, and to find a ring that is too short. */
static const int32_t some_positions[] = {0, 3, 15, 17, 63, 126, 127, 130};

enum {
    ALL_POSITIONS = sizeof all_positions / sizeof all_positions[0],
    SOME_POSITIONS = sizeof some_positions / sizeof some_positions[0],
};

/* Every round at every position of the list: all lengths, all numbers of kept rows but all. */
static int count_all_differences(const struct fixture *fixture, struct engine_core *engine, int numerics,
                                 const int32_t *positions, int position_count) {
    int32_t done = 0;
    int differences = 0;
    for (int i = 0; i < position_count; i++) {
        struct round round = {.position = positions[i]};
        advance(fixture, engine, &done, round.position);
        for (round.rows = TESTS_ARE_SHORT ? ROUND_ROWS : 1; round.rows <= ROUND_ROWS; round.rows++) {
            for (round.kept = 0; round.kept < round.rows; round.kept++) {
                run_round(fixture, engine, &round);
                differences += count_differences(fixture, engine, &fixture->references[numerics], &round);
            }
        }
    }
    return differences;
}

/* B79, M-24: nothing needs to be undone. */
static void test_rejected_drafts_leave_nothing(void **state) {
    const struct fixture *fixture = *state;
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        bool takes_all = numerics == NUMERICS_IDEAL && !TESTS_ARE_SHORT;
        struct engine_core *engine = fixture->engines[numerics];
        EXPECT_OK(stream_fill(engine->stream, engine->states.memory, 0xFF, engine->states.row_memory_bytes));
        assert_int_equal(count_all_differences(fixture, engine, numerics,
                                               takes_all ? all_positions : some_positions,
                                               takes_all ? ALL_POSITIONS : SOME_POSITIONS),
                         0);
    }
}

/* Whole generation by rounds with a varying number of accepted drafts. */
static void test_rounds_in_a_row(void **state) {
    const struct fixture *fixture = *state;
    const struct reference *reference = &fixture->references[NUMERICS_IDEAL];
    struct engine_core *engine = fixture->engines[NUMERICS_IDEAL];
    int32_t position = 0;
    EXPECT_OK(stream_fill(engine->stream, engine->states.memory, 0xFF, engine->states.row_memory_bytes));
    for (int step = 0; position + ROUND_ROWS + 1 < LENGTH; step++) {
        struct round round = {position, ROUND_ROWS, 1 + (step * 5 + step / 3) % ROUND_ROWS};
        float logits[ROUND_ROWS][TINY_VOCABULARY];
        struct state_digest digest;
        int32_t tokens[ROUND_ROWS];
        memcpy(tokens, fixture->wrong + position, sizeof tokens);
        memcpy(tokens, fixture->tokens + position, (size_t)round.kept * sizeof *tokens);
        model_run(engine, SLOT, position, tokens, ROUND_ROWS, logits[0]);
        model_expect_same_logits(logits[0], reference->logits[position], round.kept, TINY_VOCABULARY,
                                 "kept rows");
        position += round.kept;
        state_digest_take(engine, SLOT, position, &digest);
        state_digest_expect_equal(engine, &digest, &reference->digests[position], "after a round");
    }
}

/* The engine with one row less in the rings of the given name. */
struct shortened {
    struct engine_core engine;
    struct state_table table;
    struct state_kind kinds[STATE_DIGEST_KINDS_MAX];
};

static void shorten(const struct engine_core *engine, const char *name, struct shortened *out) {
    int changed = 0;
    out->engine = *engine;
    out->table = engine->state_table;
    out->table.kinds = out->kinds;
    assert_true(out->table.count <= STATE_DIGEST_KINDS_MAX);
    for (int i = 0; i < out->table.count; i++) {
        out->kinds[i] = engine->state_table.kinds[i];
        if (strcmp(out->kinds[i].name, name) == 0) {
            out->kinds[i].rows--;
            changed++;
        }
    }
    assert_true(changed > 0);
    EXPECT_OK(state_pool_init(&out->engine.states, engine->device, &out->table, NUMERICS_IDEAL,
                              &engine->states.options));
    EXPECT_OK(state_pool_alloc(&out->engine.states, engine->states.page_count));
    EXPECT_OK(state_pool_map_own_pages(&out->engine.states, engine->stream));
    struct executor_options options = model_executor_options(&out->engine, ROUND_ROWS, ROUND_ROWS);
    EXPECT_OK(executor_create(&options, &out->engine.executor));
}

/* T-11, M-22, M-23: each ring has just the rows that it needs. */
static void test_shorter_rings_fail(void **state) {
    const struct fixture *fixture = *state;
    static const char *const names[] = {"window", "raw", "index raw"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct shortened *shortened = calloc(1, sizeof *shortened);
        assert_non_null(shortened);
        shorten(fixture->engines[NUMERICS_IDEAL], names[i], shortened);
        if (count_all_differences(fixture, &shortened->engine, NUMERICS_IDEAL, some_positions,
                                  SOME_POSITIONS) == 0) {
            fail_msg("a ring \"%s\" with one row less gave the same results", names[i]);
        }
        executor_destroy(&shortened->engine.executor);
        state_pool_deinit(&shortened->engine.states);
        free(shortened);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rejected_drafts_leave_nothing),
        cmocka_unit_test(test_rounds_in_a_row),
        cmocka_unit_test(test_shorter_rings_fail),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
