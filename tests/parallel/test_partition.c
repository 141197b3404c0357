/* Layer partitions: the worked example of spec parallelism P-7, every partition tried by hand, and refusals.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parallel/partition.h"

enum { LAYERS_MAX = 61, STAGES_MAX = 8 };

static void expect_choice(const struct partition_input *input, int stages, const char *expected) {
    int chosen[STAGES_MAX + 1];
    int wanted[STAGES_MAX + 1];
    assert_int_equal(partition_choose(input, stages, chosen), STATUS_OK);
    assert_int_equal(partition_parse(expected, input->layer_count, stages, wanted), STATUS_OK);
    for (int s = 0; s <= stages; s++) {
        if (chosen[s] != wanted[s]) {
            fail_msg("stage %d begins at layer %d instead of %d (%s)", s, chosen[s], wanted[s], expected);
        }
    }
}

/* P-7: V4-Flash over 4 stages; costs are bytes read. */
static void the_worked_example_holds(void **state) {
    (void)state;
    double layers[43];
    struct partition_input input = {.layer_count = 43, .layer_costs = layers};
    for (int i = 0; i < 43; i++) {
        layers[i] = 0.23;
    }
    input.last_cost = 1.06;
    expect_choice(&input, 4, "12,12,12,7");
    input.last_cost = 1.06 + 1.3;
    expect_choice(&input, 4, "13,13,14,3");
    for (int i = 0; i < 43; i++) {
        layers[i] = 3.6;
    }
    input.last_cost = 1.06;
    expect_choice(&input, 4, "11,11,11,10");
}

/* Equal layers and nothing else: the odd ones are not on the last stage, nor on the first. */
static void ties_go_to_few_layers_at_the_ends(void **state) {
    (void)state;
    double layers[LAYERS_MAX];
    struct partition_input input = {.layer_count = 43, .layer_costs = layers};
    for (int i = 0; i < LAYERS_MAX; i++) {
        layers[i] = 1.0;
    }
    expect_choice(&input, 4, "11,11,11,10");
    input.layer_count = 61;
    expect_choice(&input, 4, "15,15,16,15");
    input.layer_count = 6;
    expect_choice(&input, 4, "1,2,2,1");
    /* None but the last may be empty (P-1), even where an empty one would do. */
    layers[0] = 0.0;
    layers[1] = 0.0;
    input.layer_count = 3;
    expect_choice(&input, 3, "1,2,0");
}

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525U + 1013904223U;
    return *seed >> 16;
}

/* All partitions, one after the other: the smallest largest cost, infinite if nothing fits. */
static double least_by_trying(const struct partition_input *input, int stages, int *first_layers, int stage) {
    if (stage == stages) {
        double largest = 0.0;
        first_layers[stages] = input->layer_count;
        for (int s = 0; s < stages; s++) {
            bool is_empty = first_layers[s] == first_layers[s + 1];
            double cost = partition_stage_cost(input, stages, first_layers, s);
            bool fits = partition_stage_bytes(input, stages, first_layers, s) <= input->byte_limit;
            largest = (is_empty && s < stages - 1) || !fits ? INFINITY : fmax(largest, cost);
        }
        return largest;
    }
    double best = INFINITY;
    for (int first = first_layers[stage - 1]; first <= input->layer_count; first++) {
        first_layers[stage] = first;
        best = fmin(best, least_by_trying(input, stages, first_layers, stage + 1));
    }
    return best;
}

static void no_partition_is_better(void **state) {
    (void)state;
    uint32_t seed = 5;
    int refused = 0;
    for (int trial = 0; trial < 200; trial++) {
        double costs[9];
        double bytes[9];
        int stages = 2 + trial % 3;
        struct partition_input input = {.layer_count = 9, .layer_costs = costs, .layer_bytes = bytes};
        for (int i = 0; i < 9; i++) {
            costs[i] = 1.0 + next_random(&seed) % 8;
            bytes[i] = 1.0 + next_random(&seed) % 8;
        }
        input.first_cost = next_random(&seed) % 4;
        input.last_cost = next_random(&seed) % 16;
        input.stage_bytes = 1.0;
        input.last_bytes = next_random(&seed) % 8;
        input.byte_limit = 12.0 + next_random(&seed) % 20;
        int first_layers[STAGES_MAX + 1] = {0};
        double least = least_by_trying(&input, stages, first_layers, 1);
        enum status status = partition_choose(&input, stages, first_layers);
        if (isinf(least)) {
            assert_int_equal(status, STATUS_OUT_OF_MEMORY);
            refused++;
            continue;
        }
        assert_int_equal(status, STATUS_OK);
        double largest = 0.0;
        for (int s = 0; s < stages; s++) {
            largest = fmax(largest, partition_stage_cost(&input, stages, first_layers, s));
            assert_true(partition_stage_bytes(&input, stages, first_layers, s) <= input.byte_limit);
        }
        assert_true(fabs(largest - least) < 1e-6);
    }
    assert_in_range(refused, 5, 150);
}

