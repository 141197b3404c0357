/*
 * A device with what operations need around it, for tests that run one operation at a time.
 *
 * Every test body runs on the cpu device, there with worker threads, and on the guard device. Each run of an
 * operation is planned by a dry queue first and gets a fresh step arena of exactly the planned size, filled
 * with NaN on the guard device. Weights lie at odd addresses, as they do in official files. Memory belongs
 * to the fixture and is freed when the test ends. Whatever goes wrong fails the test.
 */
#ifndef SLUICE_TESTS_SUPPORT_OP_FIXTURE_H
#define SLUICE_TESTS_SUPPORT_OP_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/batch_view.h"
#include "ops/numerics.h"
#include "ops/op_queue.h"
#include "ops/state_rows.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

struct op_fixture {
    struct device *device;
    struct stream *stream;
    struct worker_pool *pool; /* NULL: one thread */
    struct device_arena arena;
    struct op_table table;
    struct op_queue queue;
    size_t planned_bytes;
    void **memory; /* device memory to free at the end */
    size_t memory_count;
    size_t memory_capacity;
    uint64_t random;
};

/* For cmocka: the initial state names the variant, "cpu", "cpu threads" or "guard". */
int op_fixture_set_up(void **state);
int op_fixture_tear_down(void **state);

/* Rows of a cmocka test list: one body in all variants. */
#define OP_TEST_IN(body, variant) \
    { #body " (" variant ")", body, op_fixture_set_up, op_fixture_tear_down, variant }
#define OP_TEST(body) OP_TEST_IN(body, "cpu"), OP_TEST_IN(body, "cpu threads"), OP_TEST_IN(body, "guard")

/* Fails the test with the error's sentence unless `status` is OK. */
void op_fixture_expect_ok(enum status status);

/* The steps of OP_RUN: a dry queue, then a real one with the planned memory, then wait and compare. */
struct op_queue *op_fixture_plan(struct op_fixture *fixture, enum numerics numerics);
struct op_queue *op_fixture_prepare(struct op_fixture *fixture);
void op_fixture_finish(struct op_fixture *fixture);

/* Runs op_<name>(queue, args) of the reference table. */
#define OP_RUN(fixture, numerics, name, args)                                          \
    do {                                                                               \
        op_fixture_expect_ok(op_##name(op_fixture_plan((fixture), (numerics)), args)); \
        op_fixture_expect_ok(op_##name(op_fixture_prepare(fixture), args));            \
        op_fixture_finish(fixture);                                                    \
    } while (0)

/* Frees all device memory that the fixture gave out since the mark, for tests of many runs. */
size_t op_fixture_mark(const struct op_fixture *fixture);
void op_fixture_release(struct op_fixture *fixture, size_t mark);

/* Device memory with these bytes; `bytes` NULL leaves it undefined. */
void *op_fixture_upload(struct op_fixture *fixture, const void *bytes, size_t count);

/* The same at an odd address. */
void *op_fixture_upload_odd(struct op_fixture *fixture, const void *bytes, size_t count);

/* Copies device memory to the host. */
void op_fixture_download(struct op_fixture *fixture, const void *device_memory, void *out, size_t count);

/* Device integers. */
const int32_t *op_fixture_integers(struct op_fixture *fixture, const int32_t *values, int64_t count);

/* A tensor F32 or BF16 (rounded) with these values; `values` NULL leaves them undefined. */
struct tensor op_fixture_tensor(struct op_fixture *fixture, enum dtype dtype, const float *values, int rank,
                                const int64_t *shape);
#define OP_TENSOR(fixture, dtype, values, ...)      \
    op_fixture_tensor((fixture), (dtype), (values), \
                      (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* All elements of an F32 or BF16 tensor as floats; of an I32 tensor as they are. */
void op_fixture_read(struct op_fixture *fixture, struct tensor tensor, float *out);
void op_fixture_read_integers(struct op_fixture *fixture, struct tensor tensor, int32_t *out);

/* A weight without scales, F32 or BF16 (rounded). */
struct weight op_fixture_plain(struct op_fixture *fixture, enum dtype dtype, int64_t rows, int64_t columns,
                               const float *values);

/* A quantised weight from its codes and scale bytes. `scale_dtype` F32 stores the scales as numbers. */
struct weight op_fixture_quantised(struct op_fixture *fixture, enum weight_format format, int64_t rows,
                                   int64_t columns, const uint8_t *codes, const uint8_t *scale_bytes,
                                   enum dtype scale_dtype);

/*
 * A weight with random codes and scales; values [rows * columns] gets what it means, by the formulas of spec
 * deepseek-v4 2.2 to 2.5. PLAIN gives BF16.
 */
struct weight op_fixture_random_weight(struct op_fixture *fixture, enum weight_format format, int64_t rows,
                                       int64_t columns, double *values);

/* A run of consecutive positions of one sequence. */
struct op_segment {
    int32_t slot;
    int32_t first_position;
    int32_t row_count;
};

/* A batch of segments; `token_ids` NULL gives zeros. */
struct batch_view op_fixture_batch(struct op_fixture *fixture, const struct op_segment *segments, int count,
                                   const int32_t *token_ids);

/* A ring whose bytes are all 0xFF (NaN). */
struct state_rows op_fixture_ring(struct op_fixture *fixture, struct row_layout layout, int64_t rows_per_slot,
                                  int64_t slot_count);

/*
 * A paged store of NaNs with room for `rows_per_slot` entries a slot, OP_PAGE_ROWS a page unless
 * rows_per_page says otherwise. Pages lie in no order, with one that belongs to nobody; `in_order` puts them
 * one after the other.
 */
enum { OP_PAGE_ROWS = 3 };
struct state_rows op_fixture_entries(struct op_fixture *fixture, struct row_layout layout,
                                     int64_t rows_per_slot, int64_t slot_count);
struct state_rows op_fixture_pages(struct op_fixture *fixture, struct row_layout layout,
                                   int64_t rows_per_slot, int64_t slot_count, int64_t rows_per_page,
                                   bool in_order);

/* The device address of a ring's row, or of a paged store's entry, for copies. */
unsigned char *op_fixture_state_at(struct op_fixture *fixture, const struct state_rows *state, int64_t slot,
                                   int64_t row);

/* One row as floats. */
void op_fixture_state_write(struct op_fixture *fixture, const struct state_rows *state, int64_t slot,
                            int64_t row, const float *values);
void op_fixture_state_read(struct op_fixture *fixture, const struct state_rows *state, int64_t slot,
                           int64_t row, float *out);

/* Writes all rows: values (slot_count, rows_per_slot, layout.width). */
void op_fixture_state_fill(struct op_fixture *fixture, const struct state_rows *state, const float *values);

/* All rows as stored, slot after slot: slot_count * rows_per_slot rows. */
void op_fixture_state_download(struct op_fixture *fixture, const struct state_rows *state,
                               unsigned char *out);

/* Rows of a step as `layout` stores them: values (count, layout.width). */
const unsigned char *op_fixture_encoded(struct op_fixture *fixture, struct row_layout layout,
                                        const float *values, int64_t count);

/* Uniform in [-1, 1), a multiple of 2^-23; the same sequence in every test. */
float op_fixture_random(struct op_fixture *fixture);
void op_fixture_random_fill(struct op_fixture *fixture, float *values, int64_t count);

/* Fails unless |actual - expected| <= tolerance, naming the element. A NaN fails. */
void op_expect_near(const char *what, const float *actual, const double *expected, int64_t count,
                    double tolerance);

/* The table of the reference kernels in a mode. */
void op_fixture_reference_table(enum numerics numerics, struct op_table *table);

#endif
