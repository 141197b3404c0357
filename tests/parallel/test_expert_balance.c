/* Placements of experts, against their rules and against trying all (spec parallelism 5.1, 5.5, E-1, E-3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "parallel/expert_balance.h"

enum { EXPERTS_MAX = 64, RANKS_MAX = 8 };

static uint64_t random_state = 12345;

static uint64_t next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 33;
}

static struct expert_balance make(int layers, int experts, int ranks, int copies) {
    const struct expert_balance_shape shape = {
        .layer_count = layers, .expert_count = experts, .rank_count = ranks, .place_count = experts + copies};
    struct expert_balance balance;
    assert_int_equal(expert_balance_init(&balance, &shape), STATUS_OK);
    return balance;
}

static int holder_count(uint64_t holders) {
    return __builtin_popcountll(holders);
}

/* Every expert is somewhere, and no rank has more than its places. */
static void expect_possible(const struct expert_balance *balance, const uint64_t *holders) {
    const struct expert_balance_shape *shape = &balance->shape;
    int held[RANKS_MAX] = {0};
    for (int e = 0; e < shape->expert_count; e++) {
        assert_true(holders[e] != 0 && holders[e] >> shape->rank_count == 0);
        for (int rank = 0; rank < shape->rank_count; rank++) {
            held[rank] += (int)(holders[e] >> rank & 1);
        }
    }
    for (int rank = 0; rank < shape->rank_count; rank++) {
        assert_true(held[rank] <= expert_balance_places(shape, rank));
    }
}

/* E-2: without copies experts lie in order; place E + e is for expert e again. */
static void experts_start_in_order(void **state) {
    (void)state;
    struct expert_balance balance = make(2, 8, 2, 0);
    for (int e = 0; e < 8; e++) {
        assert_int_equal(balance.holders[e], e < 4 ? 1 : 2);
        assert_int_equal(balance.holders[8 + e], balance.holders[e]);
        assert_false(expert_balance_is_new(&balance, 1, e, 0) || expert_balance_is_new(&balance, 1, e, 1));
    }
    expert_balance_switch(&balance); /* to where they are */
    assert_int_equal(balance.holders[0], 1);
    expert_balance_deinit(&balance);
    /* Places 0 to 4 on rank 0, 5 to 9 on rank 1; 8 and 9 are for experts 0 and 1. */
    balance = make(1, 8, 2, 2);
    static const uint64_t expected[8] = {3, 3, 1, 1, 1, 2, 2, 2};
    assert_memory_equal(balance.holders, expected, sizeof expected);
    expect_possible(&balance, balance.holders);
    expert_balance_deinit(&balance);
    /* E-1: no rank has over one place more than another. */
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        for (int copies = 0; copies <= 9; copies++) {
            const struct expert_balance_shape shape = {1, 8, ranks, 8 + copies};
            int least = 8 + copies;
            int most = 0;
            int sum = 0;
            for (int rank = 0; rank < ranks; rank++) {
                int places = expert_balance_places(&shape, rank);
                least = places < least ? places : least;
                most = places > most ? places : most;
                sum += places;
            }
            assert_int_equal(sum, 8 + copies);
            assert_true(most - least <= 1);
        }
    }
}

/* E-3: rows go to the holders in turn, a function of the row alone. */
static void holders_take_turns(void **state) {
    (void)state;
    struct expert_balance balance = make(2, 4, 4, 4);
    balance.holders[4 + 2] = 0xB; /* ranks 0, 1, 3 of the second layer */
    static const int expected[] = {0, 1, 3};
    for (int64_t row = 0; row < 30; row++) {
        assert_int_equal(expert_balance_owner(&balance, 1, 2, row), expected[row % 3]);
        assert_int_equal(expert_balance_owner(&balance, 1, 2, row), expected[row % 3]);
    }
    expert_balance_deinit(&balance);
}

/* Rows of the fullest rank for one holder an expert: over all ways to deal experts out evenly. */
static uint64_t least_possible(const uint64_t *counts, int experts, int ranks, int *places, uint64_t *rows,
                               int expert) {
    if (expert == experts) {
        uint64_t most = 0;
        for (int rank = 0; rank < ranks; rank++) {
            most = rows[rank] > most ? rows[rank] : most;
        }
        return most;
    }
    uint64_t best = UINT64_MAX;
    for (int rank = 0; rank < ranks; rank++) {
        if (places[rank] > 0) {
            places[rank]--;
            rows[rank] += counts[expert];
            uint64_t most = least_possible(counts, experts, ranks, places, rows, expert + 1);
            best = most < best ? most : best;
            rows[rank] -= counts[expert];
            places[rank]++;
        }
    }
    return best;
}

