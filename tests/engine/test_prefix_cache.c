/* The prefix cache in single cases: who goes first, who gets a slot, what is refused, what it costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/prefix_cache_internal.h"

enum { PAGE_TOKENS = 4, FIRST_SLOT = 8 };

struct fixture {
    struct page_pool pool;
    struct prefix_cache *cache;
};

static void set_up(struct fixture *fixture, int32_t page_count, int32_t snapshot_count) {
    assert_int_equal(page_pool_init(&fixture->pool, page_count), STATUS_OK);
    const struct prefix_cache_options options = {&fixture->pool, PAGE_TOKENS, FIRST_SLOT, snapshot_count, 1};
    assert_int_equal(prefix_cache_create(&options, &fixture->cache), STATUS_OK);
}

static void tear_down(struct fixture *fixture) {
    prefix_cache_destroy(&fixture->cache);
    assert_int_equal(fixture->pool.free_count, fixture->pool.page_count);
    page_pool_deinit(&fixture->pool);
}

/* Runs a sequence over `token_count` tokens and publishes its end. Returns the slot asked for. */
static int32_t run_prompt(struct fixture *fixture, const int32_t *tokens, int32_t token_count,
                          int32_t *cached_count) {
    int32_t pages[64];
    struct prefix_match match;
    prefix_cache_match(fixture->cache, tokens, token_count, pages, &match);
    *cached_count = match.token_count;
    int32_t page_count = token_count / PAGE_TOKENS;
    for (int32_t i = match.token_count / PAGE_TOKENS; i < page_count; i++) {
        prefix_cache_evict(fixture->cache, 1);
        pages[i] = page_pool_take(&fixture->pool);
        assert_true(pages[i] >= 0);
    }
    int32_t slot;
    assert_int_equal(prefix_cache_publish(fixture->cache, tokens, token_count, pages, true, &slot),
                     STATUS_OK);
    for (int32_t i = 0; i < page_count; i++) {
        page_pool_drop_reference(&fixture->pool, pages[i]);
    }
    return slot;
}

static void fill(int32_t *tokens, int32_t count, int32_t first) {
    for (int32_t i = 0; i < count; i++) {
        tokens[i] = first + i;
    }
}

/* Field report B97: two chats that take turns find all they left while there is room. */
static void chats_that_take_turns_keep_their_prefixes(void **state) {
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 60, 8);
    int32_t tokens[2][24];
    fill(tokens[0], 24, 0);
    fill(tokens[1], 24, 1000);
    for (int32_t turn = 1; turn <= 3; turn++) {
        for (int chat = 0; chat < 2; chat++) {
            int32_t cached_count;
            run_prompt(&fixture, tokens[chat], turn * 8, &cached_count);
            assert_int_equal(cached_count, (turn - 1) * 8);
        }
    }
    struct prefix_cache_counters counters = prefix_cache_counters(fixture.cache);
    assert_int_equal(counters.evicted_pages, 0);
    assert_int_equal(counters.cached_pages, 12);
    assert_int_equal(counters.hits, 4);
    assert_int_equal(counters.lookups, 6);
    assert_int_equal(counters.hit_tokens, 2 * (8 + 16));
    tear_down(&fixture);
}

/* Field report B95: a prompt that grows page by page reads only what is new, with few snapshots too. */
static void a_growing_prompt_reads_only_what_is_new(void **state) {
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 64, 2);
    int32_t tokens[48];
    fill(tokens, 48, 0);
    for (int32_t count = PAGE_TOKENS; count <= 48; count += PAGE_TOKENS) {
        int32_t cached_count;
        assert_true(run_prompt(&fixture, tokens, count, &cached_count) >= FIRST_SLOT);
        assert_int_equal(cached_count, count - PAGE_TOKENS);
    }
    tear_down(&fixture);
}

/* M-14: the longest prefix of tokens that is cached, with a limit, and what is left of it without a snapshot.
 */
