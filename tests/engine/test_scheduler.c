/*
 * Schedules at random on a model on paper: whatever arrives, is cut, shared, drafted, pushed out or
 * cancelled, every request gets the text that it gets alone, and at the end nothing is left behind. Ticks are
 * run in the order of their plans, as all stages do; what they gave comes back later (spec parallelism 2.5).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/scheduler_world.h"

static struct world *run_to_the_end(const struct world_setting *setting) {
    struct world *world = world_create(setting);
    int32_t steps = 0;
    while (setting->is_crowded && world->submitted < setting->requests) {
        world_submit_at_random(world);
    }
    while (world->submitted < setting->requests || scheduler_first(world->scheduler, false) != NULL ||
           scheduler_first(world->scheduler, true) != NULL) {
        while (world->submitted < setting->requests && world_below(world, 3) == 0) {
            world_submit_at_random(world);
        }
        world_cancel_at_random(world);
        world_step(world);
        /* Something gets on in every step, so all ends. */
        assert_true(++steps < 100 * setting->requests + 1000);
    }
    assert_int_equal(world->finished, setting->requests);
    world_check_texts(world);
    return world;
}

static void run_many(int32_t count, struct world_setting (*draw)(struct world *source)) {
    struct world source = {.random = 20261129};
    for (int32_t i = 0; i < count; i++) {
        struct world_setting setting = draw(&source);
        setting.seed = (uint64_t)i + 1;
        world_destroy(run_to_the_end(&setting));
    }
}

static struct world_setting draw_any(struct world *source) {
    struct world_setting setting = {.slots = 1 + world_below(source, 6),
                                    .requests = 1 + world_below(source, 24)};
    setting.rows = setting.slots + world_below(source, 30);
    setting.pages = CONTEXT / PAGE_TOKENS + world_below(source, 30);
    setting.snapshots = world_below(source, 2) * (1 + world_below(source, 8));
    setting.drafts = world_below(source, 4);
    setting.is_adaptive = world_below(source, 2) == 0;
    setting.cancel_percent = world_below(source, 2) * 10;
    return setting;
}

static struct world_setting draw_stages(struct world *source) {
    struct world_setting setting = draw_any(source);
    setting.ticks = 1 + world_below(source, TICKS_MAX);
    setting.groups = 1 + world_below(source, setting.ticks);
    return setting;
}

static void test_any_schedule_gives_the_same_texts(void **state) {
    (void)state;
    run_many(3000, draw_any);
}

static void test_ticks_under_way_give_the_same_texts(void **state) {
    (void)state;
    run_many(3000, draw_stages);
}

/* Where drafts do not pay a few sequences try them from time to time, and the others' draft rows have gaps.
 */
static void test_some_sequences_try_drafts(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct world_setting setting = {.seed = seed,
                                              .slots = SLOTS_MAX,
                                              .rows = 3 * SLOTS_MAX,
                                              .pages = SLOTS_MAX * CONTEXT / PAGE_TOKENS,
                                              .snapshots = 4,
                                              .drafts = 2,
                                              .is_adaptive = true,
                                              .requests = REQUESTS_MAX,
                                              .is_crowded = true,
                                              .row_seconds = 1e-3};
        struct world *world = run_to_the_end(&setting);
        assert_true(world->partial_ticks > 8);
        world_destroy(world);
    }
}

/*
 * M-13: the draft layer attends to a window only, so of a prompt it catches up on the last W + K_max rows,
 * also on those of earlier parts where the last one is shorter, and on all of a prompt that is no longer.
 * That the rows are the right ones is noticed when drafts read them.
 */
static void test_drafts_need_the_end_of_a_prompt(void **state) {
    (void)state;
    enum { DRAFTS = 2, WINDOW = PAPER_WINDOW + DRAFTS };
    for (int32_t rows = DRAFTS + 1; rows <= 2 * WINDOW + 1; rows++) {
        for (int32_t count = 1; count <= 3 * WINDOW; count++) {
            struct world_setting setting = {
                .seed = 3, .slots = 1, .rows = rows, .pages = 40, .drafts = DRAFTS, .requests = 1};
            struct world *world = world_create(&setting);
            int32_t prompt[3 * WINDOW] = {7};
            world_submit(world, prompt, count, 6, 0);
            while (world_step(world)) {
            }
            assert_int_equal(world->prompt_draft_rows, count < WINDOW ? count : WINDOW);
            world_check_texts(world);
            world_destroy(world);
        }
    }
}

/* So few pages that running requests push each other out. */
static void test_preempted_requests_resume(void **state) {
    (void)state;
    struct world_setting setting = {
        .seed = 5, .slots = 6, .rows = 16, .pages = CONTEXT / PAGE_TOKENS + 2, .drafts = 2, .requests = 40};
    struct world *world = world_create(&setting);
    for (int32_t i = 0; i < setting.requests; i++) {
        int32_t prompt[3] = {i, 1, 2};
        world_submit(world, prompt, 3, 50, 0);
    }
    while (world_step(world)) {
    }
    assert_true(scheduler_gauges(world->scheduler).preemptions > 10);
    assert_int_equal(world->finished, setting.requests);
    world_check_texts(world);
    world_destroy(world);
}

