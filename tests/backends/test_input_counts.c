/*
 * Every kernel of grouped_linear, which multiplies inputs as they are: a row's bits do not depend on how many
 * rows the step has, though kernels choose their way by that number. Inputs and scales are such that their
 * product leaves the range of bf16, or are no numbers.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/cpu_features.h"
#include "backends/cpu/cpu_kernels.h"
#include "ops/grouped_linear.h"
#include "support/op_fixture.h"

enum { COLUMNS = 320, OUTPUTS = 40, ROWS_MAX = 35, SCALES = OUTPUTS * COLUMNS / 32 };

/* One input of each kind, over and over. */
static float input_of_kind(struct op_fixture *fixture, int64_t row) {
    static const float sizes[] = {1.0f, 0x1p100f, 0x1p-100f, 0x1p-126f, INFINITY, NAN, 0.0f};
    enum { KINDS = sizeof sizes / sizeof sizes[0] };
    float value = op_fixture_random(fixture);
    return row % KINDS == 0 || value > 0.9f ? value * sizes[row % KINDS] : value;
}

static float x[ROWS_MAX * COLUMNS];
static float alone[ROWS_MAX * OUTPUTS];
static float together[ROWS_MAX * OUTPUTS];

/* Columns of a row mostly have ordinary values, some those of its kind. */
static void fill_inputs(struct op_fixture *fixture) {
    for (int64_t row = 0; row < ROWS_MAX; row++) {
        for (int64_t i = 0; i < COLUMNS; i++) {
            x[row * COLUMNS + i] = input_of_kind(fixture, row);
        }
    }
}

static struct weight make_weight(struct op_fixture *fixture, enum weight_format format, int scale_byte) {
    static uint8_t codes[OUTPUTS * COLUMNS];
    static uint8_t scales[SCALES];
    static float values[OUTPUTS * COLUMNS];
    if (format == WEIGHT_PLAIN) {
        op_fixture_random_fill(fixture, values, OUTPUTS * COLUMNS);
        return op_fixture_plain(fixture, DTYPE_BF16, OUTPUTS, COLUMNS, values);
    }
    for (int i = 0; i < OUTPUTS * COLUMNS; i++) {
        unsigned code = (unsigned)((op_fixture_random(fixture) + 1.0f) * 128.0f);
        codes[i] = (uint8_t)(i % 5 == 0 ? 0 : code & 0xFE); /* zeros, no NaN of e4m3 */
    }
    memset(scales, scale_byte, sizeof scales);
    return op_fixture_quantised(fixture, format, OUTPUTS, COLUMNS, codes, scales, DTYPE_F8_E8M0);
}

/* Rows first_row.. of x times the weight; false if the kernel does not take them. */
static bool multiply(struct op_fixture *fixture, const struct op_entry *entry, const struct weight *weight,
                     int64_t first_row, int64_t count, float *out) {
    struct grouped_linear_args args = {
        .out = OP_TENSOR(fixture, DTYPE_BF16, NULL, count, 1, OUTPUTS),
        .x = OP_TENSOR(fixture, DTYPE_BF16, x + first_row * COLUMNS, count, 1, COLUMNS),
        .weight = weight};
    struct op_queue *queue = op_fixture_plan(fixture, NUMERICS_NATIVE);
    if (entry->can_run != NULL && !entry->can_run(&args)) {
        return false;
    }
    op_table_build(&fixture->table, &entry, 1, OP_MODE_NATIVE, ~0u);
    op_fixture_expect_ok(op_grouped_linear(queue, &args));
    op_fixture_expect_ok(op_grouped_linear(op_fixture_prepare(fixture), &args));
    op_fixture_finish(fixture);
    op_fixture_read(fixture, args.out, out);
    return true;
}

static bool is_same(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void check_weight(struct op_fixture *fixture, const struct op_entry *entry,
                         const struct weight *weight) {
    static const int64_t counts[] = {2, 3, 4, 5, 8, 9, 12, 16, 17, ROWS_MAX};
    for (int64_t row = 0; row < ROWS_MAX; row++) {
        size_t mark = op_fixture_mark(fixture);
        bool can_run = multiply(fixture, entry, weight, row, 1, alone + row * OUTPUTS);
        op_fixture_release(fixture, mark);
        if (!can_run) {
            return;
        }
    }
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        size_t mark = op_fixture_mark(fixture);
        multiply(fixture, entry, weight, 0, counts[c], together);
        for (int64_t i = 0; i < counts[c] * OUTPUTS; i++) {
            if (!is_same(together[i], alone[i])) {
                fail_msg("%s, format %d: row %d of %d, element %d is %a, alone %a", entry->name,
                         (int)weight->format, (int)(i / OUTPUTS), (int)counts[c], (int)(i % OUTPUTS),
                         (double)together[i], (double)alone[i]);
            }
        }
        op_fixture_release(fixture, mark);
    }
}

static void bits_do_not_depend_on_the_number_of_inputs(void **state) {
    static const int scale_bytes[] = {66, 100, 127, 188};
    struct op_fixture *fixture = *state;
    const struct op_entry *entries[CPU_KERNELS_MAX];
    size_t entry_count = cpu_kernels_collect(entries);
    fill_inputs(fixture);
    for (size_t e = 0; e < entry_count; e++) {
        bool is_able = entries[e]->op == OP_GROUPED_LINEAR && (entries[e]->modes & OP_MODE_NATIVE) != 0 &&
                       (entries[e]->features & ~cpu_features_detect()) == 0;
        for (int format = WEIGHT_PLAIN; is_able && format <= WEIGHT_FP4; format++) {
            for (size_t s = 0; s < sizeof scale_bytes / sizeof scale_bytes[0]; s++) {
                size_t mark = op_fixture_mark(fixture);
                struct weight weight = make_weight(fixture, (enum weight_format)format, scale_bytes[s]);
                check_weight(fixture, entries[e], &weight);
                op_fixture_release(fixture, mark);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(bits_do_not_depend_on_the_number_of_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
