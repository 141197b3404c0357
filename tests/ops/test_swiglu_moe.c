/*
 * Experts: the clamp vectors of spec deepseek-v4 4.11, routed experts against a plain loop over dequantised
 * weights, and the order of the sum.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ops/moe_combine.h"
#include "ops/moe_experts.h"
#include "ops/swiglu.h"
#include "support/op_fixture.h"
#include "tensor/number_format.h"
#include "tensor/quantize.h"

static void swiglu(struct op_fixture *fixture, enum numerics numerics, const float *gate, const float *up,
                   int64_t width, float clamp, float *out) {
    enum dtype dtype = numerics_activation_dtype(numerics);
    struct swiglu_args args = {
        .gate = OP_TENSOR(fixture, dtype, gate, 1, width),
        .up = OP_TENSOR(fixture, dtype, up, 1, width),
        .clamp = clamp,
    };
    args.out = args.gate;
    OP_RUN(fixture, numerics, swiglu, &args);
    op_fixture_read(fixture, args.out, out);
}

/* The last pair is field report B10: 30 and 30, as the shared expert sees them. */
static void clamp_vectors_of_the_spec(void **state) {
    const float gate[5] = {12, 2, -15, .5f, 30};
    const float up[5] = {3, 11, -20, -.25f, 30};
    const double expected[5] = {29.9986381, 17.6159416, 4.58853e-05, -.0778074, 99.9954602};
    const double tolerances[5] = {2e-6, 1e-6, 1e-10, 4e-8, 1e-5};
    float out[5];
    swiglu(*state, NUMERICS_IDEAL, gate, up, 5, 10.0f, out);
    for (int i = 0; i < 5; i++) {
        op_expect_near("out", out + i, expected + i, 1, tolerances[i]);
    }
    swiglu(*state, NUMERICS_NATIVE, gate, up, 5, 10.0f, out);
    for (int i = 0; i < 5; i++) {
        assert_true(out[i] == bf16_round((float)expected[i]));
    }
}

/* A NaN must reach the check for values that are not finite, not turn into the clamp. */
static void a_nan_comes_through(void **state) {
    const float gate[3] = {NAN, 1, 1};
    const float up[3] = {1, NAN, 1};
    float out[3];
    swiglu(*state, NUMERICS_IDEAL, gate, up, 3, 10.0f, out);
    assert_true(isnan(out[0]) && isnan(out[1]) && !isnan(out[2]));
}

static void clamp_is_a_parameter(void **state) {
    const float gate[2] = {5, 1};
    const float up[2] = {1, -5};
    const double expected[2] = {2.0 / (1.0 + exp(-2.0)), -2.0 / (1.0 + exp(-1.0))};
    float out[2];
    swiglu(*state, NUMERICS_IDEAL, gate, up, 2, 2.0f, out);
    op_expect_near("out", out, expected, 2, 2e-7);
}

enum { ROWS = 7, PICKS = 2, EXPERTS = 4, WIDTH = 160, INNER = 96, MATRIX = WIDTH * INNER };

/* A bank of random experts and what its weights mean. */
struct bank {
    struct weight gate[EXPERTS];
    struct weight up[EXPERTS];
    struct weight down[EXPERTS];
    double gate_values[EXPERTS][MATRIX];
    double up_values[EXPERTS][MATRIX];
    double down_values[EXPERTS][MATRIX];
};

static void make_bank(struct op_fixture *fixture, enum weight_format format, struct bank *bank) {
    for (int e = 0; e < EXPERTS; e++) {
        bank->gate[e] = op_fixture_random_weight(fixture, format, INNER, WIDTH, bank->gate_values[e]);
        bank->up[e] = op_fixture_random_weight(fixture, format, INNER, WIDTH, bank->up_values[e]);
        bank->down[e] = op_fixture_random_weight(fixture, format, WIDTH, INNER, bank->down_values[e]);
    }
}

