/* Several ticks under way at once: groups of sequences, and parts of one prompt (spec parallelism 2.5). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/scheduler_world.h"

/* Groups of answers are as many as ticks, so that all of these are always under way (P-25, P-28). */
static void test_groups_fill_the_stages(void **state) {
    (void)state;
    struct world_setting setting = {
        .seed = 23, .slots = 6, .rows = 40, .pages = 120, .requests = 6, .ticks = 3};
    struct world *world = world_create(&setting);
    for (int32_t i = 0; i < setting.requests; i++) {
        int32_t prompt[3] = {i, 1, 2};
        world_submit(world, prompt, 3, 40, 0);
    }
    while (world_step(world)) {
        int32_t groups[3] = {0};
        for (struct sequence *s = scheduler_first(world->scheduler, false); s != NULL; s = s->next) {
            groups[s->group]++;
        }
        if (scheduler_gauges(world->scheduler).running == 6) {
            assert_true(groups[0] == 2 && groups[1] == 2 && groups[2] == 2);
        }
    }
    assert_int_equal(world->most_under_way, 3);
    world_check_texts(world);
    world_destroy(world);
}

/* When the requests of all groups but one have ended, what is left is dealt out anew (P-27). */
static void test_groups_even_out(void **state) {
    (void)state;
    struct world_setting setting = {
        .seed = 29, .slots = 4, .rows = 40, .pages = 120, .requests = 4, .ticks = 2};
    struct world *world = world_create(&setting);
    for (int32_t i = 0; i < setting.requests; i++) {
        int32_t prompt[3] = {i, 1, 2};
        world_submit(world, prompt, 3, 60, 0);
    }
    for (int i = 0; i < 4; i++) {
        world_step(world);
    }
    int32_t group = world->sequences[0].group;
    for (int32_t i = 0; i < 4; i++) {
        world->sequences[i].is_cancelled = world->sequences[i].group != group;
    }
    for (int i = 0; i < 40; i++) {
        world_step(world);
    }
    int32_t groups[2] = {0};
    for (struct sequence *s = scheduler_first(world->scheduler, false); s != NULL; s = s->next) {
        groups[s->group]++;
    }
    assert_int_equal(groups[0], 1);
    assert_int_equal(groups[1], 1);
    while (world_step(world)) {
    }
    world_check_texts(world);
    world_destroy(world);
}

/* Ticks beyond the groups are for prompts that nobody's answer waits behind. */
static void test_only_prompts_have_more_ticks_than_groups(void **state) {
    (void)state;
    struct world_setting setting = {
        .seed = 37, .slots = 2, .rows = 8, .pages = 80, .requests = 2, .ticks = 3, .groups = 2};
    struct world *world = world_create(&setting);
    struct round_plan plan;
    int32_t prompt[58] = {5};
    world_submit(world, prompt, 58, 4, 0);
    for (int i = 0; i < 3; i++) {
        assert_true(world_plan_tick(world));
    }
    assert_false(scheduler_plan(world->scheduler, world->now, &plan));
    while (world_step(world)) {
    }
    /* Another answers while the next prompt is read. */
    world_submit(world, prompt, 3, 20, 0);
    while (world->sequences[1].token_count < 6) {
        world_step(world);
    }
    world_submit(world, prompt, 58, 4, 0);
    while (world->sequences[1].finish_reason == SLUICE_FINISH_NONE) {
        world->most_under_way = 0;
        world_step(world);
        assert_true(world->most_under_way <= 2);
    }
    while (world_step(world)) {
    }
    world_check_texts(world);
    world_destroy(world);
}

/* Parts of one prompt are in consecutive ticks that wait for nothing (P-30); one tick more is refused (T-17).
 */
static void test_parts_of_a_prompt_do_not_wait(void **state) {
    (void)state;
    struct world_setting setting = {
        .seed = 31, .slots = 2, .rows = 8, .pages = 80, .requests = 1, .ticks = 4};
    struct world *world = world_create(&setting);
    int32_t prompt[50] = {5};
    world_submit(world, prompt, 50, 4, 0);
    for (int i = 0; i < 4; i++) {
        assert_true(world_plan_tick(world));
    }
    struct round_plan plan;
    assert_false(scheduler_plan(world->scheduler, world->now, &plan));
    assert_int_equal(world->sequences[0].ticks, 4);
    assert_int_equal(world->sequences[0].planned, 32);
    assert_int_equal(world->sequences[0].computed, 0);
    world_complete_tick(world);
    assert_int_equal(world->sequences[0].computed, 8);
    while (world_step(world)) {
    }
    assert_int_equal(world->chunks_in_a_row, 4);
    world_check_texts(world);
    world_destroy(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_fill_the_stages),
        cmocka_unit_test(test_groups_even_out),
        cmocka_unit_test(test_only_prompts_have_more_ticks_than_groups),
        cmocka_unit_test(test_parts_of_a_prompt_do_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
