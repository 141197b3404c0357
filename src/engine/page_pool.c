/* A stack of free pages and a count per page. */
#include "engine/page_pool.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

enum status page_pool_init(struct page_pool *pool, int32_t page_count) {
    *pool = (struct page_pool){.page_count = page_count, .free_count = page_count};
    CHECK(page_count >= 0, STATUS_BAD_ARGUMENT, "a pool of %d pages cannot be made", page_count);
    pool->free_pages = calloc((size_t)page_count + 1, sizeof *pool->free_pages);
    pool->reference_counts = calloc((size_t)page_count + 1, sizeof *pool->reference_counts);
    if (pool->free_pages == NULL || pool->reference_counts == NULL) {
        page_pool_deinit(pool);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory for the references of %d pages", page_count);
    }
    for (int32_t i = 0; i < page_count; i++) {
        pool->free_pages[i] = page_count - 1 - i;
    }
    return STATUS_OK;
}

void page_pool_deinit(struct page_pool *pool) {
    free(pool->free_pages);
    free(pool->reference_counts);
    *pool = (struct page_pool){0};
}

int32_t page_pool_take(struct page_pool *pool) {
    if (pool->free_count == 0) {
        return -1;
    }
    int32_t page = pool->free_pages[--pool->free_count];
    pool->reference_counts[page] = 1;
    return page;
}

static void tell_watcher(const struct page_pool *pool, int32_t page, bool is_shared) {
    if (pool->watcher.sharing_changed != NULL) {
        pool->watcher.sharing_changed(pool->watcher.context, page, is_shared);
    }
}

void page_pool_add_reference(struct page_pool *pool, int32_t page) {
    assert(page >= 0 && page < pool->page_count && pool->reference_counts[page] > 0);
    if (++pool->reference_counts[page] == 2) {
        tell_watcher(pool, page, true);
    }
}

void page_pool_drop_reference(struct page_pool *pool, int32_t page) {
    assert(page >= 0 && page < pool->page_count && pool->reference_counts[page] > 0);
    int32_t left = --pool->reference_counts[page];
    if (left == 0) {
        pool->free_pages[pool->free_count++] = page;
    } else if (left == 1) {
        tell_watcher(pool, page, false);
    }
}
