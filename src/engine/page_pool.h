/*
 * Which pages of the append-only state are free, and how often each is referred to.
 *
 * A page holds the rows of `page_tokens` consecutive positions for every append-only state kind at once. A
 * sequence holds one reference to each of its pages, the prefix cache one to each that it keeps; a page with
 * none is free. One thread at a time. No allocation after creation.
 */
#ifndef SLUICE_ENGINE_PAGE_POOL_H
#define SLUICE_ENGINE_PAGE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/*
 * Who wants to know when a page gets its second reference (is_shared) and when it is down to one again. So
 * the prefix cache learns that no sequence uses a page of its any more without looking at every page.
 */
struct page_watcher {
    void (*sharing_changed)(void *context, int32_t page, bool is_shared); /* may not change references */
    void *context;
};

struct page_pool {
    int32_t page_count;
    int32_t free_count;
    int32_t *free_pages;         /* [free_count], the next to be taken last */
    int32_t *reference_counts;   /* [page_count] */
    struct page_watcher watcher; /* of the pool's one prefix cache; zeroed: nobody */
};

/* All pages free; page 0 is taken first. */
enum status page_pool_init(struct page_pool *pool, int32_t page_count);

/* Frees the memory; nothing to do for a zeroed struct. */
void page_pool_deinit(struct page_pool *pool);

/* Takes a free page, with one reference; -1 if there is none. */
int32_t page_pool_take(struct page_pool *pool);

/* Adds a reference to a page that has one. */
void page_pool_add_reference(struct page_pool *pool, int32_t page);

/* Drops a reference; the page is free when none is left, and the next to be taken. */
void page_pool_drop_reference(struct page_pool *pool, int32_t page);

#endif
