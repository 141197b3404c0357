/* The prefix cache (M-27) against a naive one, over seeded sequences of operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/noise.h"
#include "engine/prefix_cache_internal.h"
#include "engine/prefix_model.h"

enum { SEED_COUNT = 3000, OPERATION_COUNT = 120 };

struct world {
    struct page_pool pool;
    struct prefix_cache *cache;
    struct model model;
    uint32_t seed;
    uint32_t draws;
};

static int32_t draw(struct world *world, int32_t limit) {
    const uint32_t counter[4] = {world->draws++, 0, 0, 0};
    const uint32_t key[2] = {world->seed, 7};
    uint32_t words[4];
    noise_philox(counter, key, words);
    return (int32_t)(words[0] % (uint32_t)limit);
}

static void check_references(struct world *world) {
    const struct page_pool *pool = &world->pool;
    int32_t unused = 0;
    int32_t referenced = 0;
    for (int32_t page = 0; page < MODEL_PAGES; page++) {
        int32_t from_sequences = model_sequence_references(&world->model, page);
        bool is_cached = model_find_page(&world->model, page) != NULL;
        assert_int_equal(pool->reference_counts[page], from_sequences + is_cached);
        assert_int_equal(world->cache->nodes[page].is_cached, is_cached);
        unused += is_cached && from_sequences == 0;
        referenced += from_sequences > 0;
    }
    bool is_seen[MODEL_PAGES] = {false};
    for (int32_t i = 0; i < pool->free_count; i++) {
        assert_false(is_seen[pool->free_pages[i]]);
        is_seen[pool->free_pages[i]] = true;
        assert_int_equal(pool->reference_counts[pool->free_pages[i]], 0);
    }
    assert_int_equal(pool->free_count + unused + referenced, MODEL_PAGES);
    assert_int_equal(prefix_cache_counters(world->cache).unused_pages, unused);
}

static void check_entries(struct world *world) {
    int64_t snapshots = 0;
    for (int32_t i = 0; i < world->model.entry_count; i++) {
        const struct model_entry *entry = &world->model.entries[i];
        const struct prefix_node *node = &world->cache->nodes[entry->page];
        assert_int_equal(node->snapshot, entry->slot < 0 ? PREFIX_NONE : entry->slot - MODEL_FIRST_SLOT);
        snapshots += entry->slot >= 0;
        struct model_entry *parent =
            model_find(&world->model, entry->prefix.tokens, entry->prefix.token_count - MODEL_PAGE_TOKENS);
        assert_int_equal(node->parent, parent == NULL ? PREFIX_NONE : parent->page);
        bool is_droppable = node->child_count == 0 && world->pool.reference_counts[entry->page] == 1;
        assert_int_equal(node->heap_index != PREFIX_NONE, is_droppable);
        assert_true(!is_droppable || world->cache->droppable[node->heap_index] == entry->page);
    }
    struct prefix_cache_counters counters = prefix_cache_counters(world->cache);
    assert_int_equal(counters.cached_pages, world->model.entry_count);
    assert_int_equal(counters.snapshots, snapshots);
    assert_int_equal(counters.hits, world->model.hits);
    assert_int_equal(counters.hit_tokens, world->model.hit_tokens);
    assert_int_equal(counters.evicted_pages, world->model.evicted_pages);
    assert_int_equal(counters.evicted_snapshots, world->model.evicted_snapshots);
}

/* A page for a sequence, made free if need be; -1 if all are in use. */
static int32_t take_page(struct world *world) {
    if (world->pool.free_count == 0) {
        prefix_cache_evict(world->cache, 1);
        assert_int_equal(world->pool.free_count, model_evict(&world->model, 1));
    }
    return page_pool_take(&world->pool);
}

