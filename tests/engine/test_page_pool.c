/* Pages and their references: who has a page keeps it, and the last one to let go makes it free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/page_pool.h"

enum { PAGES = 5 };

static void pages_are_taken_from_0_up(void **state) {
    (void)state;
    struct page_pool pool;
    assert_int_equal(page_pool_init(&pool, PAGES), STATUS_OK);
    assert_int_equal(pool.free_count, PAGES);
    for (int32_t page = 0; page < PAGES; page++) {
        assert_int_equal(page_pool_take(&pool), page);
        assert_int_equal(pool.reference_counts[page], 1);
        assert_int_equal(pool.free_count, PAGES - 1 - page);
    }
    assert_int_equal(page_pool_take(&pool), -1);
    assert_int_equal(pool.free_count, 0);
    page_pool_deinit(&pool);
    assert_null(pool.free_pages);
}

static void the_last_reference_frees(void **state) {
    (void)state;
    struct page_pool pool;
    assert_int_equal(page_pool_init(&pool, PAGES), STATUS_OK);
    for (int32_t page = 0; page < PAGES; page++) {
        page_pool_take(&pool);
    }
    page_pool_add_reference(&pool, 3);
    page_pool_add_reference(&pool, 3);
    page_pool_drop_reference(&pool, 3);
    page_pool_drop_reference(&pool, 3);
    assert_int_equal(page_pool_take(&pool), -1);
    page_pool_drop_reference(&pool, 3);
    assert_int_equal(pool.free_count, 1);
    page_pool_drop_reference(&pool, 1);
    /* The page that was freed last is warm in caches. */
    assert_int_equal(page_pool_take(&pool), 1);
    assert_int_equal(page_pool_take(&pool), 3);
    assert_int_equal(page_pool_take(&pool), -1);
    page_pool_deinit(&pool);
}

/* Random calls against plain counts: a page is handed out only while nobody holds it, and none gets lost. */
static void references_are_counted(void **state) {
    (void)state;
    struct page_pool pool;
    int32_t counts[PAGES] = {0};
    uint32_t random = 1;
    assert_int_equal(page_pool_init(&pool, PAGES), STATUS_OK);
    for (int step = 0; step < 20000; step++) {
        random = random * 1664525u + 1013904223u;
        int32_t page = (int32_t)(random >> 20) % PAGES;
        int32_t free_count = 0;
        for (int i = 0; i < PAGES; i++) {
            free_count += counts[i] == 0;
        }
        assert_int_equal(pool.free_count, free_count);
        switch (random >> 16 & 3) {
        case 0:
            page = page_pool_take(&pool);
            assert_int_equal(page < 0, free_count == 0);
            if (page >= 0) {
                assert_int_equal(counts[page]++, 0);
            }
            break;
        case 1:
            if (counts[page] > 0) {
                counts[page]++;
                page_pool_add_reference(&pool, page);
            }
            break;
        default:
            if (counts[page] > 0) {
                counts[page]--;
                page_pool_drop_reference(&pool, page);
            }
            break;
        }
    }
    assert_memory_equal(pool.reference_counts, counts, sizeof counts);
    page_pool_deinit(&pool);
}

static void no_pages_at_all(void **state) {
    (void)state;
    struct page_pool pool;
    assert_int_equal(page_pool_init(&pool, 0), STATUS_OK);
    assert_int_equal(page_pool_take(&pool), -1);
    page_pool_deinit(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_taken_from_0_up),
        cmocka_unit_test(the_last_reference_frees),
        cmocka_unit_test(references_are_counted),
        cmocka_unit_test(no_pages_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