static double dot(const double *weights, const float *x, int count) {
    double sum = 0.0;
    for (int i = 0; i < count; i++) {
        sum += weights[i] * (double)x[i];
    }
    return sum;
}

/* EXPERT of the spec for one token; `rounds`: bf16 activations, `quantises`: ACT8 of inputs too. */
static void plain_expert(const struct bank *bank, int expert, const float *token, float routing, bool rounds,
                         bool quantises, double *out) {
    float x[WIDTH];
    float h[INNER];
    for (int i = 0; i < WIDTH; i++) {
        x[i] = token[i];
    }
    if (quantises) {
        act8_round(x, WIDTH, 128);
    }
    for (int i = 0; i < INNER; i++) {
        float a = (float)dot(bank->gate_values[expert] + i * WIDTH, x, WIDTH);
        float b = (float)dot(bank->up_values[expert] + i * WIDTH, x, WIDTH);
        a = fminf(rounds ? bf16_round(a) : a, 10.0f);
        b = fmaxf(fminf(rounds ? bf16_round(b) : b, 10.0f), -10.0f);
        h[i] = routing * (float)((double)a / (1.0 + exp(-(double)a)) * (double)b);
        h[i] = rounds ? bf16_round(h[i]) : h[i];
    }
    if (quantises) {
        act8_round(h, INNER, 128);
    }
    for (int o = 0; o < WIDTH; o++) {
        out[o] = dot(bank->down_values[expert] + o * INNER, h, INNER);
        out[o] = rounds ? bf16_round((float)out[o]) : out[o];
    }
}

/* Twice the same expert, an expert that nobody picks, weights of zero and above one. */
static const int32_t PICKED[ROWS][PICKS] = {{0, 3}, {3, 0}, {1, 1}, {0, 1}, {3, 1}, {0, 3}, {1, 0}};
static const float ROUTING[ROWS][PICKS] = {{.25f, .75f}, {1.5f, 0},    {.5f, .5f}, {.125f, 1},
                                           {.3f, .7f},   {.01f, 2.5f}, {.6f, .4f}};

static void expect_experts(struct op_fixture *fixture, enum weight_format format, enum numerics numerics) {
    static struct bank bank;
    static float x[ROWS][WIDTH];
    static float actual[ROWS][PICKS][WIDTH];
    enum dtype dtype = numerics_activation_dtype(numerics);
    make_bank(fixture, format, &bank);
    for (int i = 0; i < ROWS * WIDTH; i++) {
        x[i / WIDTH][i % WIDTH] = bf16_round(8.0f * op_fixture_random(fixture));
    }
    const struct expert_weights experts = {
        .gate = bank.gate, .up = bank.up, .down = bank.down, .count = EXPERTS};
    struct moe_experts_args args = {
        .out = OP_TENSOR(fixture, dtype, NULL, ROWS, PICKS, WIDTH),
        .x = OP_TENSOR(fixture, dtype, x[0], ROWS, WIDTH),
        .experts = {.dtype = DTYPE_I32, .rank = 2, .shape = {ROWS, PICKS}},
        .weights = OP_TENSOR(fixture, DTYPE_F32, ROUTING[0], ROWS, PICKS),
        .bank = &experts,
        .clamp = 10.0f,
    };
    args.experts.data = op_fixture_upload(fixture, PICKED, sizeof PICKED);
    OP_RUN(fixture, numerics, moe_experts, &args);
    op_fixture_read(fixture, args.out, actual[0][0]);
    for (int pair = 0; pair < ROWS * PICKS; pair++) {
        int row = pair / PICKS;
        int k = pair % PICKS;
        double expected[WIDTH];
        bool rounds = numerics == NUMERICS_NATIVE;
        plain_expert(&bank, PICKED[row][k], x[row], ROUTING[row][k], rounds, rounds && format != WEIGHT_PLAIN,
                     expected);
        double largest = 0.0;
        for (int o = 0; o < WIDTH; o++) {
            largest = fmax(largest, fabs(expected[o]));
        }
        /* Native: the loop rounds where the spec does, so it lands on the same bf16 values. */
        op_expect_near("out", actual[row][k], expected, WIDTH, rounds ? 0.0 : 1e-5 * largest);
    }
}

