/*
 * The controller on simulated machines, against the same machine without drafts and with every fixed number
 * of them: it must come within 1 % of the best, and never lose 1 % to drafting nothing (spec parallelism,
 * M-37, T-19).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test_draft_controller_world.h"

enum { LIMIT = 4, TOKENS = 45000 };

#define BYTES_BOUND \
    { 10, 0.01, 0, 0.1, 0.6, 0.005 }
#define LINEAR \
    { 0, 1, 0, 0.02, 0.15, 0.05 }
#define MOE \
    { 4, 0.02, 40, 0.1, 0.6, 0.01 }
#define BETWEEN \
    { 1, 0.25, 10, 0.05, 0.4, 0.02 }
#define SMALL \
    { 0.15, 0.075, 0, 0.02, 0.035, 0.01 }
#define MEDIUM \
    { 0.42, 0.0625, 0, 0.05, 0.1, 0.008 }
#define MILD \
    { 6, 0.12, 0, 0.1, 0.3, 0.01 }

static void compete_at(const struct world_options *options, int32_t slot_count, int32_t limit) {
    static const int32_t lengths[] = {1, 2, 3, 4, 8, 12, 16};
    struct world_result off = world_run(options, slot_count, 0, false);
    double best = off.late_rate;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0] && lengths[i] <= limit; i++) {
        double rate = world_run(options, slot_count, lengths[i], false).late_rate;
        best = rate > best ? rate : best;
    }
    struct world_result ours = world_run(options, slot_count, limit, true);
    if (ours.late_rate < 0.99 * best) {
        fail_msg("%d sequences: %.1f tokens per second, %.1f are possible", slot_count, ours.late_rate, best);
    }
    if (ours.tokens_per_second < 0.99 * off.tokens_per_second) {
        fail_msg("%d sequences: %.1f tokens per second, %.1f without drafts", slot_count,
                 ours.tokens_per_second, off.tokens_per_second);
    }
}

static void compete(struct world_options options) {
    options.tokens_per_slot = TOKENS;
    for (int32_t slot_count = 1; slot_count <= WORLD_SLOTS_MAX; slot_count *= 2) {
        compete_at(&options, slot_count, LIMIT);
    }
}

static void extra_rows_are_almost_free(void **state) {
    (void)state;
    struct world_options options = {
        .costs = {BYTES_BOUND, BYTES_BOUND}, .chances = {{0.8, 0.8}, {0.8, 0.8}}, .chance_factor = 0.85};
    compete(options);
    options.is_profiled = true;
    compete(options);
}

static void drafts_never_pay(void **state) {
    (void)state;
    struct world_options options = {.costs = {LINEAR, LINEAR},
                                    .chances = {{0.8, 0.8}, {0.05, 0.05}},
                                    .chance_factor = 0.85,
                                    .is_profiled = true};
    compete(options);
}

static void experts_make_the_second_row_dear(void **state) {
    (void)state;
    struct world_options options = {
        .costs = {MOE, MOE}, .chances = {{0.8, 0.8}, {0.8, 0.8}}, .chance_factor = 0.85, .is_profiled = true};
    compete(options);
}

static void costs_change(void **state) {
    (void)state;
    struct world_options options = {.costs = {BYTES_BOUND, LINEAR},
                                    .chances = {{0.8, 0.8}, {0.8, 0.8}},
                                    .chance_factor = 0.85,
                                    .is_profiled = true};
    compete(options);
    options.costs[0] = (struct world_costs)LINEAR;
    options.costs[1] = (struct world_costs)BYTES_BOUND;
    compete(options);
}

static void acceptance_changes(void **state) {
    (void)state;
    struct world_options options = {.costs = {BETWEEN, BETWEEN},
                                    .chances = {{0.85, 0.85}, {0.05, 0.05}},
                                    .chance_factor = 0.85,
                                    .is_profiled = true};
    compete(options);
    options.chances[0][0] = options.chances[0][1] = 0.05;
    options.chances[1][0] = options.chances[1][1] = 0.85;
    compete(options);
}

/* With prompts among the ticks. */
static void sequences_differ(void **state) {
    (void)state;
    struct world_options options = {.costs = {MILD, MILD},
                                    .chances = {{0.95, 0.2}, {0.95, 0.2}},
                                    .chance_factor = 0.95,
                                    .prompt_rows = 256,
                                    .is_profiled = true};
    compete(options);
}

