/* What stands in front of boundary rows: where each field lies (spec parallelism A.1), and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/boundary_header.h"
#include "parallel/rows.h"

/* A.1, with little-endian values: the numbers of a boundary of 5 rows, of which rank 1 of 2 sends the last 2.
 */
static const unsigned char recorded[64] = {
    [0] = 0x54,  [1] = 0x42,  [2] = 0x4c, [3] = 0x53, /* magic */
    [4] = 1,                                          /* version */
    [8] = 0x07,  [9] = 0x01,                          /* sequence number 263 */
    [16] = 0xef, [17] = 0xbe,                         /* epoch */
    [20] = 2,    [22] = 1,                            /* stage, tensor rank */
    [24] = 5,    [28] = 2,    [32] = 3,               /* n, rows, first row */
    [36] = 1,    [38] = 1,                            /* layout, tensors */
    [40] = 96,                                        /* 2 rows of 3 streams of 8 bf16 */
};

static struct boundary_header make(int64_t rows, const struct row_shares *shares) {
    const struct boundary boundary = {
        .count = 1,
        .names = {"streams"},
        .tensors = {{.dtype = DTYPE_BF16, .rank = 3, .shape = {rows, 3, 8}}},
        .layout = shares == NULL ? ROWS_FULL : ROWS_SHARD,
        .shares = shares,
    };
    struct boundary_header header = boundary_header_of(&boundary, 1, 2);
    header.step_number = 263;
    header.epoch = 0xbeef;
    header.stage = 2;
    return header;
}

static void fields_lie_where_the_specification_says(void **state) {
    (void)state;
    const struct row_shares shares = {.first = {0, 3, 5}};
    struct boundary_header header = make(2, &shares);
    assert_int_equal(header.flags, BOUNDARY_FLAGS);
    header.flags = 0;
    assert_memory_equal(&header, recorded, 48);
    assert_int_equal(header.dtype, DTYPE_BF16);
    assert_int_equal(header.checksum, 0);
    struct boundary_header whole = make(5, NULL);
    assert_int_equal(whole.rows, 5);
    assert_int_equal(whole.step_rows, 5);
    assert_int_equal(whole.first_row, 0);
    const struct row_shares none = {.first = {0, 1, 1}};
    struct boundary_header empty = make(0, &none);
    assert_int_equal(empty.flags & BOUNDARY_IS_HEADER_ONLY, BOUNDARY_IS_HEADER_ONLY);
    assert_int_equal(empty.payload_bytes, 0);
}

/* By its first byte. The checksum is not compared here. */
static void every_other_header_is_refused(void **state) {
    (void)state;
    static const struct {
        size_t offset;
        const char *word;
    } fields[] = {{0, "magic number"},
                  {4, "version"},
                  {6, "set of flags"},
                  {8, "step's number is 262, expected 263"},
                  {16, "epoch"},
                  {20, "stage is 3, expected 2"},
                  {22, "tensor rank"},
                  {24, "number of rows in the step is 4, expected 5"},
                  {28, "number of rows is 3, expected 2"},
                  {32, "first row is 2, expected 3"},
                  {36, "layout of rows"},
                  {38, "number of tensors"},
                  {40, "size in bytes is 97, expected 96"},
                  {48, "list of tensors"},
                  {52, "element type"}};
    const struct row_shares shares = {.first = {0, 3, 5}};
    const struct boundary_header expected = make(2, &shares);
    assert_int_equal(boundary_header_check(&expected, &expected), STATUS_OK);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        struct boundary_header came = expected;
        ((unsigned char *)&came)[fields[i].offset] ^= 1;
        assert_int_equal(boundary_header_check(&came, &expected), STATUS_INTERNAL);
        const char *message = error_last()->message;
        if (strstr(message, fields[i].word) == NULL || strstr(message, "rows for step 263") == NULL) {
            fail_msg("\"%s\" is not in: %s", fields[i].word, message);
        }
    }
}

/* Streams of another width, and other tensors of the same width, are other lists. */
static void lists_differ_by_names_and_widths(void **state) {
    (void)state;
    struct boundary boundary = {
        .count = 1, .names = {"streams"}, .tensors = {{.dtype = DTYPE_F32, .rank = 2, .shape = {1, 8}}}};
    uint32_t list = boundary_header_of(&boundary, 0, 1).list;
    boundary.tensors[0].shape[0] = 7;
    assert_int_equal(boundary_header_of(&boundary, 0, 1).list, list);
    boundary.tensors[0].shape[1] = 9;
    assert_int_not_equal(boundary_header_of(&boundary, 0, 1).list, list);
    boundary.tensors[0].shape[1] = 8;
    boundary.names[0] = "residual";
    assert_int_not_equal(boundary_header_of(&boundary, 0, 1).list, list);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fields_lie_where_the_specification_says),
                                       cmocka_unit_test(every_other_header_is_refused),
                                       cmocka_unit_test(lists_differ_by_names_and_widths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