/* Without copies no rank gets over 4/3 of what it must (and mostly no more than that). */
static void the_fullest_rank_is_near_the_best(void **state) {
    (void)state;
    enum { EXPERTS = 8, TRIES = 200 };
    int best_count = 0;
    for (int i = 0; i < TRIES; i++) {
        int ranks = i % 2 == 0 ? 2 : 4;
        struct expert_balance balance = make(1, EXPERTS, ranks, 0);
        uint64_t counts[EXPERTS];
        uint64_t sum = 0;
        int places[RANKS_MAX];
        uint64_t rows[RANKS_MAX] = {0};
        for (int e = 0; e < EXPERTS; e++) {
            counts[e] = 1 + next_random() % 100 * (next_random() % 4);
            sum += counts[e];
            balance.counts[e] = counts[e];
        }
        for (int rank = 0; rank < ranks; rank++) {
            places[rank] = EXPERTS / ranks;
        }
        double best = (double)least_possible(counts, EXPERTS, ranks, places, rows, 0) * ranks / (double)sum;
        double before = expert_balance_skew(&balance, 0, balance.holders);
        expert_balance_choose(&balance);
        expect_possible(&balance, balance.next_holders);
        memcpy(balance.counts, counts, sizeof counts);
        double skew = expert_balance_skew(&balance, 0, balance.next_holders);
        assert_true(skew <= best * 4 / 3 + 1e-9 || skew <= best / 0.95 + 1e-9);
        assert_true(skew <= before + 1e-9 && skew >= best - 1e-9);
        best_count += skew <= best / 0.95 + 1e-9;
        expert_balance_deinit(&balance);
    }
    assert_true(best_count > TRIES * 3 / 4);
}

/* Copies go where the rows are: one expert that gets them all ends on every rank. */
static void copies_go_to_what_is_wanted(void **state) {
    (void)state;
    struct expert_balance balance = make(1, 8, 4, 4);
    balance.counts[5] = 1000;
    expert_balance_choose(&balance);
    expect_possible(&balance, balance.next_holders);
    assert_int_equal(balance.next_holders[5], 0xF);
    /* It cannot be on more than all: the fourth copy is for the first of those that nobody wants. */
    assert_int_equal(balance.next_holders[0], 3);
    assert_true(expert_balance_is_new(&balance, 0, 5, 0));
    assert_false(expert_balance_is_new(&balance, 0, 5, 1)); /* places 3 to 5 are its */
    /* Nothing changes before the switch; counts are halved (E-13). */
    assert_int_equal(balance.holders[5], 2);
    assert_int_equal(balance.counts[5], 500);
    expert_balance_switch(&balance);
    assert_int_equal(balance.holders[5], 0xF);
    assert_true(expert_balance_skew(&balance, 0, balance.holders) == 1.0);
    expert_balance_deinit(&balance);
}

static void expect_choice(int experts, int ranks, int copies, const uint64_t *counts,
                          const uint64_t *expected) {
    struct expert_balance balance = make(1, experts, ranks, copies);
    memcpy(balance.counts, counts, (size_t)experts * sizeof *counts);
    expert_balance_choose(&balance);
    for (int e = 0; e < experts; e++) {
        assert_int_equal(balance.next_holders[e], expected[e]);
    }
    expert_balance_deinit(&balance);
}

/* Worked out by hand: the fullest first, to the emptiest rank; ties by lower numbers; bits are ranks. */
static void placements_by_hand(void **state) {
    (void)state;
    /* 120 to rank 0, 100 and 100 to rank 1, 80 to rank 0: 200 instead of 220. */
    expect_choice(4, 2, 0, (const uint64_t[]){120, 100, 100, 80}, (const uint64_t[]){1, 2, 2, 1});
    /* The copy is for the first of the two with 100. The other one goes to rank 0; 50 to rank 1 and to rank
     * 0. */
    expect_choice(6, 2, 1, (const uint64_t[]){0, 100, 100, 0, 0, 0}, (const uint64_t[]){2, 3, 1, 2, 2, 1});
    /* 80 becomes 40 and 40: 60 to rank 0, 40 to 1 and 2, 40 to 1, 30 to 2, 30 to 0. */
    expect_choice(5, 3, 1, (const uint64_t[]){60, 30, 30, 80, 40}, (const uint64_t[]){1, 4, 1, 6, 2});
}

