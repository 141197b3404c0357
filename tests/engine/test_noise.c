/* The generator of all noise (M-21) against the known answers of its authors' distribution (Random123), and
 * the Gumbel numbers.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/noise.h"
#include "engine/sampling_fixture.h"

static void philox_gives_the_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint32_t key[2];
        uint32_t words[4];
    } answers[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        uint32_t words[4];
        noise_philox(answers[i].counter, answers[i].key, words);
        assert_memory_equal(words, answers[i].words, sizeof words);
    }
}

/* Seed, choice, position, purpose and block all count: no two places give the same words. */
static void every_part_of_a_place_counts(void **state) {
    (void)state;
    static const struct noise_place places[] = {
        {1, 0, 0, NOISE_PURPOSE_TOKEN},
        {2, 0, 0, NOISE_PURPOSE_TOKEN},
        {1 + (1ULL << 32), 0, 0, NOISE_PURPOSE_TOKEN},
        {1, 1, 0, NOISE_PURPOSE_TOKEN},
        {1, 0, 1, NOISE_PURPOSE_TOKEN},
        {1, 0, 0, NOISE_PURPOSE_DRAFT},
        {1, 0, 0, NOISE_PURPOSE_ACCEPT},
        {1, 0, 0, NOISE_PURPOSE_CORRECTION},
    };
    enum { COUNT = sizeof places / sizeof places[0], BLOCKS = 2 };
    uint32_t words[COUNT * BLOCKS][NOISE_BLOCK_TOKENS];
    for (size_t i = 0; i < (size_t)COUNT * BLOCKS; i++) {
        uint32_t again[NOISE_BLOCK_TOKENS];
        noise_block(&places[i / BLOCKS], (uint32_t)(i % BLOCKS), words[i]);
        noise_block(&places[i / BLOCKS], (uint32_t)(i % BLOCKS), again);
        assert_memory_equal(words[i], again, sizeof again);
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(words[i], words[j], sizeof words[i]);
        }
    }
}

/* The purposes are part of texts that users have: their values stay. */
static void purposes_keep_their_values(void **state) {
    (void)state;
    assert_int_equal(NOISE_PURPOSE_TOKEN, 1);
    assert_int_equal(NOISE_PURPOSE_DRAFT, 2);
    assert_int_equal(NOISE_PURPOSE_ACCEPT, 3);
    assert_int_equal(NOISE_PURPOSE_CORRECTION, 4);
}

/* Of sixteen parts of the interval each gets its share; the number begins with the place's first word. */
static void uniform_numbers_are_uniform(void **state) {
    (void)state;
    enum { PARTS = 16, DRAWS = 20000 };
    double shares[PARTS];
    unsigned counts[PARTS] = {0};
    for (int i = 0; i < PARTS; i++) {
        shares[i] = 1.0 / PARTS;
    }
    for (uint32_t position = 0; position < DRAWS; position++) {
        const struct noise_place place = {3, 1, position, NOISE_PURPOSE_ACCEPT};
        uint32_t words[NOISE_BLOCK_TOKENS];
        double uniform = noise_uniform(&place);
        noise_block(&place, 0, words);
        assert_true(uniform > 0.0 && uniform < 1.0);
        assert_true(fabs(uniform - (double)words[0] * 0x1p-32) < 0x1p-25);
        counts[(int)(uniform * PARTS)]++;
    }
    assert_draws_follow(shares, counts, PARTS, DRAWS);
}

static void gumbel_numbers_are_bounded(void **state) {
    (void)state;
    assert_true(noise_gumbel(0) > -3.2 && noise_gumbel(0) < -3.0);
    assert_true(noise_gumbel(UINT32_MAX) > 22.8 && noise_gumbel(UINT32_MAX) < 22.9);
    double previous = -INFINITY;
    for (uint64_t word = 0; word <= UINT32_MAX; word += word < 0xFFFFF000u ? 0x0FFF : 1) {
        double noise = noise_gumbel((uint32_t)word);
        double bound = noise_gumbel_bound((uint32_t)word);
        assert_true(noise > previous);
        assert_true(bound >= noise);
        assert_true(noise < 0.0 || bound <= noise + 1.5);
        previous = noise;
    }
}

/* Mean (Euler's constant) and variance (pi squared / 6) of the distribution, within five standard errors. */
static void gumbel_numbers_have_their_moments(void **state) {
    (void)state;
    enum { BLOCKS = 25000, COUNT = BLOCKS * NOISE_BLOCK_TOKENS };
    const struct noise_place place = {42, 0, 7, NOISE_PURPOSE_TOKEN};
    double sum = 0.0;
    double squares = 0.0;
    for (uint32_t block = 0; block < BLOCKS; block++) {
        uint32_t words[NOISE_BLOCK_TOKENS];
        noise_block(&place, block, words);
        for (int i = 0; i < NOISE_BLOCK_TOKENS; i++) {
            double noise = noise_gumbel(words[i]);
            sum += noise;
            squares += noise * noise;
        }
    }
    double mean = sum / COUNT;
    double variance = squares / COUNT - mean * mean;
    assert_true(fabs(mean - 0.5772156649) < 5.0 * sqrt(1.6449340668 / COUNT));
    /* The fourth central moment of the distribution is 5.4 variances squared. */
    assert_true(fabs(variance - 1.6449340668) < 5.0 * 1.6449340668 * sqrt(4.4 / COUNT));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers), cmocka_unit_test(every_part_of_a_place_counts),
        cmocka_unit_test(purposes_keep_their_values),     cmocka_unit_test(uniform_numbers_are_uniform),
        cmocka_unit_test(gumbel_numbers_are_bounded),     cmocka_unit_test(gumbel_numbers_have_their_moments),
    };
    return cmocka_run_group_tests_name("noise", tests, NULL, NULL);
}