/* Runs a page's worth of tokens, so that the page holds what was computed from all tokens up to its end. */
static bool extend(struct world *world, struct model_sequence *sequence, const int32_t *tokens) {
    int32_t count = sequence->prefix.token_count;
    if (count == MODEL_TOKENS) {
        return false;
    }
    int32_t page = take_page(world);
    if (page < 0) {
        return false;
    }
    sequence->pages[count / MODEL_PAGE_TOKENS] = page;
    memcpy(sequence->prefix.tokens + count, tokens, MODEL_PAGE_TOKENS * sizeof *tokens);
    sequence->prefix.token_count += MODEL_PAGE_TOKENS;
    world->model.page_contents[page] = sequence->prefix;
    return true;
}

static void assert_holds(const struct model_prefix *content, const int32_t *tokens, int32_t token_count) {
    assert_int_equal(content->token_count, token_count);
    assert_memory_equal(content->tokens, tokens, (size_t)token_count * sizeof *tokens);
}

static void start(struct world *world, struct model_sequence *sequence) {
    int32_t tokens[MODEL_TOKENS];
    for (int i = 0; i < MODEL_TOKENS; i++) {
        tokens[i] = draw(world, 8) == 0;
    }
    int32_t limit = draw(world, MODEL_TOKENS + 1);
    int32_t expected_pages[MODEL_SEQUENCE_PAGES] = {0};
    struct prefix_match expected = model_match(&world->model, tokens, limit, expected_pages);
    struct prefix_match match;
    prefix_cache_match(world->cache, tokens, limit, sequence->pages, &match);
    assert_int_equal(match.token_count, expected.token_count);
    assert_int_equal(match.snapshot_slot, expected.snapshot_slot);
    assert_int_equal(match.has_draft_rows, expected.has_draft_rows);
    assert_int_equal(match.cached_token_count, expected.cached_token_count);
    for (int32_t i = 0; i < match.token_count / MODEL_PAGE_TOKENS; i++) {
        assert_int_equal(sequence->pages[i], expected_pages[i]);
        assert_holds(&world->model.page_contents[sequence->pages[i]], tokens, (i + 1) * MODEL_PAGE_TOKENS);
    }
    if (match.token_count > 0) {
        assert_holds(&world->model.slot_contents[match.snapshot_slot - MODEL_FIRST_SLOT], tokens,
                     match.token_count);
    }
    sequence->is_running = true;
    memcpy(sequence->prefix.tokens, tokens, sizeof tokens);
    sequence->prefix.token_count = match.token_count;
    int32_t goal = match.token_count + draw(world, MODEL_TOKENS);
    while (sequence->prefix.token_count < goal &&
           extend(world, sequence, tokens + sequence->prefix.token_count % MODEL_TOKENS)) {
    }
}

static void finish(struct world *world, struct model_sequence *sequence) {
    int32_t page_count = sequence->prefix.token_count / MODEL_PAGE_TOKENS;
    bool is_backwards = draw(world, 2) == 0;
    for (int32_t i = 0; i < page_count; i++) {
        int32_t *page = &sequence->pages[is_backwards ? page_count - 1 - i : i];
        int32_t dropped = *page;
        *page = -1;
        page_pool_drop_reference(&world->pool, dropped);
        model_release(&world->model, dropped);
    }
    sequence->is_running = false;
}

static void publish(struct world *world, struct model_sequence *sequence) {
    int32_t page_count = sequence->prefix.token_count / MODEL_PAGE_TOKENS;
    int32_t token_count = draw(world, page_count + 1) * MODEL_PAGE_TOKENS;
    bool has_draft_rows = draw(world, 2) == 0;
    int32_t slot;
    assert_int_equal(prefix_cache_publish(world->cache, sequence->prefix.tokens, token_count, sequence->pages,
                                          has_draft_rows, &slot),
                     STATUS_OK);
    assert_int_equal(slot, model_publish(&world->model, sequence, token_count, has_draft_rows, slot));
    if (slot >= 0) {
        struct model_prefix *content = &world->model.slot_contents[slot - MODEL_FIRST_SLOT];
        *content = sequence->prefix;
        content->token_count = token_count;
    }
}

