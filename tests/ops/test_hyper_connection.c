/*
 * Residual streams: the vector of spec deepseek-v4 4.2/4.3, the Sinkhorn steps against a plain formula, the
 * direction of the write-back, the head's collapse.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/hyper_connection_head.h"
#include "ops/hyper_connection_post.h"
#include "ops/hyper_connection_pre.h"
#include "support/op_fixture.h"
#include "tensor/number_format.h"

enum {
    STREAMS = 4,
    WIDTH = 3,
    FLAT = STREAMS * WIDTH,
    MIXES = (2 + STREAMS) * STREAMS,
    SQUARE = STREAMS * STREAMS
};

static const float SCALES[3] = {1.0f, 0.5f, 2.0f};
static const double PRE[STREAMS] = {.3318132, .5621775, .4133834, .6456573};
static const double POST[STREAMS] = {.9750053, 1.0, 1.0748596, 1.0996679};
static const double COMB[SQUARE] = {.1790796, .3809764, .2905698, .1493733, .2708250, .0638407,
                                    .4394339, .2258994, .2001546, .4258120, .2070801, .1669523,
                                    .3499398, .1293698, .0629152, .4577741};

/* Exact in bf16. */
static const float STREAM_VALUES[FLAT] = {1, -0.5f, 2, 0.25f, 3, -1.5f, -2, 0.75f, 1.25f, -0.125f, 4, 0.5f};

static float wanted_mix(int i) {
    return 0.1f * (float)(7 * i % 11 - 5);
}

static float wanted_base(int i) {
    return 0.05f * (float)(5 * i % 9 - 4);
}

/* Rows of a mix that give m[i] for these streams: a multiple of the streams themselves. */
static void make_mix(const float *streams, double epsilon, int rows, float *mix) {
    double squares = 0.0;
    for (int k = 0; k < FLAT; k++) {
        squares += (double)streams[k] * streams[k];
    }
    double rms = sqrt(squares / FLAT + epsilon);
    for (int i = 0; i < rows; i++) {
        for (int k = 0; k < FLAT; k++) {
            mix[i * FLAT + k] = (float)(wanted_mix(i) * rms * streams[k] / squares);
        }
    }
}

struct pre_result {
    float out[WIDTH];
    float post[STREAMS];
    float comb[SQUARE];
};

static struct pre_result run_pre(struct op_fixture *fixture, enum numerics numerics, const float *streams,
                                 const float *mix, const float *base, const float *scale, int iterations,
                                 float norm_epsilon) {
    enum dtype dtype = numerics_activation_dtype(numerics);
    struct weight mix_weight = op_fixture_plain(fixture, DTYPE_F32, MIXES, FLAT, mix);
    struct weight base_weight = op_fixture_plain(fixture, DTYPE_F32, 1, MIXES, base);
    struct weight scale_weight = op_fixture_plain(fixture, DTYPE_F32, 1, 3, scale);
    struct hyper_connection_pre_args args = {
        .out = OP_TENSOR(fixture, dtype, NULL, 1, WIDTH),
        .post = OP_TENSOR(fixture, DTYPE_F32, NULL, 1, STREAMS),
        .comb = OP_TENSOR(fixture, DTYPE_F32, NULL, 1, STREAMS, STREAMS),
        .streams = OP_TENSOR(fixture, dtype, streams, 1, STREAMS, WIDTH),
        .mix = &mix_weight,
        .base = &base_weight,
        .scale = &scale_weight,
        .sinkhorn_iterations = iterations,
        .gate_epsilon = 1e-6f,
        .norm_epsilon = norm_epsilon,
    };
    OP_RUN(fixture, numerics, hyper_connection_pre, &args);
    struct pre_result result;
    op_fixture_read(fixture, args.out, result.out);
    op_fixture_read(fixture, args.post, result.post);
    op_fixture_read(fixture, args.comb, result.comb);
    return result;
}

/* y of the spec: the streams weighted by PRE. */
static void weighted_streams(const float *streams, double *out) {
    for (int i = 0; i < WIDTH; i++) {
        out[i] = 0.0;
        for (int j = 0; j < STREAMS; j++) {
            out[i] += PRE[j] * streams[j * WIDTH + i];
        }
    }
}

