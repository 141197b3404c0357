/*
 * Choices of how rows are shared, against numbers of spec parallelism 3.5 and 3.6 that are worked out here:
 * by whole steps of all ranks, not by differences of a row.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "parallel/sharing_choice.h"

/* A kind of layers of the table in 3.6: bytes of a row early and late, and columns of first projections. */
struct kind {
    double hidden;
    double late;
    double columns;
};

/* q, kv, and values and scores of a compressor and of the indexer's, two rows wide where they overlap. */
static const struct kind flash_indexed = {4096, (1024 + 512) * 2 + (2048 + 512) * 4, 1536 + 2048 + 512};
static const struct kind flash_dense = {4096, 7168, 1536 + 1024};
static const struct kind flash_window = {4096, 3072, 1536};
static const struct kind pro_indexed = {7168, 4096 + (2048 + 512) * 4, 2048 + 2048 + 512};
static const struct kind pro_dense = {7168, 8192, 2048 + 1024};

/* Seconds of a rank for gathers and first projections of `rows`: late of its own ones, early of all. */
static double step_seconds(const struct kind *kind, const struct sharing_rates *rates, int ranks, double rows,
                           bool is_late) {
    double own = rows / ranks;
    double sent = own * (ranks - 1) * (is_late ? kind->late : 2 * kind->hidden);
    double projected = (is_late ? own : rows) * 2 * kind->hidden * kind->columns;
    return sent / rates->link_bytes_per_second + projected / rates->operations_per_second;
}

static bool prefers_late(const struct kind *kind, const struct sharing_rates *rates) {
    const struct gather_choice choice = {.late_bytes = kind->late,
                                         .early_bytes = 2 * kind->hidden,
                                         .operations = 2 * kind->hidden * kind->columns};
    return sharing_prefers_late(&choice, rates);
}

/* S-15: the faster one, whatever the ranks and rows are. */
static void the_faster_gather_is_chosen(void **state) {
    (void)state;
    static const struct kind *const kinds[] = {&flash_indexed, &flash_dense, &flash_window, &pro_indexed,
                                               &pro_dense};
    int late_count = 0;
    int early_count = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (double link = 1e7; link < 1e12; link *= 3.7) {
            for (double operations = 1e10; operations < 1e16; operations *= 5.3) {
                const struct sharing_rates rates = {.link_bytes_per_second = link,
                                                    .operations_per_second = operations};
                bool is_late = prefers_late(kinds[i], &rates);
                for (int ranks = 2; ranks <= 8; ranks *= 2) {
                    assert_true(step_seconds(kinds[i], &rates, ranks, 512.0 * ranks, is_late) <=
                                step_seconds(kinds[i], &rates, ranks, 512.0 * ranks, !is_late) * 1.0000001);
                }
                late_count += is_late;
                early_count += !is_late;
            }
        }
    }
    assert_true(late_count > 100 && early_count > 10);
}

/*
 * S-15, 3.6: late is never slower but in indexed layers of V4-Flash, where 5120 bytes more stand against 33.6
 * million operations: 152.6 bytes per million. Those of V4-Pro send as many bytes either way.
 */
static void only_indexed_layers_of_flash_have_a_break_even(void **state) {
    (void)state;
    const double teraflop = 1e12;
    const struct sharing_rates above = {.link_bytes_per_second = 0.1527e9, .operations_per_second = teraflop};
    const struct sharing_rates below = {.link_bytes_per_second = 0.1525e9, .operations_per_second = teraflop};
    const struct sharing_rates slow = {.link_bytes_per_second = 1.0, .operations_per_second = 1e18};
    assert_true(flash_indexed.late - 2 * flash_indexed.hidden == 5120);
    assert_true(prefers_late(&flash_indexed, &above));
    assert_false(prefers_late(&flash_indexed, &below));
    assert_true(prefers_late(&pro_indexed, &slow));
    assert_true(prefers_late(&pro_dense, &slow));
    assert_true(prefers_late(&flash_dense, &slow));
    assert_true(prefers_late(&flash_window, &slow));
    assert_false(prefers_late(&flash_indexed, &slow));
}

/* Late never computes more: so it is where no number says that early sends so much less. */
static void late_is_what_needs_no_number(void **state) {
    (void)state;
    const struct sharing_rates nothing = {0};
    const struct sharing_rates no_operations = {.link_bytes_per_second = 1.0, .read_bytes_per_second = 1e12};
    const struct sharing_rates no_link = {.operations_per_second = 1e18};
    /* Messages are copies at the speed of reading. */
    const struct sharing_rates fast_copy = {.read_bytes_per_second = 0.16e9, .operations_per_second = 1e12};
    const struct sharing_rates slow_copy = {.read_bytes_per_second = 0.15e9, .operations_per_second = 1e12};
    assert_true(prefers_late(&flash_indexed, &nothing));
    assert_true(prefers_late(&flash_indexed, &no_operations));
    assert_true(prefers_late(&flash_indexed, &no_link));
    assert_true(prefers_late(&flash_indexed, &fast_copy));
    assert_false(prefers_late(&flash_indexed, &slow_copy));
}

/*
 * S-12, S-13: V4-Flash's shared expert (25.2 million weights of a byte, 3.5) on 8 ranks. A row is gathered in
 * bf16 and summed in fp32, 24576 bytes; 7 / 8 of all are sent, or read more. At 50 GB/s and 4 TB/s rows that
 * take 25.2e6 / 4e12 = 6.3 us are 12.8.
 */
static void whole_experts_pay_from_the_rows_of_the_formula(void **state) {
    (void)state;
    const double bytes = 3.0 * 4096 * 2048;
    struct sharing_rates rates = {.link_bytes_per_second = 50e9, .read_bytes_per_second = 4e12};
    struct whole_choice choice = {.ranks = 8, .row_bytes = 4096 * (2 + 4), .bytes = bytes};
    choice.rows = 12;
    assert_false(sharing_prefers_whole(&choice, &rates));
    choice.rows = 13;
    assert_true(sharing_prefers_whole(&choice, &rates));
    /* Two messages of 5 us take longer than reading, however few rows there are. */
    choice.rows = 1;
    rates.link_latency_seconds = 5e-6;
    assert_true(sharing_prefers_whole(&choice, &rates));
    /* In copies as many bytes are sent and read: 1024 rows. Latency is that of a link. */
    rates = (struct sharing_rates){.link_latency_seconds = 5e-6, .read_bytes_per_second = 4e12};
    choice.rows = 1024;
    assert_false(sharing_prefers_whole(&choice, &rates));
    choice.rows = 1025;
    assert_true(sharing_prefers_whole(&choice, &rates));
    /* The same where only the link is known, or nothing. */
    rates = (struct sharing_rates){.link_bytes_per_second = 1e9};
    assert_true(sharing_prefers_whole(&choice, &rates));
    choice.rows = 1024;
    assert_false(sharing_prefers_whole(&choice, &rates));
    rates = (struct sharing_rates){0};
    assert_false(sharing_prefers_whole(&choice, &rates));
    choice.rows = 1025;
    assert_true(sharing_prefers_whole(&choice, &rates));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_gather_is_chosen),
        cmocka_unit_test(only_indexed_layers_of_flash_have_a_break_even),
        cmocka_unit_test(late_is_what_needs_no_number),
        cmocka_unit_test(whole_experts_pay_from_the_rows_of_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