/* No fixed number is as good as one for each: 10 % more, where rows have a price. */
static void confident_sequences_draft_more(void **state) {
    (void)state;
    struct world_options options = {.costs = {MILD, MILD},
                                    .chances = {{0.95, 0.2}, {0.95, 0.2}},
                                    .chance_factor = 0.95,
                                    .tokens_per_slot = 10000,
                                    .is_profiled = true};
    struct world_result ours = world_run(&options, 16, LIMIT, true);
    assert_true(ours.slot_drafts[0] > 2.5);
    assert_true(ours.slot_drafts[1] < 1);
    for (int32_t length = 1; length <= LIMIT; length++) {
        struct world_result fixed = world_run(&options, 16, length, false);
        assert_true(ours.late_rate > 1.1 * fixed.late_rate);
    }
}

/* The best of no drafts and of every fixed number, of three at most. */
static double best_fixed_rate(const struct world_options *options, int32_t slot_count) {
    double best = 0;
    for (int32_t length = 0; length <= 3; length++) {
        double rate = world_run(options, slot_count, length, false).late_rate;
        best = rate > best ? rate : best;
    }
    return best;
}

static void assert_near_best(const struct world_options *options) {
    for (int32_t slot_count = 1; slot_count <= WORLD_SLOTS_MAX; slot_count *= 4) {
        double rate = world_run(options, slot_count, 3, true).late_rate;
        assert_true(rate > 0.98 * best_fixed_rate(options, slot_count));
    }
}

/*
 * Answers of a few rounds, of a small model on few cores: drafting pays for few sequences only, and never
 * much. With prompts, half of the rows are theirs.
 */
static void short_answers_of_a_small_model(void **state) {
    (void)state;
    struct world_options options = {.costs = {SMALL, SMALL},
                                    .chances = {{0.92, 0.92}, {0.92, 0.92}},
                                    .chance_factor = 0.91,
                                    .answer_tokens = 64,
                                    .tokens_per_slot = TOKENS / 3,
                                    .is_profiled = true};
    for (options.prompt_rows = 0; options.prompt_rows <= 64; options.prompt_rows += 64) {
        assert_near_best(&options);
    }
    /* The right number is found within a hundred rounds or two. */
    options.prompt_rows = 0;
    options.tokens_per_slot = 1500;
    assert_true(world_run(&options, 1, 3, true).late_rate > 0.97 * best_fixed_rate(&options, 1));
}

/*
 * The draft layer reads prompts too, and what a prompt takes there a short answer may not bring in. By the
 * time of the answer alone drafting would pay here.
 */
static void prompts_are_part_of_the_price(void **state) {
    (void)state;
    struct world_options options = {.costs = {MEDIUM, MEDIUM},
                                    .chances = {{0.92, 0.92}, {0.92, 0.92}},
                                    .chance_factor = 0.91,
                                    .answer_tokens = 64,
                                    .prompt_rows = 64,
                                    .row_catch_up = 0.025,
                                    .tokens_per_slot = TOKENS / 3,
                                    .is_profiled = true};
    double off = world_run(&options, 4, 0, false).late_rate;
    assert_true(best_fixed_rate(&options, 4) < 1.001 * off);
    assert_true(world_run(&options, 4, 3, true).late_rate > 0.985 * off);
    options.answer_tokens = 640;
    assert_true(world_run(&options, 4, 3, true).late_rate > 1.08 * off);
}

/* Mean over worlds with other luck of our rate over that of no drafts. */
static double mean_over_off(struct world_options *options, int32_t slot_count) {
    enum { WORLDS = 6 };
    double sum = 0;
    for (options->world_number = 0; options->world_number < WORLDS; options->world_number++) {
        double off = world_run(options, slot_count, 0, false).late_rate;
        sum += world_run(options, slot_count, 3, true).late_rate / off;
    }
    return sum / WORLDS;
}

/*
 * Slow stretches must not be taken for costs of rows: in a few hundred ticks of short answers, and even after
 * a profile that had many rows too cheap, drafting loses next to nothing where it does not pay.
 */
static void others_use_the_machine(void **state) {
    (void)state;
    static const struct world_costs costs[] = {LINEAR, SMALL, MILD, MOE};
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        struct world_options options = {.costs = {costs[i], costs[i]},
                                        .chances = {{0.92, 0.92}, {0.92, 0.92}},
                                        .chance_factor = 0.91,
                                        .answer_tokens = 64,
                                        .tokens_per_slot = 1300,
                                        .is_profiled = true,
                                        .is_shared = true};
        for (int32_t slot_count = 1; slot_count <= WORLD_SLOTS_MAX; slot_count *= 4) {
            options.profile_flatness = 0;
            assert_true(mean_over_off(&options, slot_count) > 0.99);
            options.profile_flatness = 0.3;
            assert_true(mean_over_off(&options, slot_count) > 0.98);
        }
    }
}