static void experts_in_fp4(void **state) {
    expect_experts(*state, WEIGHT_FP4, NUMERICS_IDEAL);
    expect_experts(*state, WEIGHT_FP4, NUMERICS_NATIVE);
}

static void experts_in_fp8(void **state) {
    expect_experts(*state, WEIGHT_FP8, NUMERICS_IDEAL);
    expect_experts(*state, WEIGHT_FP8, NUMERICS_NATIVE);
}

static void experts_in_bf16(void **state) {
    expect_experts(*state, WEIGHT_PLAIN, NUMERICS_IDEAL);
    expect_experts(*state, WEIGHT_PLAIN, NUMERICS_NATIVE);
}

/* Slots in order, the shared expert last (spec parallelism E-11): (2^24 + 1) - 2^24 is 0 in fp32, 2^24 - 2^24
 * + 1 is 1. */
static void combine_adds_in_slot_order(void **state) {
    struct op_fixture *fixture = *state;
    const float routed[2][3][2] = {{{0x1p24f, 1}, {1, 2}, {-0x1p24f, 3}},
                                   {{0x1p24f, 0}, {-0x1p24f, 0}, {1, 0}}};
    const float shared[2][2] = {{0.5f, 4}, {1, 0}};
    const double expected[4] = {0.5, 10, 2, 0};
    struct moe_combine_args args = {
        .routed = OP_TENSOR(fixture, DTYPE_F32, routed[0][0], 2, 3, 2),
        .shared = OP_TENSOR(fixture, DTYPE_F32, shared[0], 2, 2),
    };
    args.out = args.shared;
    OP_RUN(fixture, NUMERICS_IDEAL, moe_combine, &args);
    float out[4];
    op_fixture_read(fixture, args.out, out);
    op_expect_near("out", out, expected, 4, 0.0);
    /* The shared result joins last: 1 - 2^24 rounds away before it, 2^24 + 1 does not. */
    const float parts[2] = {1, 0x1p24f};
    const float last[1] = {-0x1p24f};
    args.routed = OP_TENSOR(fixture, DTYPE_F32, parts, 1, 2, 1);
    args.shared = OP_TENSOR(fixture, DTYPE_F32, last, 1, 1);
    args.out = OP_TENSOR(fixture, DTYPE_F32, NULL, 1, 1);
    OP_RUN(fixture, NUMERICS_IDEAL, moe_combine, &args);
    op_fixture_read(fixture, args.out, out);
    assert_true(out[0] == 0.0f);
}

/* bf16 results add up in fp32 and are rounded once: 256 + 1 + 1 is 258, not 256. */
static void combine_rounds_once(void **state) {
    struct op_fixture *fixture = *state;
    const float routed[2] = {256, 1};
    const float shared[1] = {1};
    struct moe_combine_args args = {
        .out = OP_TENSOR(fixture, DTYPE_BF16, NULL, 1, 1),
        .routed = OP_TENSOR(fixture, DTYPE_BF16, routed, 1, 2, 1),
        .shared = OP_TENSOR(fixture, DTYPE_BF16, shared, 1, 1),
    };
    OP_RUN(fixture, NUMERICS_NATIVE, moe_combine, &args);
    float out;
    op_fixture_read(fixture, args.out, &out);
    assert_true(out == 258.0f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(a_nan_comes_through),
        OP_TEST(clamp_vectors_of_the_spec),
        OP_TEST(clamp_is_a_parameter),
        OP_TEST(experts_in_fp4),
        OP_TEST(experts_in_fp8),
        OP_TEST(experts_in_bf16),
        OP_TEST(combine_adds_in_slot_order),
        OP_TEST(combine_rounds_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