/* Pages are kept free for those alone who will want more: requests of one page run on every page. */
static void test_requests_fill_all_pages(void **state) {
    (void)state;
    struct world_setting setting = {.seed = 3, .slots = 4, .rows = 32, .pages = 4, .requests = 8};
    struct world *world = world_create(&setting);
    int32_t prompt[PAGE_TOKENS] = {1, 2, 3};
    for (int i = 0; i < 4; i++) {
        world_submit(world, prompt, PAGE_TOKENS - 2, 2, 0);
    }
    world_step(world);
    assert_int_equal(scheduler_gauges(world->scheduler).running, 4);
    while (world_step(world)) {
    }
    /* With two pages each there are pages for four prompts, but only two can go on. */
    for (int i = 0; i < 4; i++) {
        world_submit(world, prompt, PAGE_TOKENS - 2, PAGE_TOKENS, 0);
    }
    world_step(world);
    assert_int_equal(scheduler_gauges(world->scheduler).running, 2);
    while (world_step(world)) {
    }
    world_check_texts(world);
    world_destroy(world);
}

/* P-32: a running answer gets a token in every step, whatever long prompts arrive. */
static void test_prompts_do_not_delay_answers(void **state) {
    (void)state;
    struct world_setting setting = {.seed = 7, .slots = 4, .rows = 8, .pages = 80, .requests = 4};
    struct world *world = world_create(&setting);
    int32_t prompt[CONTEXT] = {1, 2, 3};
    world_submit(world, prompt, 3, 40, 0);
    world_step(world);
    for (int i = 0; i < 3; i++) {
        world_submit(world, prompt, 50, 5, 0);
    }
    for (int32_t i = 0; i < 30; i++) {
        int32_t before = world->sequences[0].token_count;
        world_step(world);
        assert_int_equal(world->sequences[0].token_count, before + 1);
    }
    while (world_step(world)) {
    }
    world_check_texts(world);
    world_destroy(world);
}

static void test_priorities_and_order(void **state) {
    (void)state;
    struct world_setting setting = {.seed = 9, .slots = 1, .rows = 64, .pages = 20, .requests = 4};
    struct world *world = world_create(&setting);
    int32_t prompt[2] = {1, 2};
    world_submit(world, prompt, 2, 2, 1);
    world_submit(world, prompt, 2, 2, 1);
    world_submit(world, prompt, 2, 2, 0);
    int32_t order[3];
    for (int32_t done = 0; done < 3; done = world->finished) {
        world_step(world);
        if (world->finished > done) {
            for (int32_t i = 0; i < 3; i++) {
                if (world->sequences[i].last_token_seconds == world->now - 1.0) {
                    order[done] = i;
                }
            }
        }
    }
    assert_int_equal(order[0], 2);
    assert_int_equal(order[1], 0);
    assert_int_equal(order[2], 1);
    world_destroy(world);
}

static void test_deadlines_and_cancellation_take_one_step(void **state) {
    (void)state;
    struct world_setting setting = {.seed = 11, .slots = 2, .rows = 8, .pages = 40, .requests = 3};
    struct world *world = world_create(&setting);
    int32_t prompt[30] = {5};
    world_submit(world, prompt, 30, 30, 0);
    world_submit(world, prompt, 3, 30, 0);
    world_submit(world, prompt, 3, 30, 0);
    world->sequences[0].deadline = 2.5;
    world->sequences[2].deadline = 1.5;
    world_step(world);
    world_step(world);
    world_step(world); /* at 2: the one that waits is too late */
    assert_int_equal(world->sequences[2].finish_reason, SLUICE_FINISH_DEADLINE);
    world_step(world);
    assert_int_equal(world->sequences[0].finish_reason, SLUICE_FINISH_DEADLINE);
    world->sequences[1].is_cancelled = true;
    assert_false(world_step(world));
    assert_int_equal(world->sequences[1].finish_reason, SLUICE_FINISH_CANCELLED);
    assert_int_equal(world->pages.free_count, setting.pages);
    world_destroy(world);
}

