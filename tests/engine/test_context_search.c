/* The longest context that fits, against trying all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/context_search.h"

enum { PAGE = 128, TRIES_MAX = 20 };

/* What is found if contexts up to `room` tokens fit; counts the tries. */
static int64_t found(int64_t limit, int64_t room, int *tries) {
    struct context_search search = context_search_begin(limit, PAGE);
    *tries = 1;
    while (context_search_tell(&search, context_search_tokens(&search) <= room)) {
        (*tries)++;
        assert_in_range(*tries, 1, TRIES_MAX);
    }
    return context_search_tokens(&search);
}

static void the_longest_is_found(void **state) {
    (void)state;
    for (int64_t limit = 1; limit <= 20 * PAGE; limit += 77) {
        for (int64_t room = 1; room <= limit + PAGE; room += 31) {
            int64_t longest = limit < PAGE ? limit : PAGE; /* the shortest of all, even if it does not fit */
            for (int64_t tokens = PAGE; tokens < limit + PAGE; tokens += PAGE) {
                int64_t context = tokens < limit ? tokens : limit;
                longest = context <= room ? context : longest;
            }
            int tries;
            assert_int_equal(found(limit, room, &tries), longest);
        }
    }
}

/* Where memory is plenty one try is enough; of a million tokens it takes as many as halvings of 8192 pages.
 */
static void tries_are_few(void **state) {
    (void)state;
    int tries;
    assert_int_equal(found(1 << 20, INT64_MAX, &tries), 1 << 20);
    assert_int_equal(tries, 1);
    assert_int_equal(found(1 << 20, 700 * PAGE + 5, &tries), 700 * PAGE);
    assert_in_range(tries, 2, 15);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_is_found),
        cmocka_unit_test(tries_are_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