static void pre_gives_the_spec_vector(void **state) {
    struct op_fixture *fixture = *state;
    float mix[MIXES * FLAT];
    float base[MIXES];
    double out[WIDTH];
    make_mix(STREAM_VALUES, 1e-6, MIXES, mix);
    weighted_streams(STREAM_VALUES, out);
    for (int i = 0; i < MIXES; i++) {
        base[i] = wanted_base(i);
    }
    struct pre_result ideal = run_pre(fixture, NUMERICS_IDEAL, STREAM_VALUES, mix, base, SCALES, 20, 1e-6f);
    op_expect_near("post", ideal.post, POST, STREAMS, 3e-7);
    op_expect_near("comb", ideal.comb, COMB, SQUARE, 3e-7);
    op_expect_near("out", ideal.out, out, WIDTH, 2e-6);
    /* Native: the same gates, one rounding of the output. */
    struct pre_result native = run_pre(fixture, NUMERICS_NATIVE, STREAM_VALUES, mix, base, SCALES, 20, 1e-6f);
    op_expect_near("native post", native.post, POST, STREAMS, 3e-7);
    op_expect_near("native comb", native.comb, COMB, SQUARE, 3e-7);
    for (int i = 0; i < WIDTH; i++) {
        assert_true(native.out[i] == bf16_round((float)out[i]));
    }
}

/* With streams this small the epsilon of the norm is half of the divisor. */
static void pre_norm_has_its_epsilon_inside_the_root(void **state) {
    struct op_fixture *fixture = *state;
    float streams[FLAT];
    float mix[MIXES * FLAT];
    float base[MIXES];
    for (int k = 0; k < FLAT; k++) {
        streams[k] = k % 2 == 0 ? 0x1p-10f : -0x1p-10f;
    }
    make_mix(streams, 1e-6, MIXES, mix);
    for (int i = 0; i < MIXES; i++) {
        base[i] = wanted_base(i);
    }
    struct pre_result result = run_pre(fixture, NUMERICS_IDEAL, streams, mix, base, SCALES, 20, 1e-6f);
    op_expect_near("post", result.post, POST, STREAMS, 3e-7);
    op_expect_near("comb", result.comb, COMB, SQUARE, 3e-7);
}

/* Softmax and `iterations` rounds of spec 4.2, written out in the spec's order. */
static void plain_sinkhorn(double c[STREAMS][STREAMS], int iterations) {
    for (int j = 0; j < STREAMS; j++) {
        double sum = 0.0;
        for (int k = 0; k < STREAMS; k++) {
            sum += exp(c[j][k]);
        }
        for (int k = 0; k < STREAMS; k++) {
            c[j][k] = exp(c[j][k]) / sum + 1e-6;
        }
    }
    for (int round = 0; round < iterations; round++) {
        for (int j = 0; round > 0 && j < STREAMS; j++) {
            double sum = c[j][0] + c[j][1] + c[j][2] + c[j][3] + 1e-6;
            for (int k = 0; k < STREAMS; k++) {
                c[j][k] /= sum;
            }
        }
        for (int k = 0; k < STREAMS; k++) {
            double sum = c[0][k] + c[1][k] + c[2][k] + c[3][k] + 1e-6;
            for (int j = 0; j < STREAMS; j++) {
                c[j][k] /= sum;
            }
        }
    }
}

/* A mix of zeros leaves C = base: large entries make Sinkhorn slow, so that each round shows. */
static void comb_after_each_number_of_rounds(void **state) {
    struct op_fixture *fixture = *state;
    float mix[MIXES * FLAT] = {0};
    float base[MIXES] = {0};
    for (int i = 0; i < SQUARE; i++) {
        base[2 * STREAMS + i] = 6.0f * op_fixture_random(fixture);
    }
    const int rounds[] = {1, 2, 3, 20};
    for (size_t n = 0; n < sizeof rounds / sizeof rounds[0]; n++) {
        double expected[STREAMS][STREAMS];
        for (int i = 0; i < SQUARE; i++) {
            expected[i / STREAMS][i % STREAMS] = base[2 * STREAMS + i];
        }
        plain_sinkhorn(expected, rounds[n]);
        struct pre_result result =
            run_pre(fixture, NUMERICS_IDEAL, STREAM_VALUES, mix, base, SCALES, rounds[n], 1e-6f);
        op_expect_near("comb", result.comb, expected[0], SQUARE, 1e-7);
    }
}

