/*
 * The largest of many scores against a plain ranking: ties, signs, extremes, and every limit.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/select_largest.h"

enum { COUNT_MAX = 3000 };

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Chooses by going through the scores once per choice. */
static void choose_plainly(const float *scores, int count, int limit, int32_t *out) {
    static unsigned char is_chosen[COUNT_MAX];
    memset(is_chosen, 0, sizeof is_chosen);
    for (int n = 0; n < limit; n++) {
        int best = -1;
        for (int i = 0; i < count; i++) {
            if (!is_chosen[i] && (best < 0 || scores[i] > scores[best])) {
                best = i;
            }
        }
        is_chosen[best] = 1;
    }
    for (int i = 0, n = 0; n < limit; i++) {
        if (is_chosen[i]) {
            out[n++] = i;
        }
    }
}

static void expect_choice(const float *scores, int count, int limit) {
    static uint32_t orders[COUNT_MAX];
    static uint32_t counters[SELECT_COUNTERS];
    int32_t actual[COUNT_MAX + 1];
    int32_t expected[COUNT_MAX];
    memcpy(orders, scores, (size_t)count * sizeof *orders);
    select_make_orders(orders, count);
    actual[limit] = 12345;
    select_largest(orders, count, limit, counters, actual);
    choose_plainly(scores, count, limit, expected);
    for (int i = 0; i < limit; i++) {
        if (actual[i] != expected[i]) {
            fail_msg("choice %d of %d from %d scores is %d, expected %d", i, limit, count, actual[i],
                     expected[i]);
        }
    }
    assert_int_equal(actual[limit], 12345);
}

static void random_scores_are_ranked(void **state) {
    (void)state;
    static float scores[COUNT_MAX];
    uint32_t random = 1;
    const int counts[] = {1, 2, 3, 5, 17, 64, 513, COUNT_MAX};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (int distinct = 1; distinct <= 100000; distinct *= 10) {
            for (int i = 0; i < counts[c]; i++) {
                scores[i] = (float)((int)(next_random(&random) % (unsigned)distinct) - distinct / 2) * 0.37f;
            }
            const int limits[] = {1, (counts[c] + 1) / 2, counts[c] - counts[c] / 5, counts[c]};
            for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
                expect_choice(scores, counts[c], limits[l]);
            }
        }
    }
}

static void nearly_equal_scores_are_told_apart(void **state) {
    (void)state;
    float scores[600];
    float value = 1.0f;
    for (int i = 0; i < 600; i++) {
        scores[i * 7 % 600] = i % 2 == 0 ? value : -value;
        value = nextafterf(value, 2.0f);
    }
    for (int limit = 1; limit <= 600; limit += 13) {
        expect_choice(scores, 600, limit);
    }
}

static void extremes_have_their_place(void **state) {
    (void)state;
    const float scores[] = {0.0f,      -0.0f, 1e-45f,   -1e-45f, 3.4e38f, -3.4e38f, INFINITY,
                            -INFINITY, 0.0f,  INFINITY, -0.0f,   1.0f,    -1.0f,    1.0f};
    for (int limit = 1; limit <= 14; limit++) {
        expect_choice(scores, 14, limit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_scores_are_ranked),
        cmocka_unit_test(nearly_equal_scores_are_told_apart),
        cmocka_unit_test(extremes_have_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
