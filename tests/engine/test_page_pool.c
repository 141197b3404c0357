/* Pages: taken in order, free without references, watched when they are shared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/page_pool.h"

static void pages_are_taken_from_the_first_on(void **state) {
    (void)state;
    struct page_pool pool;
    assert_int_equal(page_pool_init(&pool, 3), STATUS_OK);
    assert_int_equal(pool.free_count, 3);
    assert_int_equal(page_pool_take(&pool), 0);
    assert_int_equal(page_pool_take(&pool), 1);
    assert_int_equal(page_pool_take(&pool), 2);
    assert_int_equal(page_pool_take(&pool), -1);
    assert_int_equal(pool.free_count, 0);
    page_pool_drop_reference(&pool, 1);
    page_pool_drop_reference(&pool, 0);
    assert_int_equal(pool.free_count, 2);
    assert_int_equal(page_pool_take(&pool), 0);
    assert_int_equal(page_pool_take(&pool), 1);
    page_pool_deinit(&pool);
}

static void a_page_is_free_when_its_last_reference_goes(void **state) {
    (void)state;
    struct page_pool pool;
    assert_int_equal(page_pool_init(&pool, 1), STATUS_OK);
    int32_t page = page_pool_take(&pool);
    page_pool_add_reference(&pool, page);
    page_pool_add_reference(&pool, page);
    page_pool_drop_reference(&pool, page);
    page_pool_drop_reference(&pool, page);
    assert_int_equal(page_pool_take(&pool), -1);
    page_pool_drop_reference(&pool, page);
    assert_int_equal(pool.free_count, 1);
    page_pool_deinit(&pool);
}

struct changes {
    int count;
    int32_t pages[8];
    bool are_shared[8];
};

static void note_change(void *context, int32_t page, bool is_shared) {
    struct changes *changes = context;
    changes->pages[changes->count] = page;
    changes->are_shared[changes->count++] = is_shared;
}

/* The second reference and its end are told, the first and the third are not. */
static void the_watcher_hears_of_sharing(void **state) {
    (void)state;
    struct changes changes = {0};
    struct page_pool pool;
    assert_int_equal(page_pool_init(&pool, 2), STATUS_OK);
    pool.watcher = (struct page_watcher){note_change, &changes};
    page_pool_take(&pool);
    int32_t page = page_pool_take(&pool);
    assert_int_equal(changes.count, 0);
    page_pool_add_reference(&pool, page);
    page_pool_add_reference(&pool, page);
    assert_int_equal(changes.count, 1);
    page_pool_drop_reference(&pool, page);
    assert_int_equal(changes.count, 1);
    page_pool_drop_reference(&pool, page);
    page_pool_drop_reference(&pool, page);
    assert_int_equal(changes.count, 2);
    assert_int_equal(changes.pages[0], page);
    assert_int_equal(changes.pages[1], page);
    assert_true(changes.are_shared[0]);
    assert_false(changes.are_shared[1]);
    page_pool_deinit(&pool);
}

static void an_impossible_pool_is_refused(void **state) {
    (void)state;
    struct page_pool pool;
    assert_int_equal(page_pool_init(&pool, -1), STATUS_BAD_ARGUMENT);
    assert_int_equal(page_pool_init(&pool, 0), STATUS_OK);
    assert_int_equal(page_pool_take(&pool), -1);
    page_pool_deinit(&pool);
    page_pool_deinit(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_taken_from_the_first_on),
        cmocka_unit_test(a_page_is_free_when_its_last_reference_goes),
        cmocka_unit_test(the_watcher_hears_of_sharing),
        cmocka_unit_test(an_impossible_pool_is_refused),
    };
    return cmocka_run_group_tests_name("page_pool", tests, NULL, NULL);
}
