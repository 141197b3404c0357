/*
 * The same bits however a sequence is cut into steps: logits of every row and all state at every cut.
 *
 * The run token by token is the measure. Before each other run the state memory is filled with a pattern, so
 * that a row which is read before it was written shows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/model_fixture.h"
#include "support/state_digest.h"
#include "weights/fixture.h"

/* Past 26 windows and 3 blocks of 128 (in short: 9 and 1), and no multiple of any ratio. */
enum { LENGTH = TESTS_ARE_SHORT ? 150 : 423, SPLIT_LENGTH = 96, CHUNKS_MAX = LENGTH };

/* What the run token by token gave. */
struct reference {
    int32_t tokens[LENGTH];
    float logits[LENGTH][TINY_VOCABULARY];
    struct state_digest digests[LENGTH + 1]; /* after that many tokens */
};

struct fixture {
    char directory[FIXTURE_PATH_BYTES];
    float logits[LENGTH][TINY_VOCABULARY];
    struct engine_core *engines[NUMERICS_COUNT]; /* one thread, on "cpu" */
    struct reference references[NUMERICS_COUNT];
};

static struct engine_core *open_engine(const struct fixture *fixture, int numerics, const char *device,
                                       int threads) {
    struct sluice_engine_options options = model_options(fixture->directory);
    options.numerics = (enum sluice_numerics)numerics;
    options.device = device;
    options.thread_count = threads;
    options.sequence_limit = 2;
    return model_open(&options);
}

static void make_reference(struct engine_core *engine, struct reference *reference) {
    model_spec_tokens(reference->tokens, LENGTH);
    for (int32_t p = 0; p < LENGTH; p++) {
        model_run(engine, 0, p, &reference->tokens[p], 1, reference->logits[p]);
        state_digest_take(engine, 0, p + 1, &reference->digests[p + 1]);
    }
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture_make(fixture->directory);
    model_synthesise(fixture->directory, TINY_CONFIG, NULL, 0);
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        fixture->engines[numerics] = open_engine(fixture, numerics, "cpu", 1);
        make_reference(fixture->engines[numerics], &fixture->references[numerics]);
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

/* 0xFF is a NaN in every format, 0x3F a number of the size that occurs. */
static void poison(struct engine_core *engine, unsigned char byte) {
    EXPECT_OK(stream_fill(engine->stream, engine->states.memory, byte, engine->states.row_memory_bytes));
    EXPECT_OK(stream_synchronize(engine->stream));
}

/* Runs the sequence in the given chunks in slot 1 and compares rows and, at each cut, the state. */
static void check_chunks(struct fixture *fixture, struct engine_core *engine, int numerics,
                         const int32_t *chunks, int chunk_count) {
    const struct reference *reference = &fixture->references[numerics];
    int32_t position = 0;
    poison(engine, chunk_count % 2 == 0 ? 0xFF : 0x3F);
    for (int i = 0; i < chunk_count; i++) {
        char what[128];
        struct state_digest digest;
        snprintf(what, sizeof what, "%s, %d chunks, chunk %d of %d tokens from position %d",
                 numerics_name((enum numerics)numerics), chunk_count, i, chunks[i], position);
        model_run(engine, 1, position, &reference->tokens[position], chunks[i], fixture->logits[position]);
        model_expect_same_logits(fixture->logits[position], reference->logits[position], chunks[i],
                                 TINY_VOCABULARY, what);
        position += chunks[i];
        state_digest_take(engine, 1, position, &digest);
        state_digest_expect_equal(engine, &digest, &reference->digests[position], what);
    }
}

/* Chunks of one size, the last one shorter. */
static void check_even_chunks(struct fixture *fixture, struct engine_core *engine, int numerics, int32_t size,
                              int32_t length) {
    int32_t chunks[CHUNKS_MAX];
    int count = 0;
    for (int32_t position = 0; position < length; position += size) {
        chunks[count++] = length - position < size ? length - position : size;
    }
    check_chunks(fixture, engine, numerics, chunks, count);
}

/* T-9: all sizes give the state and the logits of one chunk. */
static void test_even_chunks(void **state) {
    struct fixture *fixture = *state;
    static const int32_t sizes[] = {2, 3, 5, 7, 64, 128, 130, LENGTH};
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        for (size_t i = TESTS_ARE_SHORT; i < sizeof sizes / sizeof sizes[0]; i += TESTS_ARE_SHORT ? 3 : 1) {
            check_even_chunks(fixture, fixture->engines[numerics], numerics, sizes[i], LENGTH);
        }
    }
}