/* The first stage is full with three layers, whatever balance would like. */
static void memory_comes_before_balance(void **state) {
    (void)state;
    static const double costs[] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const double bytes[] = {5, 5, 5, 1, 1, 1, 1, 1};
    struct partition_input input = {
        .layer_count = 8, .layer_costs = costs, .layer_bytes = bytes, .byte_limit = 16.0};
    expect_choice(&input, 2, "4,4");
    input.byte_limit = 15.0;
    expect_choice(&input, 2, "3,5");
    input.byte_limit = 9.0;
    int first_layers[3];
    assert_int_equal(partition_choose(&input, 2, first_layers), STATUS_OUT_OF_MEMORY);
    assert_non_null(strstr(error_last()->message, "8 layers over 2 stages"));
}

/* What the ends hold besides layers counts, and each stage has its own limit; the sentence names the least.
 */
static void every_stage_has_its_own_room(void **state) {
    (void)state;
    static const double costs[] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const double bytes[] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct partition_input input = {
        .layer_count = 8, .layer_costs = costs, .layer_bytes = bytes, .byte_limit = 5.0};
    expect_choice(&input, 2, "4,4");
    input.first_bytes = 2.0;
    expect_choice(&input, 2, "3,5");
    input.first_bytes = 0.0;
    input.last_bytes = 2.0;
    expect_choice(&input, 2, "5,3");
    input.last_bytes = 0.0;
    static const double little_last[] = {8e9, 2.0};
    input.byte_limits = little_last;
    expect_choice(&input, 2, "6,2");
    static const double little_first[] = {1.0, 8e9};
    input.byte_limits = little_first;
    expect_choice(&input, 2, "1,7");
    static const double none[] = {9e9, 4e9};
    static const double large[] = {1e10, 1e10, 1e10, 1e10, 1e10, 1e10, 1e10, 1e10};
    int first_layers[3];
    input.byte_limits = none;
    input.layer_bytes = large;
    assert_int_equal(partition_choose(&input, 2, first_layers), STATUS_OUT_OF_MEMORY);
    assert_non_null(strstr(error_last()->message, "4.00 GB per rank"));
}

/*
 * Steps with a draft and without, spec P-7: whatever is cut for one alone loses more with the other than the
 * cut for both loses with either.
 */
static double largest_cost(const struct partition_input *input, int stages, const int *first_layers) {
    double most = 0.0;
    for (int s = 0; s < stages; s++) {
        most = fmax(most, partition_stage_cost(input, stages, first_layers, s));
    }
    return most;
}

static void expect_say(const struct partition_input *input, int stages, bool has_say) {
    bool weighs = !has_say;
    assert_int_equal(partition_weighs_other(input, stages, &weighs), STATUS_OK);
    assert_int_equal(weighs, has_say);
}

/*
 * 12 layers against 14, with a head of 4.6 layers and a draft of 5.7: steps with a draft must bring 1.2 * 14
 * / 12 times the tokens to have a say. What a cut loses is told by the same rule.
 */
