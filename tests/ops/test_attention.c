/*
 * Attention over window and compressed entries: the sink vector of spec deepseek-v4 4.7, which keys a row
 * sees, and that rows in the ring and rows of the step give equal bits.
 *
 * Most tests use a query of zeros and one-hot keys: every visible key then gets the same weight, and output
 * channel p tells whether key p was seen.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/commit_rows.h"
#include "ops/sparse_attention.h"
#include "support/op_fixture.h"

static struct row_layout float_layout(int64_t width) {
    return (struct row_layout){.encoding = ROW_F32, .width = width};
}

/* Logits .5, -1, 2 with values 1, 2, 3; channels 2.. of a key are one-hot, so that the weights come out. */
static void sink_joins_the_denominator_only(void **state) {
    struct op_fixture *fixture = *state;
    enum { WIDTH = 5, KEYS = 3 };
    const float keys[KEYS][WIDTH] = {{1, 2, 1, 0, 0}, {2, -4, 0, 1, 0}, {3, 8, 0, 0, 1}};
    const float query[WIDTH] = {0, 1, 0, 0, 0};
    const float sink[1] = {0.7f};
    struct weight sink_weight = op_fixture_plain(fixture, DTYPE_F32, 1, 1, sink);
    struct batch_view batch = op_fixture_batch(fixture, &(struct op_segment){0, 0, KEYS}, 1, NULL);
    float queries[KEYS][WIDTH];
    for (int row = 0; row < KEYS; row++) {
        memcpy(queries[row], query, sizeof query);
    }
    struct sparse_attention_args args = {
        .out = OP_TENSOR(fixture, DTYPE_F32, NULL, KEYS, 1, WIDTH),
        .queries = OP_TENSOR(fixture, DTYPE_F32, queries[0], KEYS, 1, WIDTH),
        .window_rows = {.rows = op_fixture_encoded(fixture, float_layout(WIDTH), keys[0], KEYS),
                        .ring = op_fixture_ring(fixture, float_layout(WIDTH), KEYS, 1)},
        .sink = &sink_weight,
        .batch = &batch,
        .window = KEYS,
        .scale = 0.25f, /* the logits, not the sink */
    };
    OP_RUN(fixture, NUMERICS_IDEAL, sparse_attention, &args);
    float out[KEYS][WIDTH];
    op_fixture_read(fixture, args.out, out[0]);
    const double expected[WIDTH] = {2.1499928, 2 * .1443789 - 4 * .0322153 + 8 * .6470611, .1443789, .0322153,
                                    .6470611};
    op_expect_near("row 2", out[2], expected, WIDTH, 6e-7);
    /* Row 0 sees the first key only: exp(.5) / (exp(.5) + exp(.7)). */
    const double first[1] = {1.0 / (1.0 + exp(0.2))};
    op_expect_near("row 0", out[0], first, 1, 1e-7);
}

/* A large logit or sink overflows nothing, and the sink takes part in the maximum. */
static void extreme_logits_stay_finite(void **state) {
    struct op_fixture *fixture = *state;
    const float sinks[3] = {1000.0f, -1000.0f, 0.0f};
    const float queries[3] = {1.0f, 1.0f, 3e4f};
    const float key[1] = {2.0f};
    struct weight sink = op_fixture_plain(fixture, DTYPE_F32, 1, 3, sinks);
    struct batch_view batch = op_fixture_batch(fixture, &(struct op_segment){0, 0, 1}, 1, NULL);
    struct sparse_attention_args args = {
        .out = OP_TENSOR(fixture, DTYPE_F32, NULL, 1, 3, 1),
        .queries = OP_TENSOR(fixture, DTYPE_F32, queries, 1, 3, 1),
        .window_rows = {.rows = op_fixture_encoded(fixture, float_layout(1), key, 1),
                        .ring = op_fixture_ring(fixture, float_layout(1), 1, 1)},
        .sink = &sink,
        .batch = &batch,
        .window = 1,
        .scale = 1.0f,
    };
    OP_RUN(fixture, NUMERICS_IDEAL, sparse_attention, &args);
    float out[3];
    op_fixture_read(fixture, args.out, out);
    const double expected[3] = {0.0, 2.0, 2.0};
    op_expect_near("out", out, expected, 3, 0.0);
}