static void change_cache(struct world *world, const struct model_sequence *sequence) {
    int32_t count = draw(world, MODEL_PAGES);
    switch (draw(world, 8)) {
    case 0:
        prefix_cache_clear(world->cache);
        model_clear(&world->model);
        break;
    case 1:
    case 2:
        count = count % (MODEL_SEQUENCE_PAGES + 1) * MODEL_PAGE_TOKENS;
        prefix_cache_drop_snapshot(world->cache, sequence->prefix.tokens, count);
        model_drop_snapshot(&world->model, sequence->prefix.tokens, count);
        break;
    default:
        prefix_cache_evict(world->cache, count);
        assert_int_equal(world->pool.free_count, model_evict(&world->model, count));
        break;
    }
}

static void operate(struct world *world) {
    struct model_sequence *sequence = &world->model.sequences[draw(world, MODEL_SEQUENCES)];
    int32_t choice = draw(world, 10);
    if (choice == 0) {
        change_cache(world, sequence);
    } else if (!sequence->is_running) {
        start(world, sequence);
    } else if (choice <= 2) {
        finish(world, sequence);
    } else if (choice <= 5) {
        const int32_t tokens[MODEL_PAGE_TOKENS] = {draw(world, 2), draw(world, 2)};
        extend(world, sequence, tokens);
    } else {
        publish(world, sequence);
    }
}

typedef struct hash128 (*hash_function)(const void *bytes, size_t length, uint64_t seed);

static void run_world(uint32_t seed, hash_function hash) {
    struct world world = {.seed = seed};
    assert_int_equal(page_pool_init(&world.pool, MODEL_PAGES), STATUS_OK);
    const struct prefix_cache_options options = {&world.pool, MODEL_PAGE_TOKENS, MODEL_FIRST_SLOT,
                                                 MODEL_SNAPSHOTS, seed};
    assert_int_equal(prefix_cache_create(&options, &world.cache), STATUS_OK);
    world.cache->hash = hash;
    for (int i = 0; i < OPERATION_COUNT; i++) {
        operate(&world);
        check_references(&world);
        check_entries(&world);
    }
    for (int i = 0; i < MODEL_SEQUENCES; i++) {
        if (world.model.sequences[i].is_running) {
            finish(&world, &world.model.sequences[i]);
        }
    }
    /* Idle: what is not free is cached, and a flush frees it (field report B102). */
    struct prefix_cache_counters counters = prefix_cache_counters(world.cache);
    assert_int_equal(counters.cached_pages, counters.unused_pages);
    assert_int_equal(world.pool.free_count + counters.cached_pages, MODEL_PAGES);
    prefix_cache_evict(world.cache, MODEL_PAGES);
    assert_int_equal(world.pool.free_count, MODEL_PAGES);
    prefix_cache_destroy(&world.cache);
    page_pool_deinit(&world.pool);
}

static void random_operations_agree(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < SEED_COUNT; seed++) {
        run_world(seed, hash_xxh3_128);
    }
}

static struct hash128 hash_all_alike(const void *bytes, size_t length, uint64_t seed) {
    (void)bytes;
    (void)length;
    (void)seed;
    return (struct hash128){0, 0};
}

static struct hash128 hash_one_bit(const void *bytes, size_t length, uint64_t seed) {
    return (struct hash128){hash_xxh3_128(bytes, length, seed).low & 1, 0};
}

/* All prefixes in one bucket, or in two: what decides are the tokens. */
static void colliding_keys_change_nothing(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < SEED_COUNT / 4; seed++) {
        run_world(seed, hash_all_alike);
        run_world(seed, hash_one_bit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_agree),
        cmocka_unit_test(colliding_keys_change_nothing),
    };
    return cmocka_run_group_tests_name("prefix_cache_model", tests, NULL, NULL);
}