static void steps_that_promise_little_have_no_say(void **state) {
    (void)state;
    double layers[43];
    for (int i = 0; i < 43; i++) {
        layers[i] = 0.23;
    }
    struct partition_load other = {.layer_costs = layers, .last_cost = 1.06 + 1.3};
    struct partition_input input = {
        .layer_count = 43, .layer_costs = layers, .last_cost = 1.06, .other = &other};
    const int without[] = {0, 12, 24, 36, 43};
    double loss;
    other.tokens = 1.39;
    expect_choice(&input, 4, "12,12,12,7");
    expect_say(&input, 4, false);
    assert_int_equal(partition_loss(&input, 4, (const int[]){0, 13, 26, 40, 43}, &loss), STATUS_OK);
    assert_true(fabs(loss - 14.0 / 12.0) < 1e-9);
    other.tokens = 1.41;
    expect_choice(&input, 4, "13,13,13,4");
    expect_say(&input, 4, true);
    input.objective = PARTITION_BY_PAGES; /* pages know no steps */
    input.layer_page_bytes = layers;
    expect_say(&input, 4, false);
    input.objective = PARTITION_BY_COST;
    input.other = NULL;
    expect_say(&input, 4, false);
    input.other = &other;
    assert_int_equal(partition_loss(&input, 4, without, &loss), STATUS_OK);
    double with_draft = (7 * 0.23 + 1.06 + 1.3) / (14 * 0.23);
    assert_true(fabs(loss - with_draft / (13.0 / 12.0)) < 1e-9);
    input.layer_bytes = layers;
    input.byte_limit = 12.5 * 0.23;
    assert_int_equal(partition_loss(&input, 4, (const int[]){0, 13, 26, 40, 43}, &loss), STATUS_OK);
    assert_true(isinf(loss));
}

/* What the other kind costs at the ends counts like what it costs in layers. */
static void ends_of_the_other_kind_count(void **state) {
    (void)state;
    static const double costs[] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct partition_load other = {.layer_costs = costs, .tokens = 100.0};
    struct partition_input input = {.layer_count = 8, .layer_costs = costs, .other = &other};
    expect_choice(&input, 2, "4,4");
    /* Alone 2,6 with 6 on both; shared 3,5, where the one kind has 5 of 4 and the other 7 of 6. */
    other.first_cost = 4.0;
    expect_choice(&input, 2, "3,5");
    other.first_cost = 0.0;
    other.last_cost = 4.0;
    expect_choice(&input, 2, "5,3");
}

static void two_kinds_of_steps_share_a_cut(void **state) {
    (void)state;
    double layers[43];
    for (int i = 0; i < 43; i++) {
        layers[i] = 0.23;
    }
    struct partition_input plain = {.layer_count = 43, .layer_costs = layers, .last_cost = 1.06};
    struct partition_input drafting = {.layer_count = 43, .layer_costs = layers, .last_cost = 1.06 + 1.3};
    struct partition_load other = {.layer_costs = layers, .last_cost = drafting.last_cost, .tokens = 1.77};
    struct partition_input both = plain;
    both.other = &other;
    int chosen[STAGES_MAX + 1];
    assert_int_equal(partition_choose(&plain, 4, chosen), STATUS_OK);
    double least = largest_cost(&plain, 4, chosen);
    assert_int_equal(partition_choose(&drafting, 4, chosen), STATUS_OK);
    double least_drafting = largest_cost(&drafting, 4, chosen);
    assert_int_equal(partition_choose(&both, 4, chosen), STATUS_OK);
    double worst =
        fmax(largest_cost(&plain, 4, chosen) / least, largest_cost(&drafting, 4, chosen) / least_drafting);
    /* 13 layers against 12, of the best cut for no drafts. */
    assert_true(fabs(worst - 13.0 * 0.23 / least) < 1e-6);
    for (int a = 1; a < 43; a++) {
        for (int b = a + 1; b < 43; b++) {
            for (int c = b + 1; c <= 43; c++) {
                const int tried[] = {0, a, b, c, 43};
                assert_true(fmax(largest_cost(&plain, 4, tried) / least,
                                 largest_cost(&drafting, 4, tried) / least_drafting) > worst - 1e-9);
            }
        }
    }
}

/*
 * Spec B.6: V4-Flash keeps 179 bytes a token in its C4 layers, the even ones from 2, and 4.6 in the others
 * from
 * 3. With equal memory the capacity is that of the stage with most bytes, whatever time says.
 */