enum { CHANNELS = 64 };

/* What one row of one head sees: a query of zeros over one-hot keys. */
struct sight {
    struct op_fixture *fixture;
    struct state_rows ring;
    struct state_rows entries;
    struct tensor selection;
    int32_t position;
    int64_t window;
    int64_t ratio;
};

/* Runs row `position`, whose own key has channel position % CHANNELS; ring and entries are as set up. */
static void look(const struct sight *sight, float *out) {
    struct op_fixture *fixture = sight->fixture;
    const float sinks[1] = {0.0f};
    float zeros[CHANNELS] = {0};
    float own[CHANNELS] = {0};
    own[sight->position % CHANNELS] = 1.0f;
    struct weight sink = op_fixture_plain(fixture, DTYPE_F32, 1, 1, sinks);
    struct batch_view batch = op_fixture_batch(fixture, &(struct op_segment){0, sight->position, 1}, 1, NULL);
    struct sparse_attention_args args = {
        .out = OP_TENSOR(fixture, DTYPE_F32, NULL, 1, 1, CHANNELS),
        .queries = OP_TENSOR(fixture, DTYPE_F32, zeros, 1, 1, CHANNELS),
        .window_rows = {.rows = op_fixture_encoded(fixture, float_layout(CHANNELS), own, 1),
                        .ring = sight->ring},
        .entries = sight->entries,
        .selection = sight->selection,
        .sink = &sink,
        .batch = &batch,
        .window = sight->window,
        .ratio = sight->ratio,
        .scale = 1.0f,
    };
    OP_RUN(fixture, NUMERICS_IDEAL, sparse_attention, &args);
    op_fixture_read(fixture, args.out, out);
}

/* A ring after positions 0..count-1 were committed, one-hot by position. */
static struct state_rows one_hot_ring(struct op_fixture *fixture, int64_t rows, int64_t count) {
    struct state_rows ring = op_fixture_ring(fixture, float_layout(CHANNELS), rows, 1);
    for (int64_t p = count > rows ? count - rows : 0; p < count; p++) {
        float key[CHANNELS] = {0};
        key[p % CHANNELS] = 1.0f;
        op_fixture_state_write(fixture, &ring, 0, p % rows, key);
    }
    return ring;
}

static void window_starts_at_its_length(void **state) {
    const int64_t windows[] = {1, 2, 3, 8};
    for (int n = 0; n < 8; n++) {
        int64_t window = windows[n / 2];
        int64_t rows = window + n % 2 * 5;
        const int64_t positions[] = {0, 1, window - 1, window, window + 1, 2 * window + 3};
        for (size_t i = 0; i < sizeof positions / sizeof positions[0]; i++) {
            struct sight sight = {.fixture = *state, .window = window, .position = (int32_t)positions[i]};
            sight.ring = one_hot_ring(*state, rows, positions[i]);
            float out[CHANNELS];
            double expected[CHANNELS] = {0};
            int64_t first = positions[i] - window + 1 > 0 ? positions[i] - window + 1 : 0;
            for (int64_t p = first; p <= positions[i]; p++) {
                expected[p] = 1.0 / (double)(positions[i] - first + 2); /* the sink counts as one more */
            }
            look(&sight, out);
            op_expect_near("channel", out, expected, CHANNELS, 1e-7);
        }
    }
}

/* Entries that are not visible yet are NaN here. */
static struct state_rows one_hot_entries(struct op_fixture *fixture, int64_t rows, int64_t visible) {
    struct state_rows entries = op_fixture_entries(fixture, float_layout(CHANNELS), rows, 1);
    for (int64_t j = 0; j < visible; j++) {
        float entry[CHANNELS] = {0};
        entry[32 + j] = 1.0f;
        op_fixture_state_write(fixture, &entries, 0, j, entry);
    }
    return entries;
}