static void comb_is_doubly_stochastic(void **state) {
    struct op_fixture *fixture = *state;
    float mix[MIXES * FLAT];
    float base[MIXES];
    for (int round = 0; round < 20; round++) {
        op_fixture_random_fill(fixture, mix, MIXES * FLAT);
        op_fixture_random_fill(fixture, base, MIXES);
        float scale[3] = {1.0f, 1.0f, 0.25f};
        struct pre_result result =
            run_pre(fixture, NUMERICS_IDEAL, STREAM_VALUES, mix, base, scale, 20, 1e-6f);
        for (int j = 0; j < STREAMS; j++) {
            double row = 0.0;
            double column = 0.0;
            for (int k = 0; k < STREAMS; k++) {
                assert_true(result.comb[j * STREAMS + k] > 0.0f);
                row += result.comb[j * STREAMS + k];
                column += result.comb[k * STREAMS + j];
            }
            assert_true(fabs(row - 1.0) <= 1e-4);
            assert_true(fabs(column - 1.0) <= 1e-4);
        }
    }
}

static void post_mixes_from_source_to_target(void **state) {
    struct op_fixture *fixture = *state;
    const float streams[2] = {10.0f, 100.0f};
    const float comb[4] = {0.25f, 0.75f, 1.0f, 0.0f};
    const float post[2] = {2.0f, 3.0f};
    const float branch[1] = {1.0f};
    /* 2 * 1 + 0.25 * 10 + 1 * 100, 3 * 1 + 0.75 * 10 + 0 * 100: both exact in bf16 too. */
    const double expected[2] = {104.5, 10.5};
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        enum dtype dtype = numerics_activation_dtype((enum numerics)numerics);
        struct hyper_connection_post_args args = {
            .streams = OP_TENSOR(fixture, dtype, streams, 1, 2, 1),
            .branch = OP_TENSOR(fixture, dtype, branch, 1, 1),
            .post = OP_TENSOR(fixture, DTYPE_F32, post, 1, 2),
            .comb = OP_TENSOR(fixture, DTYPE_F32, comb, 1, 2, 2),
        };
        OP_RUN(fixture, (enum numerics)numerics, hyper_connection_post, &args);
        float actual[2];
        op_fixture_read(fixture, args.streams, actual);
        op_expect_near("streams", actual, expected, 2, 0.0);
    }
}

/* Two rows and several channels: rows and channels keep apart. */
static void post_keeps_rows_and_channels_apart(void **state) {
    struct op_fixture *fixture = *state;
    float streams[2 * FLAT];
    float comb[2 * SQUARE];
    float post[2 * STREAMS];
    float branch[2 * WIDTH];
    double expected[2 * FLAT];
    op_fixture_random_fill(fixture, streams, 2 * FLAT);
    op_fixture_random_fill(fixture, comb, 2 * SQUARE);
    op_fixture_random_fill(fixture, post, 2 * STREAMS);
    op_fixture_random_fill(fixture, branch, 2 * WIDTH);
    for (int n = 0; n < 2 * FLAT; n++) {
        int row = n / FLAT;
        int k = n % FLAT / WIDTH;
        int i = n % WIDTH;
        expected[n] = (double)post[row * STREAMS + k] * branch[row * WIDTH + i];
        for (int j = 0; j < STREAMS; j++) {
            expected[n] += (double)comb[row * SQUARE + j * STREAMS + k] * streams[row * FLAT + j * WIDTH + i];
        }
    }
    struct hyper_connection_post_args args = {
        .streams = OP_TENSOR(fixture, DTYPE_F32, streams, 2, STREAMS, WIDTH),
        .branch = OP_TENSOR(fixture, DTYPE_F32, branch, 2, WIDTH),
        .post = OP_TENSOR(fixture, DTYPE_F32, post, 2, STREAMS),
        .comb = OP_TENSOR(fixture, DTYPE_F32, comb, 2, STREAMS, STREAMS),
    };
    OP_RUN(fixture, NUMERICS_IDEAL, hyper_connection_post, &args);
    op_fixture_read(fixture, args.streams, streams);
    op_expect_near("streams", streams, expected, 2 * FLAT, 1e-6);
}

