/*
 * Rotary frequencies and rotation: the tables and the example of spec deepseek-v4 4.5, inverse, channels that
 * stay, positions near one million.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/rope.h"
#include "ops/rope_table.h"
#include "support/op_fixture.h"
#include "tensor/number_format.h"

enum { PAIRS = 32 };

static const struct rope_scaling YARN = {
    .factor = 16.0, .original_positions = 65536.0, .beta_fast = 32.0, .beta_slow = 1.0};

struct printed_frequency {
    int pair;
    double compress;
    double plain;
};

/* The printed rows of the spec's table. */
static const struct printed_frequency PRINTED[] = {
    {0, 1, 1},
    {1, 0.687656045, 0.749894202},
    {2, 0.472870797, 0.562341332},
    {3, 0.325172454, 0.421696514},
    {4, 0.223606795, 0.316227764},
    {5, 0.153764561, 0.237137362},
    {6, 0.10573712, 0.177827939},
    {7, 0.0727107748, 0.133352146},
    {8, 0.0500000007, 0.100000001},
    {12, 0.0111803403, 0.0316227786},
    {15, 0.00363553851, 0.0133352149},
    {16, 0.00226562493, 0.00999999978},
    {17, 0.00139680132, 0.00749894232},
    {18, 0.000849689706, 0.00562341325},
    {19, 0.000508081983, 0.00421696482},
    {20, 0.000296977785, 0.00316227786},
    {21, 0.000168179977, 0.00237137382},
    {22, 9.08678412e-05, 0.00177827943},
    {23, 4.54442306e-05, 0.00133352145},
    {24, 1.95312532e-05, 0.00100000005},
    {25, 5.37231244e-06, 0.000749894185},
    {31, 5.6805294e-07, 0.00013335215},
};

static struct rope_table compress_table(void) {
    struct rope_table table;
    rope_table_init(&table, PAIRS, 160000.0, &YARN);
    return table;
}

static struct rope_table plain_table(void) {
    struct rope_table table;
    rope_table_init(&table, PAIRS, 10000.0, NULL);
    return table;
}

/* Power functions differ in the last place: one unit is allowed. */
static void expect_frequency(float actual, double printed) {
    if (!(fabs((double)actual - printed) <= 1.2e-7 * printed)) {
        fail_msg("frequency %.9g, printed %.9g", (double)actual, printed);
    }
}

static void tables_are_those_of_the_spec(void **state) {
    (void)state;
    struct rope_table compress = compress_table();
    struct rope_table plain = plain_table();
    for (size_t n = 0; n < sizeof PRINTED / sizeof PRINTED[0]; n++) {
        expect_frequency(compress.frequency[PRINTED[n].pair], PRINTED[n].compress);
        expect_frequency(plain.frequency[PRINTED[n].pair], PRINTED[n].plain);
    }
}

static void no_scaling_is_plain_rope(void **state) {
    (void)state;
    struct rope_table plain = plain_table();
    struct rope_scaling none = YARN;
    struct rope_table table;
    none.factor = 1.0;
    rope_table_init(&table, PAIRS, 10000.0, &none);
    assert_memory_equal(table.frequency, plain.frequency, PAIRS * sizeof(float));
    none = YARN;
    none.original_positions = 0.0;
    rope_table_init(&table, PAIRS, 10000.0, &none);
    assert_memory_equal(table.frequency, plain.frequency, PAIRS * sizeof(float));
}

/* Rotates `heads` heads per row in place. */
static void rotate(struct op_fixture *fixture, enum numerics numerics, float *values, int rows, int heads,
                   int width, const int32_t *positions, const struct rope_table *table, bool is_inverse) {
    struct rope_args args = {
        .x = OP_TENSOR(fixture, numerics_activation_dtype(numerics), values, rows, heads, width),
        .positions = op_fixture_integers(fixture, positions, rows),
        .table = table,
        .is_inverse = is_inverse,
    };
    OP_RUN(fixture, numerics, rope, &args);
    op_fixture_read(fixture, args.x, values);
}

/*
 * The example prints sine and cosine of the product before its rounding to fp32, which moves them by up to
 * half a unit in the last place of the angle: 1.2e-7.
 */