static void expect_seen(const struct sight *sight, const int *channels, int count) {
    float out[CHANNELS];
    double expected[CHANNELS] = {0};
    for (int i = 0; i < count; i++) {
        expected[channels[i]] = 1.0 / (count + 1);
    }
    look(sight, out);
    op_expect_near("channel", out, expected, CHANNELS, 1e-7);
}

/* Entry j counts from the last token of its block on: at every residue of the position. */
static void entries_are_visible_from_their_last_token(void **state) {
    for (int32_t position = 0; position < 14; position++) {
        int visible = (position + 1) / 4;
        struct sight sight = {.fixture = *state, .window = 1, .ratio = 4, .position = position};
        sight.ring = one_hot_ring(*state, 1, position);
        sight.entries = one_hot_entries(*state, 6, visible);
        int seen[8] = {position};
        for (int j = 0; j < visible; j++) {
            seen[1 + j] = 32 + j;
        }
        expect_seen(&sight, seen, 1 + visible);
    }
}

static struct tensor integer_row(struct op_fixture *fixture, const int32_t *values, int count) {
    return (struct tensor){.dtype = DTYPE_I32,
                           .rank = 2,
                           .shape = {1, count},
                           .data = (void *)(uintptr_t)op_fixture_integers(fixture, values, count)};
}

static void selection_limits_the_entries(void **state) {
    struct sight sight = {.fixture = *state, .window = 2, .ratio = 4, .position = 23};
    sight.ring = one_hot_ring(*state, 2, 23);
    sight.entries = one_hot_entries(*state, 6, 6);
    const int32_t some[4] = {1, 4, -1, -1};
    sight.selection = integer_row(*state, some, 4);
    expect_seen(&sight, (int[]){22, 23, 33, 36}, 4);
    /* Fillers anywhere are skipped. */
    const int32_t gaps[4] = {-1, 0, -1, 5};
    sight.selection = integer_row(*state, gaps, 4);
    expect_seen(&sight, (int[]){22, 23, 32, 37}, 4);
    const int32_t none[4] = {-1, -1, -1, -1};
    sight.selection = integer_row(*state, none, 4);
    expect_seen(&sight, (int[]){22, 23}, 2);
    sight.selection = (struct tensor){.rank = 0};
    expect_seen(&sight, (int[]){22, 23, 32, 33, 34, 35, 36, 37}, 8);
    /* Ratio 0: there are no entries, whatever the store holds. */
    sight.ratio = 0;
    expect_seen(&sight, (int[]){22, 23}, 2);
}

/* Field report B26: a row with nothing to attend to yields only the sink's share. */
static void no_key_at_all_gives_zeros(void **state) {
    const int32_t none[2] = {-1, -1};
    struct sight sight = {.fixture = *state, .window = 0, .ratio = 4, .position = 2};
    sight.ring = one_hot_ring(*state, 1, 0);
    sight.entries = one_hot_entries(*state, 2, 0);
    expect_seen(&sight, NULL, 0);
    sight.selection = integer_row(*state, none, 2);
    expect_seen(&sight, NULL, 0);
}

enum { ROWS = 24, HEADS = 2, WIDTH = 80, WINDOW = 6, RING = 7, LIMIT = 8 };

/* A sequence of random queries and window rows, fed in steps. */
struct sequence {
    struct op_fixture *fixture;
    enum numerics numerics;
    float queries[ROWS][HEADS][WIDTH];
    float keys[ROWS][WIDTH];
    struct weight sink;
    struct state_rows entries;
};

static void make_sequence(struct sequence *sequence, struct op_fixture *fixture, enum numerics numerics) {
    float sinks[HEADS];
    sequence->fixture = fixture;
    sequence->numerics = numerics;
    op_fixture_random_fill(fixture, sequence->queries[0][0], ROWS * HEADS * WIDTH);
    op_fixture_random_fill(fixture, sequence->keys[0], ROWS * WIDTH);
    op_fixture_random_fill(fixture, sinks, HEADS);
    sequence->sink = op_fixture_plain(fixture, DTYPE_F32, 1, HEADS, sinks);
    struct row_layout layout = numerics_row_layout(numerics, ROW_KIND_KV, WIDTH, 16);
    sequence->entries = op_fixture_entries(fixture, layout, ROWS / 4, 4);
    for (int j = 0; j < ROWS / 4; j++) {
        op_fixture_state_write(fixture, &sequence->entries, 1, j, sequence->keys[ROWS - 1 - j]);
    }
}