/* The head's gates are those of pre: the spec's pre values, no mixing. */
static void head_collapses_by_the_gates(void **state) {
    struct op_fixture *fixture = *state;
    float mix[STREAMS * FLAT];
    float base[STREAMS];
    double expected[WIDTH];
    make_mix(STREAM_VALUES, 1e-6, STREAMS, mix);
    weighted_streams(STREAM_VALUES, expected);
    for (int i = 0; i < STREAMS; i++) {
        base[i] = wanted_base(i);
    }
    struct weight mix_weight = op_fixture_plain(fixture, DTYPE_F32, STREAMS, FLAT, mix);
    struct weight base_weight = op_fixture_plain(fixture, DTYPE_F32, 1, STREAMS, base);
    struct weight scale_weight = op_fixture_plain(fixture, DTYPE_F32, 1, 1, SCALES);
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        enum dtype dtype = numerics_activation_dtype((enum numerics)numerics);
        struct hyper_connection_head_args args = {
            .out = OP_TENSOR(fixture, dtype, NULL, 1, WIDTH),
            .streams = OP_TENSOR(fixture, dtype, STREAM_VALUES, 1, STREAMS, WIDTH),
            .mix = &mix_weight,
            .base = &base_weight,
            .scale = &scale_weight,
            .gate_epsilon = 1e-6f,
            .norm_epsilon = 1e-6f,
        };
        OP_RUN(fixture, (enum numerics)numerics, hyper_connection_head, &args);
        float actual[WIDTH];
        op_fixture_read(fixture, args.out, actual);
        for (int i = 0; i < WIDTH; i++) {
            if (dtype == DTYPE_BF16) {
                expected[i] = bf16_round((float)expected[i]);
            }
        }
        op_expect_near("out", actual, expected, WIDTH, dtype == DTYPE_BF16 ? 0.0 : 2e-6);
    }
}

/* Rows by index give the bits of the same rows side by side: repeated, permuted, fewer and more. */
static void head_takes_rows_by_index(void **state) {
    struct op_fixture *fixture = *state;
    enum { ROWS = 3, WANTED = 5 };
    static const int32_t rows[2][WANTED] = {{2, 0, 2, 1, 1}, {1, 0}};
    static const int counts[2] = {5, 2};
    float streams[ROWS * FLAT];
    float mix[STREAMS * FLAT];
    float base[STREAMS];
    op_fixture_random_fill(fixture, streams, ROWS * FLAT);
    op_fixture_random_fill(fixture, mix, STREAMS * FLAT);
    op_fixture_random_fill(fixture, base, STREAMS);
    struct weight mix_weight = op_fixture_plain(fixture, DTYPE_F32, STREAMS, FLAT, mix);
    struct weight base_weight = op_fixture_plain(fixture, DTYPE_F32, 1, STREAMS, base);
    struct weight scale_weight = op_fixture_plain(fixture, DTYPE_F32, 1, 1, SCALES);
    for (int n = 0; n < 4; n++) {
        enum dtype dtype = numerics_activation_dtype((enum numerics)(n % 2));
        int count = counts[n / 2];
        float picked[WANTED * FLAT];
        float actual[WANTED * WIDTH];
        float expected[WANTED * WIDTH];
        for (int i = 0; i < count; i++) {
            memcpy(picked + i * FLAT, streams + rows[n / 2][i] * FLAT, FLAT * sizeof *picked);
        }
        struct hyper_connection_head_args args = {
            .out = OP_TENSOR(fixture, dtype, NULL, count, WIDTH),
            .streams = OP_TENSOR(fixture, dtype, picked, count, STREAMS, WIDTH),
            .mix = &mix_weight,
            .base = &base_weight,
            .scale = &scale_weight,
            .gate_epsilon = 1e-6f,
            .norm_epsilon = 1e-6f,
        };
        OP_RUN(fixture, (enum numerics)(n % 2), hyper_connection_head, &args);
        op_fixture_read(fixture, args.out, expected);
        args.out = OP_TENSOR(fixture, dtype, NULL, count, WIDTH);
        args.streams = OP_TENSOR(fixture, dtype, streams, ROWS, STREAMS, WIDTH);
        args.rows = op_fixture_integers(fixture, rows[n / 2], count);
        OP_RUN(fixture, (enum numerics)(n % 2), hyper_connection_head, &args);
        op_fixture_read(fixture, args.out, actual);
        assert_memory_equal(actual, expected, (size_t)(count * WIDTH) * sizeof *actual);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(pre_gives_the_spec_vector),        OP_TEST(pre_norm_has_its_epsilon_inside_the_root),
        OP_TEST(comb_after_each_number_of_rounds), OP_TEST(comb_is_doubly_stochastic),
        OP_TEST(post_mixes_from_source_to_target), OP_TEST(post_keeps_rows_and_channels_apart),
        OP_TEST(head_collapses_by_the_gates),      OP_TEST(head_takes_rows_by_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
