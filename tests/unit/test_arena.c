/* Arenas: alignment, zeroing, separate memory, overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdint.h>
#include <string.h>

#include "base/arena.h"

static void test_allocations_are_aligned_zeroed_and_apart(void **state) {
    (void)state;
    struct arena arena;
    arena_init(&arena, 1024);
    unsigned char *pointers[200];
    for (size_t i = 0; i < 200; i++) {
        size_t alignment = (size_t)1 << (i % 9);
        pointers[i] = arena_alloc(&arena, i, 1, alignment);
        assert_non_null(pointers[i]);
        assert_int_equal((uintptr_t)pointers[i] % alignment, 0);
        for (size_t j = 0; j < i; j++) {
            assert_int_equal(pointers[i][j], 0);
        }
        memset(pointers[i], (int)i, i);
    }
    for (size_t i = 0; i < 200; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_int_equal(pointers[i][j], i);
        }
    }
    assert_true(arena.used_bytes >= 199 * 200 / 2);
    arena_deinit(&arena);
    assert_int_equal(arena.used_bytes, 0);
}

static void test_larger_than_a_block(void **state) {
    (void)state;
    struct arena arena;
    arena_init(&arena, 64);
    double *values = ARENA_NEW(&arena, double, 10000);
    assert_non_null(values);
    values[9999] = 1.0;
    assert_non_null(ARENA_NEW(&arena, char, 1));
    arena_deinit(&arena);
}

static void test_overflow_is_refused(void **state) {
    (void)state;
    struct arena arena;
    arena_init(&arena, 64);
    assert_null(arena_alloc(&arena, SIZE_MAX / 2, 4, 8));
    /* The product wraps around to 4. */
    assert_null(arena_alloc(&arena, SIZE_MAX / 4 + 2, 4, 8));
    assert_null(arena_alloc(&arena, SIZE_MAX, 1, 8));
    assert_null(arena_alloc(&arena, SIZE_MAX / 2, 1, 8));
    assert_non_null(arena_alloc(&arena, 0, 8, 8));
    arena_deinit(&arena);
}

static void test_reuse_after_deinit(void **state) {
    (void)state;
    struct arena arena;
    arena_init(&arena, 128);
    for (int round = 0; round < 3; round++) {
        char *text = arena_format(&arena, "%s-%d", "round", round);
        assert_non_null(text);
        assert_int_equal(strlen(text), 7);
        assert_int_equal(text[6], '0' + round);
        arena_deinit(&arena);
    }
}

static void test_strings(void **state) {
    (void)state;
    struct arena arena;
    arena_init(&arena, 128);
    assert_string_equal(arena_copy_string(&arena, "abcdef", 3), "abc");
    assert_string_equal(arena_copy_string(&arena, "", 0), "");
    assert_string_equal(arena_format(&arena, "%05d %s", 42, "x"), "00042 x");
    arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations_are_aligned_zeroed_and_apart),
        cmocka_unit_test(test_larger_than_a_block),
        cmocka_unit_test(test_overflow_is_refused),
        cmocka_unit_test(test_reuse_after_deinit),
        cmocka_unit_test(test_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