/* Attention of rows first..first+count-1 in one step, then the commit. out: their rows. */
static void step(const struct sequence *sequence, const struct state_rows *ring, int first, int count,
                 float *out) {
    struct op_fixture *fixture = sequence->fixture;
    enum dtype dtype = numerics_activation_dtype(sequence->numerics);
    struct batch_view batch = op_fixture_batch(fixture, &(struct op_segment){1, first, count}, 1, NULL);
    struct tensor queries = OP_TENSOR(fixture, dtype, sequence->queries[first][0], count, HEADS, WIDTH);
    struct sparse_attention_args args = {
        .out = queries, /* in place */
        .queries = queries,
        .window_rows = {.rows = op_fixture_encoded(fixture, ring->layout, sequence->keys[first], count),
                        .ring = *ring},
        .entries = sequence->entries,
        .sink = &sequence->sink,
        .batch = &batch,
        .window = WINDOW,
        .ratio = 4,
        .scale = 0.25f,
    };
    struct commit_rows_args commit = {.chunk = args.window_rows, .batch = &batch};
    OP_RUN(fixture, sequence->numerics, sparse_attention, &args);
    OP_RUN(fixture, sequence->numerics, commit_rows, &commit);
    op_fixture_read(fixture, args.out, out);
}

static void ring_and_step_give_equal_bits(void **state) {
    struct op_fixture *fixture = *state;
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct sequence sequence;
        static float whole[ROWS][HEADS * WIDTH];
        static float split[ROWS][HEADS * WIDTH];
        make_sequence(&sequence, fixture, (enum numerics)numerics);
        size_t mark = op_fixture_mark(fixture);
        struct state_rows ring = op_fixture_ring(fixture, sequence.entries.layout, RING, 2);
        step(&sequence, &ring, 0, ROWS, whole[0]);
        for (int at = 1; at < ROWS; at++) {
            op_fixture_release(fixture, mark);
            ring = op_fixture_ring(fixture, sequence.entries.layout, RING, 2);
            step(&sequence, &ring, 0, at, split[0]);
            step(&sequence, &ring, at, ROWS - at, split[at]);
            assert_memory_equal(split, whole, sizeof whole);
        }
        ring = op_fixture_ring(fixture, sequence.entries.layout, RING, 2);
        for (int at = 0; at < ROWS; at++) {
            step(&sequence, &ring, at, 1, split[at]);
        }
        assert_memory_equal(split, whole, sizeof whole);
    }
}

/* Runs segments of the sequence's rows in one step; entries and selection as field report B26 has them. */
static void run_prompts(const struct sequence *sequence, const struct op_segment *segments, int count,
                        const int *first_rows, float *out) {
    struct op_fixture *fixture = sequence->fixture;
    float queries[32][HEADS * WIDTH];
    float keys[32][WIDTH];
    int32_t selected[32][LIMIT];
    int64_t rows = 0;
    for (int s = 0; s < count; s++) {
        for (int i = 0; i < segments[s].row_count; i++, rows++) {
            memcpy(queries[rows], sequence->queries[first_rows[s] + i], sizeof queries[0]);
            memcpy(keys[rows], sequence->keys[first_rows[s] + i], sizeof keys[0]);
            for (int k = 0; k < LIMIT; k++) {
                selected[rows][k] = k < (i + 1) / 4 ? k : -1;
            }
        }
    }
    enum dtype dtype = numerics_activation_dtype(sequence->numerics);
    struct batch_view batch = op_fixture_batch(fixture, segments, count, NULL);
    struct sparse_attention_args args = {
        .out = OP_TENSOR(fixture, dtype, NULL, rows, HEADS, WIDTH),
        .queries = OP_TENSOR(fixture, dtype, queries[0], rows, HEADS, WIDTH),
        .window_rows = {.rows = op_fixture_encoded(fixture, sequence->entries.layout, keys[0], rows),
                        .ring = op_fixture_ring(fixture, sequence->entries.layout, RING, 4)},
        .entries = sequence->entries,
        .selection = {.dtype = DTYPE_I32, .rank = 2, .shape = {rows, LIMIT}},
        .sink = &sequence->sink,
        .batch = &batch,
        .window = WINDOW,
        .ratio = 4,
        .scale = 0.25f,
    };
    args.selection.data = op_fixture_upload(fixture, selected, (size_t)rows * sizeof selected[0]);
    OP_RUN(fixture, sequence->numerics, sparse_attention, &args);
    op_fixture_read(fixture, args.out, out);
}