static void state_can_be_what_counts(void **state) {
    (void)state;
    double costs[43];
    double pages[43];
    for (int i = 0; i < 43; i++) {
        costs[i] = i < 22 ? 1.0 : 2.0;
        pages[i] = i < 2 ? 0.0 : i % 2 == 0 ? 179.0 : 4.6;
    }
    struct partition_input input = {
        .layer_count = 43, .layer_costs = costs, .objective = PARTITION_BY_PAGES, .layer_page_bytes = pages};
    int chosen[STAGES_MAX + 1];
    assert_int_equal(partition_choose(&input, 4, chosen), STATUS_OK);
    double most = 0.0;
    for (int s = 0; s < 4; s++) {
        double sum = 0.0;
        for (int l = chosen[s]; l < chosen[s + 1]; l++) {
            sum += pages[l];
        }
        most = fmax(most, sum);
    }
    /* 21 such layers over 4 stages: one has 6, with 5 others in between. */
    assert_true(fabs(most - (6 * 179.0 + 5 * 4.6)) < 1e-6);
    input.objective = PARTITION_BY_COST;
    expect_choice(&input, 4, "16,11,8,8");
}

/* What is left for pages decides, not what they take: a stage full of weights gets layers without pages. */
static void state_needs_what_weights_leave(void **state) {
    (void)state;
    static const double costs[] = {1, 1, 1, 1, 1, 1};
    static const double bytes[] = {8, 8, 2, 2, 2, 2};
    static const double pages[] = {0, 0, 1, 1, 1, 1};
    static const double limits[] = {22, 16};
    struct partition_input input = {.layer_count = 6,
                                    .layer_costs = costs,
                                    .layer_bytes = bytes,
                                    .byte_limits = limits,
                                    .objective = PARTITION_BY_PAGES,
                                    .layer_page_bytes = pages};
    /* 2,4: 4 pages' worth in 8 bytes. 3,3: 1 in 4 and 3 in 10. 4,2: 2 in 2. */
    expect_choice(&input, 2, "3,3");
    input.objective = PARTITION_BY_COST;
    static const double tight[] = {17, 16};
    input.byte_limits = tight;
    expect_choice(&input, 2, "2,4");
}

/* The draft layer's pages are on the last stage. Where state counts, other kinds of steps have no say. */
static void state_is_not_of_layers_alone(void **state) {
    (void)state;
    static const double costs[] = {1, 1, 1, 1, 1, 1};
    static const double pages[] = {1, 1, 1, 1, 1, 1};
    static const double other_costs[] = {1, 1, 1, 1, 1, 9};
    const struct partition_load other = {.layer_costs = other_costs, .tokens = 100.0};
    struct partition_input input = {
        .layer_count = 6, .layer_costs = costs, .objective = PARTITION_BY_PAGES, .layer_page_bytes = pages};
    expect_choice(&input, 2, "3,3");
    input.other = &other;
    expect_choice(&input, 2, "3,3");
    input.last_page_bytes = 2.0;
    expect_choice(&input, 2, "4,2");
    /* Any cut has a page on each stage: time decides, that of the one kind alone. */
    static const double end_pages[] = {1, 0, 0, 0, 0, 1};
    input.last_page_bytes = 0.0;
    input.layer_page_bytes = end_pages;
    expect_choice(&input, 2, "3,3");
}

/* A head that costs more than all layers together has the last stage to itself. */
static void the_last_stage_may_have_the_head_alone(void **state) {
    (void)state;
    static const double costs[] = {1, 1, 1};
    struct partition_input input = {.layer_count = 3, .layer_costs = costs, .last_cost = 10.0};
    expect_choice(&input, 4, "1,1,1,0");
    int first_layers[6];
    assert_int_equal(partition_choose(&input, 5, first_layers), STATUS_BAD_CONFIG);
    assert_non_null(strstr(error_last()->message, "5 pipeline stages"));
    assert_non_null(strstr(error_last()->message, "3 layers"));
}

/* P-8, CFG-06: a cut between layers of which one reads what the other left is refused with both numbers. */
static void dependent_layers_stay_together(void **state) {
    (void)state;
    static const double costs[] = {1, 1, 1, 1, 1, 1};
    static const struct partition_dependency pair = {.earlier_layer = 1, .later_layer = 3};
    struct partition_input input = {
        .layer_count = 6, .layer_costs = costs, .dependencies = &pair, .dependency_count = 1};
    expect_choice(&input, 2, "4,2");
    int first_layers[STAGES_MAX + 1];
    assert_int_equal(partition_read(&input, "1,5", 2, first_layers), STATUS_OK);
    assert_int_equal(partition_read(&input, "4,2", 2, first_layers), STATUS_OK);
    assert_int_equal(first_layers[1], 4);
    for (int first = 2; first <= 3; first++) {
        const char *const torn[] = {"2,4", "3,3"};
        assert_int_equal(partition_read(&input, torn[first - 2], 2, first_layers), STATUS_BAD_CONFIG);
        assert_non_null(strstr(error_last()->message, "layer 1"));
        assert_non_null(strstr(error_last()->message, "layer 3"));
    }
    assert_int_equal(partition_read(&input, "4,3", 2, first_layers), STATUS_USAGE);
    static const struct partition_dependency all = {.earlier_layer = 0, .later_layer = 5};
    input.dependencies = &all;
    expect_choice(&input, 2, "6,0");
    assert_int_equal(partition_choose(&input, 3, first_layers), STATUS_BAD_CONFIG);
    assert_non_null(strstr(error_last()->message, "6 layers cannot be cut for 3 stages"));
}