static void a_match_ends_at_a_snapshot(void **state) {
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 8, 2);
    int32_t tokens[12];
    int32_t cached_count;
    fill(tokens, 12, 5);
    assert_int_equal(run_prompt(&fixture, tokens, 8, &cached_count), FIRST_SLOT);
    assert_int_equal(run_prompt(&fixture, tokens, 12, &cached_count), FIRST_SLOT + 1);
    assert_int_equal(cached_count, 8);
    static const struct {
        int32_t limit, token_count, cached_token_count, slot;
    } cases[] = {{12, 12, 12, FIRST_SLOT + 1}, {11, 8, 8, FIRST_SLOT}, {7, 0, 4, -1}, {3, 0, 0, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t pages[3];
        struct prefix_match match;
        prefix_cache_match(fixture.cache, tokens, cases[i].limit, pages, &match);
        assert_int_equal(match.token_count, cases[i].token_count);
        assert_int_equal(match.cached_token_count, cases[i].cached_token_count);
        assert_int_equal(match.snapshot_slot, cases[i].slot);
        for (int32_t j = 0; j < match.token_count / PAGE_TOKENS; j++) {
            assert_int_equal(fixture.pool.reference_counts[pages[j]], 2);
            page_pool_drop_reference(&fixture.pool, pages[j]);
        }
    }
    prefix_cache_drop_snapshot(fixture.cache, tokens, 12);
    tokens[7]++;
    int32_t pages[3];
    struct prefix_match match;
    prefix_cache_match(fixture.cache, tokens, 12, pages, &match);
    assert_int_equal(match.token_count, 0);
    assert_int_equal(match.cached_token_count, 4);
    tear_down(&fixture);
}

/* With one slot each publication takes it from the one before; pages without it go first. */
static void snapshots_are_taken_from_the_oldest(void **state) {
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 4, 1);
    int32_t first[4] = {1, 2, 3, 4}, second[4] = {5, 6, 7, 8};
    int32_t cached_count;
    assert_int_equal(run_prompt(&fixture, first, 4, &cached_count), FIRST_SLOT);
    assert_int_equal(run_prompt(&fixture, second, 4, &cached_count), FIRST_SLOT);
    assert_int_equal(prefix_cache_counters(fixture.cache).evicted_snapshots, 1);
    assert_int_equal(run_prompt(&fixture, first, 4, &cached_count), FIRST_SLOT);
    assert_int_equal(cached_count, 0);
    /* Both pages are cached, the second prompt's was used before; the first one's has the snapshot. */
    prefix_cache_evict(fixture.cache, 3);
    run_prompt(&fixture, first, 4, &cached_count);
    assert_int_equal(cached_count, 4);
    tear_down(&fixture);
}

static void without_slots_pages_are_kept_in_vain(void **state) {
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 4, 0);
    int32_t tokens[4] = {1, 2, 3, 4};
    int32_t cached_count;
    assert_int_equal(run_prompt(&fixture, tokens, 4, &cached_count), -1);
    assert_int_equal(run_prompt(&fixture, tokens, 4, &cached_count), -1);
    assert_int_equal(cached_count, 0);
    tear_down(&fixture);
}

/* A snapshot without the draft layer's rows gives way to one with them; not the other way round. */
static void draft_rows_are_added_to_a_snapshot(void **state) {
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 2, 2);
    const int32_t tokens[4] = {1, 2, 3, 4};
    static const struct {
        bool has_draft_rows;
        int32_t slot;
        bool is_known_with_rows;
    } rounds[] = {{false, FIRST_SLOT, false},
                  {false, -1, false},
                  {true, FIRST_SLOT, true},
                  {true, -1, true},
                  {false, -1, true}};
    int32_t page = page_pool_take(&fixture.pool);
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        int32_t slot;
        assert_int_equal(
            prefix_cache_publish(fixture.cache, tokens, 4, &page, rounds[i].has_draft_rows, &slot),
            STATUS_OK);
        assert_int_equal(slot, rounds[i].slot);
        struct prefix_match match;
        prefix_cache_match(fixture.cache, tokens, 4, &page, &match);
        assert_int_equal(match.has_draft_rows, rounds[i].is_known_with_rows);
        page_pool_drop_reference(&fixture.pool, page);
    }
    page_pool_drop_reference(&fixture.pool, page);
    tear_down(&fixture);
}

/* Pages that a sequence still reads stay, however many are asked for; so do the pages before them. */
static void pages_in_use_are_never_dropped(void **state) {
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 4, 4);
    int32_t tokens[16];
    fill(tokens, 16, 0);
    int32_t cached_count;
    run_prompt(&fixture, tokens, 8, &cached_count);
    run_prompt(&fixture, tokens, 16, &cached_count);
    int32_t pages[4];
    struct prefix_match match;
    prefix_cache_match(fixture.cache, tokens, 8, pages, &match);
    assert_int_equal(match.token_count, 8);
    prefix_cache_evict(fixture.cache, 4);
    assert_int_equal(fixture.pool.free_count, 2);
    assert_int_equal(prefix_cache_counters(fixture.cache).unused_pages, 0);
    page_pool_drop_reference(&fixture.pool, pages[0]);
    prefix_cache_evict(fixture.cache, 4);
    assert_int_equal(fixture.pool.free_count, 2);
    page_pool_drop_reference(&fixture.pool, pages[1]);
    prefix_cache_evict(fixture.cache, 3);
    assert_int_equal(fixture.pool.free_count, 3);
    run_prompt(&fixture, tokens, 4, &cached_count);
    assert_int_equal(prefix_cache_counters(fixture.cache).cached_pages, 1);
    tear_down(&fixture);
}