/* Field report B26: prompts of 1, 2 and 3 tokens, which have no entry, beside a long one equal their own
 * runs. */
static void short_prompts_beside_a_long_one(void **state) {
    const struct op_segment segments[4] = {{0, 0, 1}, {1, 0, ROWS}, {2, 0, 2}, {3, 0, 3}};
    const int first_rows[4] = {5, 0, 9, 12};
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct sequence sequence;
        static float together[32][HEADS * WIDTH];
        static float alone[32][HEADS * WIDTH];
        make_sequence(&sequence, *state, (enum numerics)numerics);
        run_prompts(&sequence, segments, 4, first_rows, together[0]);
        int row = 0;
        for (int s = 0; s < 4; s++) {
            run_prompts(&sequence, &segments[s], 1, &first_rows[s], alone[row]);
            row += segments[s].row_count;
        }
        assert_memory_equal(together, alone, (size_t)row * sizeof together[0]);
        for (int i = 0; i < row * HEADS * WIDTH; i++) {
            assert_true(isfinite(together[i / (HEADS * WIDTH)][i % (HEADS * WIDTH)]));
        }
    }
}

/* A row against the formula of spec 4.7 in double, keys as stored. */
static void a_row_follows_the_formula(void **state) {
    struct op_fixture *fixture = *state;
    struct sequence sequence;
    static float actual[ROWS][HEADS][WIDTH];
    make_sequence(&sequence, fixture, NUMERICS_IDEAL);
    struct state_rows ring = op_fixture_ring(fixture, sequence.entries.layout, RING, 2);
    step(&sequence, &ring, 0, ROWS, actual[0][0]);
    const int t = ROWS - 1;
    float sinks[HEADS];
    op_fixture_download(fixture, sequence.sink.data, sinks, sizeof sinks);
    for (int h = 0; h < HEADS; h++) {
        double sums[WIDTH] = {0};
        double denominator = exp((double)sinks[h]);
        for (int n = 0; n < WINDOW + ROWS / 4; n++) {
            const float *key = sequence.keys[t - n]; /* entry j was made from row t - j */
            key = n < WINDOW ? key : sequence.keys[t - (n - WINDOW)];
            double logit = 0.0;
            for (int i = 0; i < WIDTH; i++) {
                logit += 0.25 * (double)sequence.queries[t][h][i] * (double)key[i];
            }
            denominator += exp(logit);
            for (int i = 0; i < WIDTH; i++) {
                sums[i] += exp(logit) * key[i];
            }
        }
        for (int i = 0; i < WIDTH; i++) {
            sums[i] /= denominator;
        }
        op_expect_near("out", actual[t][h], sums, WIDTH, 1e-6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(sink_joins_the_denominator_only), OP_TEST(extreme_logits_stay_finite),
        OP_TEST(window_starts_at_its_length),     OP_TEST(entries_are_visible_from_their_last_token),
        OP_TEST(selection_limits_the_entries),    OP_TEST(no_key_at_all_gives_zeros),
        OP_TEST(ring_and_step_give_equal_bits),   OP_TEST(short_prompts_beside_a_long_one),
        OP_TEST(a_row_follows_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