static void balance_is_largest_over_mean(void **state) {
    (void)state;
    static const double costs[] = {1, 1, 1, 1};
    static const int first_layers[] = {0, 3, 4};
    struct partition_input input = {.layer_count = 4, .layer_costs = costs, .first_cost = 1, .last_cost = 3};
    assert_true(fabs(partition_stage_cost(&input, 2, first_layers, 0) - 4.0) < 1e-12);
    assert_true(fabs(partition_stage_cost(&input, 2, first_layers, 1) - 4.0) < 1e-12);
    assert_true(fabs(partition_imbalance(&input, 2, first_layers) - 1.0) < 1e-12);
    input.last_cost = 11;
    assert_true(fabs(partition_imbalance(&input, 2, first_layers) - 1.5) < 1e-12);
    /* Nothing that costs anything is in balance. */
    static const double nothing[] = {0, 0, 0, 0};
    input = (struct partition_input){.layer_count = 4, .layer_costs = nothing};
    assert_true(partition_imbalance(&input, 2, first_layers) == 1.0);
}

static void wrong_partitions_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"12,12,12", "has 3 numbers, expected one for each of 4 stages"},
        {"9,9,9,9,7", "more than 4 numbers"},
        {"12,12,12,8", "44 layers in all, expected 43"},
        {"12,12,12,-7", "-7 layers"},
        {"0,14,14,15", "stage 0"},
        {"14,0,14,15", "stage 1"},
        {"12,12,12,x", "\"12,12,12,x\""},
        {"12,12,12,", "\"12,12,12,\""},
        {"12,12,12.5,7", "numbers of layers separated by commas"},
        {"", "numbers of layers separated by commas"},
        {"+12,12,12,7", "numbers of layers separated by commas"},
        {"12, 12,12,7", "numbers of layers separated by commas"},
        {"50,12,12,7", "stage 0 of the layer partition \"50,12,12,7\" has 50 layers, expected 1 to 43"},
        {"99999999999999999999,1,1,1", "numbers of layers"},
    };
    int first_layers[STAGES_MAX + 1];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(partition_parse(cases[i].text, 43, 4, first_layers), STATUS_USAGE);
        if (strstr(error_last()->message, cases[i].message) == NULL) {
            fail_msg("\"%s\": %s", cases[i].text, error_last()->message);
        }
    }
    assert_int_equal(partition_parse("20,20,3,0", 43, 4, first_layers), STATUS_OK);
    assert_int_equal(first_layers[3], 43);
    assert_int_equal(partition_parse("43", 43, 1, first_layers), STATUS_OK);
    assert_int_equal(partition_parse("0", 0, 1, first_layers), STATUS_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example_holds),
        cmocka_unit_test(ties_go_to_few_layers_at_the_ends),
        cmocka_unit_test(no_partition_is_better),
        cmocka_unit_test(memory_comes_before_balance),
        cmocka_unit_test(every_stage_has_its_own_room),
        cmocka_unit_test(ends_of_the_other_kind_count),
        cmocka_unit_test(two_kinds_of_steps_share_a_cut),
        cmocka_unit_test(steps_that_promise_little_have_no_say),
        cmocka_unit_test(state_can_be_what_counts),
        cmocka_unit_test(state_needs_what_weights_leave),
        cmocka_unit_test(state_is_not_of_layers_alone),
        cmocka_unit_test(the_last_stage_may_have_the_head_alone),
        cmocka_unit_test(dependent_layers_stay_together),
        cmocka_unit_test(balance_is_largest_over_mean),
        cmocka_unit_test(wrong_partitions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