/* The page of a branch, found without using it; -1 if it is gone. */
static int32_t find_page(const struct fixture *fixture, int32_t branch) {
    for (int32_t page = 0; page < fixture->pool.page_count; page++) {
        if (fixture->cache->nodes[page].is_cached &&
            fixture->cache->tokens[(size_t)page * PAGE_TOKENS] == branch) {
            return page;
        }
    }
    return -1;
}

enum { BRANCHES = 150, BRANCH_PAGES = 100 };

struct branch {
    int32_t last_use; /* -1: not cached */
    bool has_snapshot;
};

static bool goes_before(const struct branch *a, const struct branch *b) {
    return a->has_snapshot != b->has_snapshot ? b->has_snapshot : a->last_use < b->last_use;
}

/* No page of the heap goes before the one above it. */
static void check_heap(const struct prefix_cache *cache) {
    for (int32_t i = 1; i < cache->droppable_count; i++) {
        const struct prefix_node *above = &cache->nodes[cache->droppable[(i - 1) / 2]];
        const struct prefix_node *node = &cache->nodes[cache->droppable[i]];
        assert_int_equal(node->heap_index, i);
        bool has_snapshot = node->snapshot != PREFIX_NONE;
        bool has_snapshot_above = above->snapshot != PREFIX_NONE;
        assert_true(has_snapshot_above == has_snapshot ? above->last_use <= node->last_use : has_snapshot);
    }
}

/* Drops one page: of all branches that are cached the one without a snapshot, then the longest unused. */
static void drop_next_branch(struct fixture *fixture, struct branch *branches) {
    struct branch *next = NULL;
    for (struct branch *branch = branches; branch < branches + BRANCHES; branch++) {
        if (branch->last_use >= 0 && (next == NULL || goes_before(branch, next))) {
            next = branch;
        }
    }
    assert_non_null(next);
    assert_true(find_page(fixture, (int32_t)(next - branches)) >= 0);
    prefix_cache_evict(fixture->cache, fixture->pool.free_count + 1);
    assert_int_equal(find_page(fixture, (int32_t)(next - branches)), -1);
    next->last_use = -1;
}

/* Many branches of one page, used in a stirred order, losing their snapshots or dropped in between. */
static void branches_go_by_snapshot_and_last_use(void **state) {
    (void)state;
    struct fixture fixture;
    set_up(&fixture, BRANCH_PAGES, BRANCH_PAGES);
    struct branch branches[BRANCHES];
    for (int32_t i = 0; i < BRANCHES; i++) {
        branches[i] = (struct branch){-1, false};
    }
    uint32_t random = 1;
    for (int32_t use = 0; use < 5000; use++) {
        random = random * 1664525u + 1013904223u;
        struct branch *branch = &branches[(random >> 8) % BRANCHES];
        check_heap(fixture.cache);
        const int32_t tokens[4] = {(int32_t)(branch - branches), 0, 0, 0};
        if (random >> 30 == 1) {
            prefix_cache_drop_snapshot(fixture.cache, tokens, 4);
            branch->has_snapshot = false;
            continue;
        }
        if (fixture.pool.free_count == 0 || (use > 500 && random >> 30 == 0)) {
            drop_next_branch(&fixture, branches);
        }
        int32_t cached_count;
        run_prompt(&fixture, tokens, 4, &cached_count);
        assert_int_equal(cached_count, branch->last_use >= 0 && branch->has_snapshot ? 4 : 0);
        *branch = (struct branch){use, true};
    }
    while (fixture.pool.free_count < BRANCH_PAGES) {
        drop_next_branch(&fixture, branches);
    }
    tear_down(&fixture);
}

/* A sequence gets INTERNAL instead of another's page under its own prefix, or of a free page. */
static void pages_that_are_not_its_own_are_refused(void **state) {
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 4, 2);
    int32_t tokens[4] = {1, 2, 3, 4}, other[4] = {1, 2, 3, 5};
    int32_t cached_count;
    run_prompt(&fixture, tokens, 4, &cached_count);
    int32_t slot = 0;
    int32_t wrong_pages[] = {0, 3, -1, 4};
    for (size_t i = 0; i < sizeof wrong_pages / sizeof wrong_pages[0]; i++) {
        assert_int_equal(prefix_cache_publish(fixture.cache, other, 4, &wrong_pages[i], false, &slot),
                         STATUS_INTERNAL);
        assert_int_equal(slot, -1);
    }
    assert_int_equal(prefix_cache_counters(fixture.cache).cached_pages, 1);
    struct prefix_cache *second = NULL;
    struct prefix_cache_options options = {&fixture.pool, PAGE_TOKENS, FIRST_SLOT, 1, 1};
    assert_int_equal(prefix_cache_create(&options, &second), STATUS_BAD_ARGUMENT);
    tear_down(&fixture);
    options.page_tokens = 0;
    assert_int_equal(prefix_cache_create(&options, &second), STATUS_BAD_ARGUMENT);
    assert_null(second);
    prefix_cache_destroy(&second);
}