/* Means are of the layers that something was picked of, as these lie; where nothing was, all is even. */
static void skews_are_means_over_layers(void **state) {
    (void)state;
    struct expert_balance balance = make(3, 4, 2, 0);
    assert_true(expert_balance_skew(&balance, 0, balance.holders) == 1.0);
    assert_true(expert_balance_mean_skew(&balance) == 1.0);
    static const uint64_t crossed[4] = {1, 2, 2, 1};
    memcpy(balance.holders + 4, crossed, sizeof crossed);
    balance.counts[4] = 100; /* on rank 0, */
    balance.counts[7] = 100; /* and here too */
    assert_true(expert_balance_mean_skew(&balance) == 2.0);
    balance.counts[8] = 30; /* in order: 30 on rank 0, 10 on rank 1 */
    balance.counts[10] = 10;
    assert_true(expert_balance_mean_skew(&balance) == (2.0 + 1.5) / 2);
    expert_balance_deinit(&balance);
}

/* Any counts, any sizes: what is chosen is possible, and never fuller than before. */
static void any_counts_can_be_placed(void **state) {
    (void)state;
    for (int i = 0; i < 2000; i++) {
        int ranks = 2 + (int)(next_random() % (RANKS_MAX - 1));
        int experts = ranks + (int)(next_random() % (EXPERTS_MAX - RANKS_MAX));
        int copies = (int)(next_random() % (unsigned)(experts + 1));
        struct expert_balance balance = make(2, experts, ranks, copies);
        for (int round = 0; round < 3; round++) {
            uint64_t counts[2 * EXPERTS_MAX];
            for (int e = 0; e < 2 * experts; e++) {
                balance.counts[e] += next_random() % 3 == 0 ? next_random() % 1000 : 0;
            }
            memcpy(counts, balance.counts, expert_balance_bytes(&balance));
            expert_balance_choose(&balance);
            memcpy(balance.counts, counts, expert_balance_bytes(&balance));
            for (int layer = 0; layer < 2; layer++) {
                const uint64_t *next = balance.next_holders + layer * experts;
                int places = 0;
                expect_possible(&balance, next);
                assert_true(expert_balance_skew(&balance, layer, next) <=
                            expert_balance_skew(&balance, layer, balance.holders + layer * experts));
                for (int e = 0; e < experts; e++) {
                    places += holder_count(next[e]);
                }
                assert_in_range(places, experts, experts + copies);
            }
            expert_balance_switch(&balance);
        }
        expert_balance_deinit(&balance);
    }
}

/* E-14: equal counts give equal placements, and a layer that would gain little stays. */
static void layers_that_gain_little_stay(void **state) {
    (void)state;
    struct expert_balance balance = make(1, 4, 2, 0);
    static const uint64_t nearly[4] = {100, 101, 100, 103};
    memcpy(balance.counts, nearly, sizeof nearly);
    expert_balance_choose(&balance);
    assert_memory_equal(balance.next_holders, balance.holders, 4 * sizeof(uint64_t));
    expert_balance_deinit(&balance);
    /* 204 would become 200, two hundredths less. */
    balance = make(1, 4, 2, 0);
    static const uint64_t little[4] = {104, 100, 100, 96};
    memcpy(balance.counts, little, sizeof little);
    expert_balance_choose(&balance);
    assert_memory_equal(balance.next_holders, balance.holders, 4 * sizeof(uint64_t));
    expert_balance_deinit(&balance);
    balance = make(1, 4, 2, 0);
    expert_balance_choose(&balance); /* nothing was picked */
    assert_memory_equal(balance.next_holders, balance.holders, 4 * sizeof(uint64_t));
    expert_balance_deinit(&balance);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_start_in_order),
        cmocka_unit_test(holders_take_turns),
        cmocka_unit_test(the_fullest_rank_is_near_the_best),
        cmocka_unit_test(copies_go_to_what_is_wanted),
        cmocka_unit_test(placements_by_hand),
        cmocka_unit_test(skews_are_means_over_layers),
        cmocka_unit_test(any_counts_can_be_placed),
        cmocka_unit_test(layers_that_gain_little_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
