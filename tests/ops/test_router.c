/*
 * Routing: the score values of spec deepseek-v4 4.11, which experts are picked and with what weights, and the
 * integer table of hash layers.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ops/route_experts.h"
#include "support/op_fixture.h"

/* One row of logits and how to route it. */
struct routing {
    struct op_fixture *fixture;
    enum route_score score;
    float scaling;
    const float *logits;
    int experts;
    const struct weight *bias;
    struct tensor table;
    int32_t token_id;
};

static void route(const struct routing *routing, int picks, int32_t *experts, float *weights) {
    struct op_fixture *fixture = routing->fixture;
    struct tensor picked = {.dtype = DTYPE_I32, .rank = 2, .shape = {1, picks}};
    picked.data = op_fixture_upload(fixture, NULL, (size_t)picks * sizeof *experts);
    struct route_experts_args args = {
        .experts = picked,
        .weights = OP_TENSOR(fixture, DTYPE_F32, NULL, 1, picks),
        .logits = OP_TENSOR(fixture, DTYPE_F32, routing->logits, 1, routing->experts),
        .bias = routing->bias,
        .table = routing->table,
        .token_ids = op_fixture_integers(fixture, &routing->token_id, 1),
        .score = routing->score,
        .scaling = routing->scaling,
    };
    OP_RUN(fixture, NUMERICS_IDEAL, route_experts, &args);
    op_fixture_read_integers(fixture, args.experts, experts);
    op_fixture_read(fixture, args.weights, weights);
}

/* All experts picked: the weights are the scores over their sum. */
static void scores_are_those_of_the_spec(void **state) {
    const float logits[6] = {-10, -1, 0, 1, 5, 25};
    const double scores[6] = {.00673787, .5596979, .8325546, 1.1459763, 2.2375691, 5};
    struct routing routing = {.fixture = *state, .scaling = 1.0f, .logits = logits, .experts = 6};
    int32_t experts[6];
    float weights[6];
    double sum = 0.0;
    route(&routing, 6, experts, weights);
    for (int i = 0; i < 6; i++) {
        sum += scores[i];
    }
    for (int k = 0; k < 6; k++) {
        assert_int_equal(experts[k], 5 - k); /* best first */
        const double expected = scores[5 - k] / sum;
        op_expect_near("weight", weights + k, &expected, 1, 3e-8);
    }
}

/* softplus must not overflow: sqrt(1000) against sqrt(250). */
static void large_logits_do_not_overflow(void **state) {
    const float logits[2] = {1000, 250};
    struct routing routing = {.fixture = *state, .scaling = 1.0f, .logits = logits, .experts = 2};
    int32_t experts[2];
    float weights[2];
    route(&routing, 2, experts, weights);
    const double expected[2] = {2.0 / 3.0, 1.0 / 3.0};
    op_expect_near("weight", weights, expected, 2, 1e-7);
}

/* Field report B14. */
static void score_rule_decides_the_weights(void **state) {
    const float logits[2] = {2, -2};
    struct routing routing = {.fixture = *state, .scaling = 1.0f, .logits = logits, .experts = 2};
    int32_t experts[2];
    float weights[2];
    route(&routing, 2, experts, weights);
    op_expect_near("sqrtsoftplus", weights, (double[]){0.8037, 0.1963}, 2, 5e-5);
    routing.score = ROUTE_SCORE_SIGMOID;
    route(&routing, 2, experts, weights);
    op_expect_near("sigmoid", weights, (double[]){0.8808, 0.1192}, 2, 5e-5);
}

/* Field report B18: the bias picks an expert and leaves its weight alone. */
static void bias_selects_only(void **state) {
    const float logits[5] = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
    const float biases[5] = {0, 0, 0, 3, 0};
    struct weight bias = op_fixture_plain(*state, DTYPE_F32, 1, 5, biases);
    struct routing routing = {
        .fixture = *state, .scaling = 1.0f, .logits = logits, .experts = 5, .bias = &bias};
    int32_t experts[2];
    float weights[2];
    route(&routing, 2, experts, weights);
    assert_int_equal(experts[0], 3);
    assert_int_equal(experts[1], 0);
    op_expect_near("weight", weights, (double[]){0.5, 0.5}, 2, 0.0);
    /* A negative bias keeps the best expert out. */
    const float uneven[5] = {0, 1, 2, 3, 4};
    const float against[5] = {0, 0, 0, 0, -9};
    bias = op_fixture_plain(*state, DTYPE_F32, 1, 5, against);
    routing.logits = uneven;
    route(&routing, 2, experts, weights);
    assert_int_equal(experts[0], 3);
    assert_int_equal(experts[1], 2);
}