/* Sizes at random, half of them tiny. */
static void test_ragged_chunks(void **state) {
    struct fixture *fixture = *state;
    for (int seed = 1; seed <= (TESTS_ARE_SHORT ? 1 : 4); seed++) {
        int32_t chunks[CHUNKS_MAX];
        uint64_t random = (uint64_t)seed * 0x9E3779B97F4A7C15u;
        int count = 0;
        for (int32_t left = LENGTH; left > 0; left -= chunks[count++]) {
            uint64_t limit = model_next_random(&random) >> 63 == 0 ? 5 : 90;
            int32_t size = 1 + (int32_t)((model_next_random(&random) >> 33) % limit);
            chunks[count] = size < left ? size : left;
        }
        check_chunks(fixture, fixture->engines[seed % 2], seed % 2, chunks, count);
    }
}

/* B05, T-9: few tokens before or after most: what a chunk sees depends on its position, not on its length. */
static void test_uneven_splits(void **state) {
    struct fixture *fixture = *state;
    static const struct {
        int32_t chunks[3];
        int count;
    } splits[] = {{{96}, 1}, {{32, 32, 32}, 3}, {{95, 1}, 2}, {{1, 95}, 2}, {{33, 31, 32}, 3}};
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        check_chunks(fixture, fixture->engines[NUMERICS_IDEAL], NUMERICS_IDEAL, splits[i].chunks,
                     splits[i].count);
    }
}

static void test_two_threads(void **state) {
    struct fixture *fixture = *state;
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct engine_core *engine = open_engine(fixture, numerics, "cpu", 2);
        check_even_chunks(fixture, engine, numerics, 64, LENGTH);
        check_even_chunks(fixture, engine, numerics, 7, SPLIT_LENGTH);
        engine_core_close(&engine);
    }
}

/* Memory that faults when it is touched where it must not be, and starts as NaN. */
static void test_guard_device(void **state) {
    struct fixture *fixture = *state;
    static const int32_t chunks[] = {64, 63, 1, 1, 21};
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct engine_core *engine = open_engine(fixture, numerics, "guard", 2);
        check_chunks(fixture, engine, numerics, chunks, sizeof chunks / sizeof chunks[0]);
        engine_core_close(&engine);
    }
}

/* The reference run itself: no two positions of it, and no two modes, have the same state or logits. */
static void test_reference_moves(void **state) {
    struct fixture *fixture = *state;
    const struct reference *ideal = &fixture->references[NUMERICS_IDEAL];
    const struct reference *native = &fixture->references[NUMERICS_NATIVE];
    for (int p = 1; p < LENGTH; p++) {
        assert_memory_not_equal(ideal->logits[p], ideal->logits[p - 1], sizeof ideal->logits[0]);
        assert_memory_not_equal(ideal->logits[p], native->logits[p], sizeof ideal->logits[0]);
        assert_memory_not_equal(&ideal->digests[p + 1], &ideal->digests[p], sizeof ideal->digests[0]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_moves), cmocka_unit_test(test_even_chunks),
        cmocka_unit_test(test_ragged_chunks),   cmocka_unit_test(test_uneven_splits),
        cmocka_unit_test(test_two_threads),     cmocka_unit_test(test_guard_device),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
