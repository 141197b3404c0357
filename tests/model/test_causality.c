/*
 * What a token may depend on: nothing behind it, everything before it, and only the chosen entries of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/model_fixture.h"
#include "weights/fixture.h"

enum {
    LENGTH = 64,
    FAR_LENGTH = TESTS_ARE_SHORT ? 130 : 260,
    MODES = TESTS_ARE_SHORT ? 1 : NUMERICS_COUNT, /* ideal comes first */
};

static struct engine_core *open_engine(const struct tiny_fixture *fixture, enum sluice_numerics numerics) {
    struct sluice_engine_options options = model_options(fixture->directory);
    options.numerics = numerics;
    options.thread_count = 2;
    return model_open(&options);
}

static float *new_logits(int rows) {
    float *logits = calloc((size_t)rows * TINY_VOCABULARY, sizeof *logits);
    assert_non_null(logits);
    return logits;
}

/* Two prompts that part at `split`: the same bits before it in one prefill, others from there on. */
static void test_future_is_invisible(void **state) {
    for (int numerics = 0; numerics < MODES; numerics++) {
        struct engine_core *engine = open_engine(*state, (enum sluice_numerics)numerics);
        float *first = new_logits(LENGTH);
        float *second = new_logits(LENGTH);
        int32_t tokens[LENGTH];
        model_random_tokens(1, TINY_VOCABULARY, tokens, LENGTH);
        model_run(engine, 0, 0, tokens, LENGTH, first);
        for (int split = 28; split <= 32; split++) {
            int32_t other[LENGTH];
            model_random_tokens((uint64_t)split, TINY_VOCABULARY, other, LENGTH);
            memcpy(other, tokens, (size_t)split * sizeof *tokens);
            assert_int_not_equal(other[split], tokens[split]);
            model_run(engine, 0, 0, other, LENGTH, second);
            model_expect_same_logits(second, first, split, TINY_VOCABULARY, "before the split");
            for (int row = split; row < LENGTH; row++) {
                assert_memory_not_equal(second + row * TINY_VOCABULARY, first + row * TINY_VOCABULARY,
                                        TINY_VOCABULARY * sizeof *first);
            }
        }
        free(first);
        free(second);
        engine_core_close(&engine);
    }
}

/*
 * A changed token still matters where neither its own window nor a chain of the six layers' windows of 16
 * reaches: through compressed entries.
 */
static void test_past_beyond_windows_matters(void **state) {
    struct engine_core *engine = open_engine(*state, SLUICE_NUMERICS_IDEAL);
    float *first = new_logits(FAR_LENGTH);
    float *second = new_logits(FAR_LENGTH);
    int32_t tokens[FAR_LENGTH];
    model_random_tokens(2, TINY_VOCABULARY, tokens, FAR_LENGTH);
    model_run(engine, 0, 0, tokens, FAR_LENGTH, first);
    tokens[5] ^= 1;
    model_run(engine, 0, 0, tokens, FAR_LENGTH, second);
    for (int row = 6 * 16 + 5; row < FAR_LENGTH; row++) {
        assert_memory_not_equal(second + row * TINY_VOCABULARY, first + row * TINY_VOCABULARY,
                                TINY_VOCABULARY * sizeof *first);
    }
    free(first);
    free(second);
    engine_core_close(&engine);
}

/* Logits of 64 random tokens with the given index_topk. */
static float *run_with_limit(const struct tiny_fixture *fixture, const char *limit,
                             enum sluice_numerics numerics) {
    const struct config_change change = {"index_topk", limit};
    int32_t tokens[LENGTH];
    float *logits = new_logits(LENGTH);
    model_replace_config(fixture->directory, TINY_CONFIG, &change, 1);
    struct engine_core *engine = open_engine(fixture, numerics);
    model_random_tokens(3, TINY_VOCABULARY, tokens, LENGTH);
    model_run(engine, 0, 0, tokens, LENGTH, logits);
    engine_core_close(&engine);
    model_replace_config(fixture->directory, TINY_CONFIG, NULL, 0);
    return logits;
}

/* While no more entries are visible than may be chosen, the limit makes no difference; then it does. */
static void test_selection_of_all_is_all(void **state) {
    enum { ROWS_WITH_EIGHT_ENTRIES = 35 }; /* row 35 sees the ninth */
    for (int numerics = 0; numerics < MODES; numerics++) {
        float *chosen = run_with_limit(*state, "8", (enum sluice_numerics)numerics);
        float *all = run_with_limit(*state, "16", (enum sluice_numerics)numerics);
        float *more = run_with_limit(*state, "1000", (enum sluice_numerics)numerics);
        model_expect_same_logits(chosen, all, ROWS_WITH_EIGHT_ENTRIES, TINY_VOCABULARY, "8 of at most 8");
        model_expect_same_logits(more, all, LENGTH, TINY_VOCABULARY, "1000 of at most 16");
        assert_memory_not_equal(chosen + ROWS_WITH_EIGHT_ENTRIES * TINY_VOCABULARY,
                                all + ROWS_WITH_EIGHT_ENTRIES * TINY_VOCABULARY,
                                TINY_VOCABULARY * sizeof *all);
        free(chosen);
        free(all);
        free(more);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_future_is_invisible),
        cmocka_unit_test(test_past_beyond_windows_matters),
        cmocka_unit_test(test_selection_of_all_is_all),
    };
    return cmocka_run_group_tests(tests, tiny_fixture_set_up, tiny_fixture_tear_down);
}