/* Field report B16: the bias is added in fp32. */
static void bias_keeps_its_precision(void **state) {
    float logits[16];
    float biases[16];
    for (int e = 0; e < 16; e++) {
        logits[e] = 1.0f;
        biases[e] = 7.0f + 0.001f * (float)e;
    }
    struct weight bias = op_fixture_plain(*state, DTYPE_F32, 1, 16, biases);
    struct routing routing = {
        .fixture = *state, .scaling = 1.0f, .logits = logits, .experts = 16, .bias = &bias};
    int32_t experts[2];
    float weights[2];
    route(&routing, 2, experts, weights);
    assert_int_equal(experts[0], 15);
    assert_int_equal(experts[1], 14);
}

/* Spec parallelism E-10. */
static void ties_go_to_the_lower_expert(void **state) {
    const float logits[8] = {0, 3, 1, 3, 0, 3, 1, 3};
    struct routing routing = {.fixture = *state, .scaling = 1.0f, .logits = logits, .experts = 8};
    const int32_t expected[6] = {1, 3, 5, 7, 2, 6};
    int32_t experts[6];
    float weights[6];
    route(&routing, 6, experts, weights);
    assert_memory_equal(experts, expected, sizeof expected);
}

enum { EXPERTS = 384, PICKS = 3, TOKENS = 4 };

static const int64_t TABLE[TOKENS][PICKS] = {{0, 1, 2}, {257, 259, 383}, {383, 0, 256}, {5, 3, 4}};

static void expect_table_route(const struct routing *base, int32_t token_id, int row) {
    struct routing routing = *base;
    int32_t experts[PICKS];
    float weights[PICKS];
    double sum = 0.0;
    routing.token_id = token_id;
    route(&routing, PICKS, experts, weights);
    for (int k = 0; k < PICKS; k++) {
        sum += sqrt(log1p(exp((double)routing.logits[TABLE[row][k]])));
    }
    for (int k = 0; k < PICKS; k++) {
        assert_int_equal(experts[k], TABLE[row][k]);
        double expected = 1.5 * sqrt(log1p(exp((double)routing.logits[TABLE[row][k]]))) / sum;
        op_expect_near("weight", weights + k, &expected, 1, 2e-7);
    }
}

/*
 * Field report B12: ids above 256 come out whole. The weights are those of the logits, scaled in hash layers
 * too; a bias plays no part; a token id outside the table is clamped (G-18).
 */
static void table_routes_by_token_id(void **state) {
    struct op_fixture *fixture = *state;
    float logits[EXPERTS];
    float biases[EXPERTS];
    int32_t narrow[TOKENS][PICKS];
    op_fixture_random_fill(fixture, logits, EXPERTS);
    op_fixture_random_fill(fixture, biases, EXPERTS);
    for (int i = 0; i < TOKENS * PICKS; i++) {
        narrow[i / PICKS][i % PICKS] = (int32_t)TABLE[i / PICKS][i % PICKS];
    }
    struct weight bias = op_fixture_plain(fixture, DTYPE_F32, 1, EXPERTS, biases);
    struct routing routing = {.fixture = fixture, .scaling = 1.5f, .logits = logits, .experts = EXPERTS};
    routing.table = (struct tensor){.dtype = DTYPE_I64, .rank = 2, .shape = {TOKENS, PICKS}};
    routing.table.data = op_fixture_upload_odd(fixture, TABLE, sizeof TABLE);
    for (int32_t token = 0; token < TOKENS; token++) {
        expect_table_route(&routing, token, token);
    }
    expect_table_route(&routing, TOKENS, TOKENS - 1);
    expect_table_route(&routing, -1, 0);
    routing.bias = &bias;
    expect_table_route(&routing, 1, 1);
    routing.table.dtype = DTYPE_I32;
    routing.table.data = op_fixture_upload_odd(fixture, narrow, sizeof narrow);
    expect_table_route(&routing, 1, 1);
    expect_table_route(&routing, 2, 2);
}

static void scaling_multiplies_the_weights(void **state) {
    const float logits[3] = {1, 1, 1};
    struct routing routing = {.fixture = *state, .scaling = 2.5f, .logits = logits, .experts = 3};
    int32_t experts[2];
    float weights[2];
    route(&routing, 2, experts, weights);
    op_expect_near("weight", weights, (double[]){1.25, 1.25}, 2, 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(scores_are_those_of_the_spec),   OP_TEST(large_logits_do_not_overflow),
        OP_TEST(score_rule_decides_the_weights), OP_TEST(bias_selects_only),
        OP_TEST(bias_keeps_its_precision),       OP_TEST(ties_go_to_the_lower_expert),
        OP_TEST(table_routes_by_token_id),       OP_TEST(scaling_multiplies_the_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