/* The pages that a second sequence computed of the same tokens stay its own; what follows is shared. */
static void twice_computed_pages_are_cached_once(void **state) {
    (void)state;
    struct fixture fixture;
    set_up(&fixture, 5, 4);
    int32_t tokens[12];
    fill(tokens, 12, 0);
    int32_t first[2], second[3];
    for (int i = 0; i < 2; i++) {
        first[i] = page_pool_take(&fixture.pool);
    }
    for (int i = 0; i < 3; i++) {
        second[i] = page_pool_take(&fixture.pool);
    }
    int32_t slot;
    assert_int_equal(prefix_cache_publish(fixture.cache, tokens, 8, first, false, &slot), STATUS_OK);
    assert_int_equal(prefix_cache_publish(fixture.cache, tokens, 12, second, false, &slot), STATUS_OK);
    assert_int_equal(slot, FIRST_SLOT + 1);
    assert_int_equal(prefix_cache_counters(fixture.cache).cached_pages, 3);
    int32_t pages[3];
    struct prefix_match match;
    prefix_cache_match(fixture.cache, tokens, 12, pages, &match);
    assert_int_equal(match.token_count, 12);
    assert_int_equal(pages[0], first[0]);
    assert_int_equal(pages[1], first[1]);
    assert_int_equal(pages[2], second[2]);
    for (int i = 0; i < 3; i++) {
        page_pool_drop_reference(&fixture.pool, pages[i]);
        page_pool_drop_reference(&fixture.pool, second[i]);
    }
    for (int i = 0; i < 2; i++) {
        page_pool_drop_reference(&fixture.pool, first[i]);
    }
    assert_int_equal(fixture.pool.free_count, 2);
    tear_down(&fixture);
}

static int64_t hash_count;

static struct hash128 hash_counted(const void *bytes, size_t length, uint64_t seed) {
    hash_count++;
    return hash_xxh3_128(bytes, length, seed);
}

/* Publishing after every page hashes every page once; a lookup hashes each of its pages once. */
static void the_work_grows_with_the_tokens(void **state) {
    (void)state;
    enum { PAGES = 500 };
    struct fixture fixture;
    set_up(&fixture, PAGES, 3);
    fixture.cache->hash = hash_counted;
    hash_count = 0;
    static int32_t tokens[PAGES * PAGE_TOKENS];
    fill(tokens, PAGES * PAGE_TOKENS, 0);
    int32_t pages[PAGES];
    for (int32_t i = 0; i < PAGES; i++) {
        pages[i] = page_pool_take(&fixture.pool);
        int32_t slot;
        assert_int_equal(
            prefix_cache_publish(fixture.cache, tokens, (i + 1) * PAGE_TOKENS, pages, true, &slot),
            STATUS_OK);
        assert_true(slot >= FIRST_SLOT);
    }
    assert_int_equal(hash_count, PAGES);
    struct prefix_match match;
    int32_t found[PAGES];
    prefix_cache_match(fixture.cache, tokens, PAGES * PAGE_TOKENS, found, &match);
    assert_int_equal(match.token_count, PAGES * PAGE_TOKENS);
    assert_int_equal(hash_count, 2 * PAGES);
    for (int32_t i = 0; i < PAGES; i++) {
        page_pool_drop_reference(&fixture.pool, found[i]);
        page_pool_drop_reference(&fixture.pool, pages[i]);
    }
    tear_down(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chats_that_take_turns_keep_their_prefixes),
        cmocka_unit_test(a_growing_prompt_reads_only_what_is_new),
        cmocka_unit_test(a_match_ends_at_a_snapshot),
        cmocka_unit_test(snapshots_are_taken_from_the_oldest),
        cmocka_unit_test(without_slots_pages_are_kept_in_vain),
        cmocka_unit_test(draft_rows_are_added_to_a_snapshot),
        cmocka_unit_test(pages_in_use_are_never_dropped),
        cmocka_unit_test(branches_go_by_snapshot_and_last_use),
        cmocka_unit_test(pages_that_are_not_its_own_are_refused),
        cmocka_unit_test(twice_computed_pages_are_cached_once),
        cmocka_unit_test(the_work_grows_with_the_tokens),
    };
    return cmocka_run_group_tests_name("prefix_cache", tests, NULL, NULL);
}