static void example_of_the_spec(void **state) {
    struct op_fixture *fixture = *state;
    struct rope_table table = compress_table();
    float head[2 * PAIRS] = {0};
    head[2] = 1.0f;
    const int32_t position = 5;
    rotate(fixture, NUMERICS_IDEAL, head, 1, 1, 2 * PAIRS, &position, &table, false);
    const double expected[2] = {-0.95631014, -0.29235411};
    op_expect_near("pair 1", head + 2, expected, 2, 2e-7);
    /* The second channel of a pair: (0, 1) becomes (-sin, cos). */
    memset(head, 0, sizeof head);
    head[3] = 1.0f;
    rotate(fixture, NUMERICS_IDEAL, head, 1, 1, 2 * PAIRS, &position, &table, false);
    const double turned[2] = {0.29235411, -0.95631014};
    op_expect_near("pair 1", head + 2, turned, 2, 2e-7);
    /* Native: the same, rounded to bf16. */
    rotate(fixture, NUMERICS_NATIVE, head, 1, 1, 2 * PAIRS, &position, &table, true);
    const double back[2] = {0.0, 1.0};
    op_expect_near("pair 1 in bf16", head + 2, back, 2, 0x1p-8);
    assert_true(head[3] == bf16_round(head[3]));
}

static void inverse_undoes_forward(void **state) {
    struct op_fixture *fixture = *state;
    enum { ROWS = 3, HEADS = 2, WIDTH = 80, COUNT = ROWS * HEADS * WIDTH };
    struct rope_table table = plain_table();
    const int32_t positions[ROWS] = {0, 77, 1000000};
    float values[COUNT];
    double original[COUNT];
    op_fixture_random_fill(fixture, values, COUNT);
    for (int i = 0; i < COUNT; i++) {
        original[i] = values[i];
    }
    rotate(fixture, NUMERICS_IDEAL, values, ROWS, HEADS, WIDTH, positions, &table, false);
    double moved = 0.0;
    for (int i = HEADS * WIDTH; i < COUNT; i++) {
        moved += fabs((double)values[i] - original[i]);
    }
    assert_true(moved > 1.0);
    rotate(fixture, NUMERICS_IDEAL, values, ROWS, HEADS, WIDTH, positions, &table, true);
    op_expect_near("value", values, original, COUNT, 3e-7);
}

static void leading_channels_stay(void **state) {
    struct op_fixture *fixture = *state;
    enum { ROWS = 2, HEADS = 3, WIDTH = 72, LEADING = WIDTH - 2 * PAIRS };
    struct rope_table table = compress_table();
    const int32_t positions[ROWS] = {9, 10};
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        float values[ROWS * HEADS * WIDTH];
        float before[ROWS * HEADS * WIDTH];
        op_fixture_random_fill(fixture, values, ROWS * HEADS * WIDTH);
        for (int i = 0; i < ROWS * HEADS * WIDTH; i++) {
            values[i] = before[i] = bf16_round(values[i]);
        }
        rotate(fixture, (enum numerics)numerics, values, ROWS, HEADS, WIDTH, positions, &table, false);
        for (int head = 0; head < ROWS * HEADS; head++) {
            assert_memory_equal(values + head * WIDTH, before + head * WIDTH, LEADING * sizeof(float));
            for (int i = LEADING; i < LEADING + 10; i++) {
                assert_true(values[head * WIDTH + i] != before[head * WIDTH + i]);
            }
        }
    }
}

/* The angle is the fp32 product; its sine and cosine come from a wider type. */
static void large_positions_are_reduced_fully(void **state) {
    struct op_fixture *fixture = *state;
    const int32_t positions[] = {65535, 999983, 1048575, 16777215};
    struct rope_table tables[2] = {compress_table(), plain_table()};
    for (int n = 0; n < 8; n++) {
        const struct rope_table *table = &tables[n % 2];
        int32_t position = positions[n / 2];
        float head[2 * PAIRS];
        double expected[2 * PAIRS];
        for (int i = 0; i < PAIRS; i++) {
            head[2 * i] = 1.0f;
            head[2 * i + 1] = 0.0f;
            volatile float angle = (float)position * table->frequency[i];
            expected[2 * i] = (double)cosl((long double)angle);
            expected[2 * i + 1] = (double)sinl((long double)angle);
        }
        rotate(fixture, NUMERICS_IDEAL, head, 1, 1, 2 * PAIRS, &position, table, false);
        op_expect_near("channel", head, expected, 2 * PAIRS, 6e-8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_those_of_the_spec),
        cmocka_unit_test(no_scaling_is_plain_rope),
        OP_TEST(example_of_the_spec),
        OP_TEST(inverse_undoes_forward),
        OP_TEST(leading_channels_stay),
        OP_TEST(large_positions_are_reduced_fully),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