static void sixteen_drafts(void **state) {
    (void)state;
    struct world_options options = {.costs = {BYTES_BOUND, BYTES_BOUND},
                                    .chances = {{0.95, 0.95}, {0.95, 0.95}},
                                    .chance_factor = 0.99,
                                    .tokens_per_slot = TOKENS,
                                    .is_profiled = true};
    compete_at(&options, 1, DRAFT_LIMIT_MAX);
    compete_at(&options, 16, DRAFT_LIMIT_MAX);
}

/* Where the costs become good after long being bad, the gain is found again. */
static void drafting_comes_back(void **state) {
    (void)state;
    struct world_options options = {.costs = {LINEAR, BYTES_BOUND},
                                    .chances = {{0.8, 0.8}, {0.8, 0.8}},
                                    .chance_factor = 0.85,
                                    .tokens_per_slot = TOKENS,
                                    .is_profiled = true};
    for (int32_t slot_count = 1; slot_count <= WORLD_SLOTS_MAX; slot_count *= 8) {
        struct world_result ours = world_run(&options, slot_count, LIMIT, true);
        struct draft_counters counters = ours.counters;
        int64_t drafting = ours.ticks - counters.cold_ticks - counters.warm_ticks;
        assert_true(drafting > ours.ticks / 8);
        assert_true(counters.cold_ticks > ours.ticks / 3);
    }
}

static void counters_add_up(void **state) {
    (void)state;
    struct world_options options = {.costs = {BETWEEN, LINEAR},
                                    .chances = {{0.9, 0.6}, {0.7, 0.8}},
                                    .chance_factor = 0.9,
                                    .prompt_rows = 64,
                                    .tokens_per_slot = 8000};
    struct world_result ours = world_run(&options, 4, LIMIT, true);
    const struct draft_counters *counters = &ours.counters;
    int64_t ticks = 0;
    int64_t accepted = 0;
    int64_t verified = 0;
    for (int32_t k = 0; k <= LIMIT; k++) {
        ticks += counters->ticks_by_length[k];
    }
    for (int32_t j = 0; j < LIMIT; j++) {
        accepted += counters->accepted[j];
        verified += counters->verified[j];
        assert_true(counters->accepted[j] <= counters->verified[j]);
        assert_true(j == 0 || counters->verified[j] <= counters->verified[j - 1]);
    }
    assert_int_equal(ticks, ours.ticks);
    assert_int_equal(ours.tokens, counters->emitted);
    assert_int_equal(counters->emitted, counters->rounds + accepted);
    assert_true(verified <= counters->proposed && verified > counters->proposed * 9 / 10);
    assert_true(counters->cold_ticks + counters->warm_ticks <= counters->ticks_by_length[0]);
    assert_true(counters->cold_ticks > 0 && counters->warm_ticks > 0 && counters->switches > 0);
    assert_true(counters->draft_fraction > 0 && counters->draft_fraction < 0.2);
}

static void equal_worlds_give_equal_answers(void **state) {
    (void)state;
    struct world_options options = {.costs = {BETWEEN, MILD},
                                    .chances = {{0.9, 0.6}, {0.7, 0.8}},
                                    .chance_factor = 0.9,
                                    .tokens_per_slot = 5000};
    struct world_result first = world_run(&options, 8, LIMIT, true);
    struct world_result second = world_run(&options, 8, LIMIT, true);
    assert_memory_equal(&first.counters, &second.counters, sizeof first.counters);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extra_rows_are_almost_free),
        cmocka_unit_test(drafts_never_pay),
        cmocka_unit_test(experts_make_the_second_row_dear),
        cmocka_unit_test(costs_change),
        cmocka_unit_test(acceptance_changes),
        cmocka_unit_test(sequences_differ),
        cmocka_unit_test(confident_sequences_draft_more),
        cmocka_unit_test(short_answers_of_a_small_model),
        cmocka_unit_test(prompts_are_part_of_the_price),
        cmocka_unit_test(others_use_the_machine),
        cmocka_unit_test(sixteen_drafts),
        cmocka_unit_test(drafting_comes_back),
        cmocka_unit_test(counters_add_up),
        cmocka_unit_test(equal_worlds_give_equal_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