/* Waiting ends when the first step begins, not when it is done. */
static void test_waiting_ends_with_the_first_step(void **state) {
    (void)state;
    struct world_setting setting = {.seed = 19, .slots = 1, .rows = 8, .pages = 40, .requests = 2};
    struct world *world = world_create(&setting);
    struct round_plan plan;
    struct round_result result;
    int32_t prompt[20] = {5};
    world_submit(world, prompt, 20, 2, 0);
    world_submit(world, prompt, 20, 2, 0);
    for (double now = 7.0; scheduler_plan(world->scheduler, now, &plan); now += 2.0) {
        paper_model_run(world->model, &plan, &result);
        scheduler_complete(world->scheduler, &result, now + 1.0);
    }
    /* 20 rows are three steps, the second token a fourth: at 7, 9, 11 and 13. Then the other's turn. */
    assert_true(world->sequences[0].start_seconds == 7.0);
    assert_true(world->sequences[0].first_token_seconds == 12.0);
    assert_true(world->sequences[1].start_seconds == 15.0);
    world_destroy(world);
}

/* Requests that come and go as fast as they can leave nothing behind. */
static void test_nothing_leaks(void **state) {
    (void)state;
    struct world_setting setting = {
        .seed = 17, .slots = 5, .rows = 20, .pages = 30, .snapshots = 6, .drafts = 2};
    struct world *world = world_create(&setting);
    for (int32_t done = 0; done < 100000 / REQUESTS_MAX; done++) {
        world->submitted = 0;
        world->finished = 0;
        while (world->submitted < REQUESTS_MAX) {
            int32_t prompt[20];
            int32_t count = 1 + world_below(world, 20);
            for (int32_t i = 0; i < count; i++) {
                prompt[i] = world_below(world, 2);
            }
            world_submit(world, prompt, count, 1 + world_below(world, 3), 0);
            world->sequences[world->submitted - 1].is_cancelled = world_below(world, 4) == 0;
        }
        while (world_step(world)) {
        }
        assert_int_equal(world->finished, REQUESTS_MAX);
        assert_int_equal(world->pages.free_count + prefix_cache_counters(world->prefixes).unused_pages,
                         setting.pages);
        for (int32_t i = 0; i < REQUESTS_MAX; i++) {
            sequence_deinit(&world->sequences[i]);
        }
    }
    world->submitted = 0;
    prefix_cache_clear(world->prefixes);
    assert_int_equal(world->pages.free_count, setting.pages);
    world_destroy(world);
}

/*
 * Rounds that fail, before they have changed anything or after: they end what runs and waits, and leave
 * nothing in the next plan but what it needs itself.
 */
static void test_failed_rounds_leave_nothing(void **state) {
    (void)state;
    struct world_setting setting = {
        .seed = 19, .slots = 3, .rows = 40, .pages = 40, .snapshots = 6, .drafts = 2};
    struct world *world = world_create(&setting);
    for (int32_t i = 0; i < 200; i++) {
        world->submitted = 0;
        world->finished = 0;
        while (world->submitted < 2 * setting.slots) {
            world_submit_at_random(world);
        }
        for (int32_t steps = world_below(world, 8); steps > 0 && world_step(world); steps--) {
        }
        struct round_plan plan;
        struct round_result result;
        if (scheduler_plan(world->scheduler, world->now, &plan)) {
            assert_in_range(plan.step.slot_operation_count, 0, SCHEDULER_OPERATIONS_PER_SLOT * setting.slots);
            assert_in_range(plan.step.page_update_count, 0, 3 * setting.slots * (CONTEXT / PAGE_TOKENS));
            if (world_below(world, 2) == 0) {
                paper_model_run(world->model, &plan, &result);
            }
            scheduler_fail(world->scheduler, STATUS_IO, "the device is gone");
        }
        assert_int_equal(world->finished, world->submitted);
        assert_int_equal(world->pages.free_count + prefix_cache_counters(world->prefixes).unused_pages,
                         setting.pages);
        for (int32_t r = 0; r < world->submitted; r++) {
            struct sequence *sequence = &world->sequences[r];
            if (sequence->finish_reason == SLUICE_FINISH_ERROR) {
                assert_int_equal(sequence->status, STATUS_IO);
                assert_string_equal(sequence->message, "the device is gone");
            }
            for (int32_t t = sequence->prompt_count; t < sequence->token_count; t++) {
                assert_int_equal(sequence->tokens[t], paper_model_next_token(sequence->tokens, t));
            }
            sequence_deinit(sequence);
        }
    }
    world->submitted = 0;
    world_destroy(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_schedule_gives_the_same_texts),
        cmocka_unit_test(test_ticks_under_way_give_the_same_texts),
        cmocka_unit_test(test_some_sequences_try_drafts),
        cmocka_unit_test(test_drafts_need_the_end_of_a_prompt),
        cmocka_unit_test(test_preempted_requests_resume),
        cmocka_unit_test(test_requests_fill_all_pages),
        cmocka_unit_test(test_prompts_do_not_delay_answers),
        cmocka_unit_test(test_priorities_and_order),
        cmocka_unit_test(test_deadlines_and_cancellation_take_one_step),
        cmocka_unit_test(test_waiting_ends_with_the_first_step),
        cmocka_unit_test(test_nothing_leaks),
        cmocka_unit_test(test_failed_rounds_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
