/* Beginnings that sequences share: what is run once, and that keeping them costs no step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/scheduler_world.h"

/* A second request with the same beginning runs only what is new. */
static void test_shared_beginnings_run_once(void **state) {
    (void)state;
    struct world_setting setting = {
        .seed = 13, .slots = 1, .rows = 64, .pages = 64, .snapshots = 8, .requests = 3};
    struct world *world = world_create(&setting);
    int32_t prompt[42];
    for (int32_t i = 0; i < 42; i++) {
        prompt[i] = i;
    }
    world_submit(world, prompt, 42, 6, 0);
    while (world_step(world)) {
    }
    int64_t before = paper_model_row_count(world->model);
    world_submit(world, prompt, 42, 6, 0);
    while (world_step(world)) {
    }
    /* 40 tokens are cached: the prompt's last 2 and 5 of the answer run. */
    assert_int_equal(paper_model_row_count(world->model) - before, 7);
    assert_int_equal(world->sequences[1].cached_prompt_tokens, 40);
    /* The answer's own pages are there too: a prompt that goes on from it starts behind them. */
    int32_t longer[49];
    memcpy(longer, world->sequences[0].tokens, 48 * sizeof *longer);
    longer[48] = 3;
    world_submit(world, longer, 49, 1, 0);
    while (world_step(world)) {
    }
    assert_int_equal(world->sequences[2].cached_prompt_tokens, 44);
    world_check_texts(world);
    world_destroy(world);
}

/*
 * A prompt that fits a step takes one, whatever is kept of it for others: they start behind its last page,
 * and if it ends with a page, who goes on from its answer behind that.
 */
static void test_snapshots_take_no_step(void **state) {
    (void)state;
    for (int32_t count = 5; count <= 16; count++) {
        for (int32_t drafts = 0; drafts <= 2; drafts += 2) {
            struct world_setting setting = {
                .seed = 37, .slots = 1, .rows = 64, .pages = 64, .snapshots = 8, .drafts = drafts};
            struct world *world = world_create(&setting);
            int32_t prompt[16] = {0, 1, 2, 3, 4, 5, 6};
            world_submit(world, prompt, count, 1, 0);
            world_step(world);
            assert_int_equal(world->finished, 1);
            while (world_step(world)) {
            }
            world_submit(world, prompt, count, 8, 0);
            while (world_step(world)) {
            }
            assert_int_equal(world->sequences[1].cached_prompt_tokens,
                             (count - 1) / PAGE_TOKENS * PAGE_TOKENS);
            world_check_texts(world);
            world_destroy(world);
        }
    }
}

/* A store that is asked, and has nothing, after a while. */
struct slow_store {
    int32_t asked;
    int32_t left; /* steps until it is done */
    int32_t steps;
};

static bool slow_ask(void *context, const int32_t *tokens, int32_t limit, int32_t known_tokens,
                     const int32_t *pages, int64_t spare_pages) {
    struct slow_store *store = context;
    (void)tokens;
    (void)pages;
    (void)spare_pages;
    assert_true(limit - known_tokens >= PAGE_TOKENS);
    assert_int_equal(store->left, 0);
    store->asked++;
    store->left = store->steps;
    return store->left > 0;
}

static bool slow_go_on(void *context, const struct step_plan *pending, bool *is_carried_out) {
    struct slow_store *store = context;
    (void)pending;
    (void)is_carried_out;
    store->left -= store->left > 0;
    return store->left > 0;
}

static void slow_keep(void *context, const int32_t *tokens, int32_t token_count, const int32_t *pages,
                      int32_t snapshot_slot, bool has_draft_rows, const struct step_plan *pending,
                      bool *is_carried_out) {
    (void)context;
    (void)tokens;
    (void)token_count;
    (void)pages;
    (void)snapshot_slot;
    (void)has_draft_rows;
    (void)pending;
    (void)is_carried_out;
}

/* Who answers gets a token in every step, however long the beginning of another is on its way; each asks
 * once. */
static void test_answers_do_not_wait_for_the_store(void **state) {
    (void)state;
    enum { STEPS = 7 };
    struct slow_store store = {.steps = 0};
    struct world_setting setting = {
        .seed = 5,
        .slots = 3,
        .rows = 32,
        .pages = 64,
        .snapshots = 8,
        .store = {.ask = slow_ask, .go_on = slow_go_on, .keep = slow_keep, .context = &store}};
    struct world *world = world_create(&setting);
    const int32_t prompt[] = {1, 2, 3, 4, 5, 6, 7};
    const int32_t other[] = {7, 6, 5, 4, 3, 2, 1};
    world_submit(world, prompt, 3, 20, 0); /* too short to be asked for */
    world_step(world);
    assert_int_equal(store.asked, 0);
    store.steps = STEPS;
    world_submit(world, prompt, 7, 4, 0);
    world_submit(world, other, 7, 4, 0);
    for (int32_t step = 0; step < STEPS; step++) {
        int32_t tokens = world->sequences[0].token_count;
        world_step(world);
        assert_int_equal(world->sequences[0].token_count, tokens + 1);
        assert_int_equal(world->sequences[1].phase == SEQUENCE_RUNNING, step == STEPS - 1);
        assert_int_equal(world->sequences[2].phase, SEQUENCE_WAITING); /* behind it */
        assert_int_equal(store.asked, 1 + (step == STEPS - 1));
    }
    world->sequences[2].is_cancelled = true; /* while the store is busy for it */
    while (world_step(world)) {
    }
    assert_int_equal(store.asked, 2);
    assert_int_equal(world->finished, 3);
    assert_int_equal(scheduler_gauges(world->scheduler).store_queried_tokens, 2 * 6);
    world_check_texts(world);
    world_destroy(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_beginnings_run_once),
        cmocka_unit_test(test_snapshots_take_no_step),
        cmocka_unit_test(test_answers_do_not_wait_for_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
