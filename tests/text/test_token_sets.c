/* Sets of tokens that are kept once: what goes in comes out, and equal ones are one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text/grammar/token_sets.h"

enum { WORDS = 40, MASKS = 2000 };

/* Mask `number`: bits by a generator of the test's own, of few tokens up to nearly all. */
static void fill(uint32_t number, uint32_t *words) {
    uint64_t state = number * 0x9E3779B97F4A7C15u + 1;
    for (uint32_t i = 0; i < WORDS; i++) {
        words[i] = 0;
        for (uint32_t bit = 0; bit < 32; bit++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            words[i] |= (uint32_t)(state >> 33) % 100 < number % 100 ? UINT32_C(1) << bit : 0;
        }
    }
    words[0] = number; /* no two are equal */
}

static void every_set_is_kept_once(void **state) {
    static struct token_sets sets;
    static const struct token_set *known[MASKS];
    uint32_t words[WORDS], found[WORDS];
    size_t kinds[2] = {0};
    (void)state;
    for (uint32_t i = 0; i < MASKS; i++) {
        fill(i, words);
        known[i] = token_sets_find(&sets, words, WORDS);
        assert_non_null(known[i]);
        kinds[known[i]->is_mask]++;
    }
    assert_true(kinds[0] > 10 && kinds[1] > 10);
    size_t bytes = sets.bytes;
    for (uint32_t i = 0; i < MASKS; i++) {
        fill(i, words);
        assert_ptr_equal(token_sets_find(&sets, words, WORDS), known[i]);
        memset(found, 0, sizeof found);
        token_set_add_to(known[i], found);
        assert_memory_equal(found, words, sizeof words);
        for (uint32_t j = i + 1; j < MASKS; j += 97) {
            assert_ptr_not_equal(known[i], known[j]);
        }
    }
    assert_int_equal(sets.bytes, bytes);
    token_sets_clear(&sets);
    assert_int_equal(sets.bytes, 0);
    for (size_t i = 0; i < TOKEN_SETS_BUCKETS; i++) {
        assert_null(sets.buckets[i]);
    }
}

/* A set is added to what a mask has already. */
static void sets_are_added(void **state) {
    static struct token_sets sets;
    uint32_t few[WORDS] = {[3] = 5}, many[WORDS], sum[WORDS];
    (void)state;
    memset(many, 0xF0, sizeof many);
    memset(sum, 0, sizeof sum);
    token_set_add_to(token_sets_find(&sets, few, WORDS), sum);
    token_set_add_to(token_sets_find(&sets, many, WORDS), sum);
    for (uint32_t i = 0; i < WORDS; i++) {
        assert_int_equal(sum[i], few[i] | many[i]);
    }
    token_sets_clear(&sets);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_is_kept_once),
        cmocka_unit_test(sets_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
