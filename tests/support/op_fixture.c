/* Setting up devices, moving values, and comparing. */
#include "support/op_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/backend_registry.h"
#include "ops/reference/reference_table.h"
#include "tensor/elements.h"
#include "tensor/number_format.h"

enum { THREADS = 3 };

void op_fixture_expect_ok(enum status status) {
    if (status != STATUS_OK) {
        fail_msg("%s: %s", status_name(status), error_last()->message);
    }
}

size_t op_fixture_mark(const struct op_fixture *fixture) {
    return fixture->memory_count;
}

void op_fixture_release(struct op_fixture *fixture, size_t mark) {
    while (fixture->memory_count > mark) {
        device_memory_free(fixture->device, &fixture->memory[--fixture->memory_count]);
    }
}

int op_fixture_set_up(void **state) {
    const char *variant = *state;
    struct op_fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    const struct backend *backend;
    op_fixture_expect_ok(backend_find(strcmp(variant, "guard") == 0 ? "guard" : "cpu", &backend));
    op_fixture_expect_ok(backend->device_create(&fixture->device));
    op_fixture_expect_ok(device_stream_create(fixture->device, &fixture->stream));
    if (strcmp(variant, "cpu threads") == 0) {
        op_fixture_expect_ok(worker_pool_create(THREADS, &fixture->pool));
    }
    *state = fixture;
    return 0;
}

int op_fixture_tear_down(void **state) {
    struct op_fixture *fixture = *state;
    op_fixture_release(fixture, 0);
    free(fixture->memory);
    worker_pool_destroy(&fixture->pool);
    device_stream_destroy(&fixture->stream);
    device_destroy(&fixture->device);
    free(fixture);
    return 0;
}

void op_fixture_reference_table(enum numerics numerics, struct op_table *table) {
    size_t count;
    const struct op_entry *const *entries = reference_entries(&count);
    op_table_build(table, entries, count, 1u << (unsigned)numerics, 0);
}

struct op_queue *op_fixture_plan(struct op_fixture *fixture, enum numerics numerics) {
    device_arena_init_planning(&fixture->arena);
    op_fixture_reference_table(numerics, &fixture->table);
    fixture->queue = (struct op_queue){
        .table = &fixture->table, .pool = fixture->pool, .arena = &fixture->arena, .is_dry = true};
    return &fixture->queue;
}

struct op_queue *op_fixture_prepare(struct op_fixture *fixture) {
    fixture->planned_bytes = fixture->arena.high_water;
    assert_int_equal(fixture->arena.used, 0);
    op_fixture_expect_ok(device_arena_init(&fixture->arena, fixture->device, fixture->planned_bytes));
    fixture->queue.stream = fixture->stream;
    fixture->queue.is_dry = false;
    return &fixture->queue;
}

void op_fixture_finish(struct op_fixture *fixture) {
    op_fixture_expect_ok(stream_synchronize(fixture->stream));
    assert_int_equal(fixture->arena.high_water, fixture->planned_bytes);
    assert_int_equal(fixture->arena.used, 0);
    device_arena_deinit(&fixture->arena);
}

static unsigned char *allocate(struct op_fixture *fixture, size_t bytes) {
    if (fixture->memory_count == fixture->memory_capacity) {
        fixture->memory_capacity = fixture->memory_capacity * 2 + 64;
        fixture->memory = realloc(fixture->memory, fixture->memory_capacity * sizeof *fixture->memory);
        assert_non_null(fixture->memory);
    }
    void *memory;
    op_fixture_expect_ok(device_memory_alloc(fixture->device, bytes, &memory));
    fixture->memory[fixture->memory_count++] = memory;
    return memory;
}

static void copy_to(struct op_fixture *fixture, void *device_memory, const void *bytes, size_t count) {
    op_fixture_expect_ok(stream_copy_to_device(fixture->stream, device_memory, bytes, count));
    op_fixture_expect_ok(stream_synchronize(fixture->stream));
}

void *op_fixture_upload(struct op_fixture *fixture, const void *bytes, size_t count) {
    void *memory = allocate(fixture, count);
    if (bytes != NULL) {
        copy_to(fixture, memory, bytes, count);
    }
    return memory;
}

void *op_fixture_upload_odd(struct op_fixture *fixture, const void *bytes, size_t count) {
    unsigned char *memory = allocate(fixture, count + 1) + 1;
    copy_to(fixture, memory, bytes, count);
    return memory;
}

void op_fixture_download(struct op_fixture *fixture, const void *device_memory, void *out, size_t count) {
    op_fixture_expect_ok(stream_copy_to_host(fixture->stream, out, device_memory, count));
    op_fixture_expect_ok(stream_synchronize(fixture->stream));
}

const int32_t *op_fixture_integers(struct op_fixture *fixture, const int32_t *values, int64_t count) {
    return op_fixture_upload(fixture, values, (size_t)count * sizeof *values);
}

/* The values in their stored form, host memory to be freed. */
static void *stored_form(enum dtype dtype, const float *values, int64_t count) {
    void *stored = malloc((size_t)count * dtype_bytes(dtype) + 1);
    assert_non_null(stored);
    elements_encode(dtype, values, count, stored);
    return stored;
}

struct tensor op_fixture_tensor(struct op_fixture *fixture, enum dtype dtype, const float *values, int rank,
                                const int64_t *shape) {
    struct tensor tensor = {.dtype = dtype, .rank = rank};
    memcpy(tensor.shape, shape, (size_t)rank * sizeof *shape);
    void *stored = values == NULL ? NULL : stored_form(dtype, values, tensor_elements(&tensor));
    tensor.data = op_fixture_upload(fixture, stored, tensor_bytes(&tensor));
    free(stored);
    return tensor;
}

void op_fixture_read(struct op_fixture *fixture, struct tensor tensor, float *out) {
    void *stored = malloc(tensor_bytes(&tensor) + 1);
    assert_non_null(stored);
    op_fixture_download(fixture, tensor.data, stored, tensor_bytes(&tensor));
    elements_decode(tensor.dtype, stored, tensor_elements(&tensor), out);
    free(stored);
}

void op_fixture_read_integers(struct op_fixture *fixture, struct tensor tensor, int32_t *out) {
    assert_int_equal(tensor.dtype, DTYPE_I32);
    op_fixture_download(fixture, tensor.data, out, tensor_bytes(&tensor));
}

struct weight op_fixture_plain(struct op_fixture *fixture, enum dtype dtype, int64_t rows, int64_t columns,
                               const float *values) {
    struct weight weight = {
        .name = "plain.weight", .format = WEIGHT_PLAIN, .dtype = dtype, .rows = rows, .columns = columns};
    void *stored = stored_form(dtype, values, rows * columns);
    weight.data = op_fixture_upload_odd(fixture, stored, (size_t)(rows * columns) * dtype_bytes(dtype));
    free(stored);
    return weight;
}

static int64_t scale_columns(enum weight_format format, int64_t columns) {
    return format == WEIGHT_FP8 ? (columns + 127) / 128 : columns / 32;
}

struct weight op_fixture_quantised(struct op_fixture *fixture, enum weight_format format, int64_t rows,
                                   int64_t columns, const uint8_t *codes, const uint8_t *scale_bytes,
                                   enum dtype scale_dtype) {
    struct weight weight = {.name = "quantised.weight",
                            .format = format,
                            .rows = rows,
                            .columns = columns,
                            .scale_dtype = scale_dtype};
    int64_t scale_rows = format == WEIGHT_FP8 ? (rows + 127) / 128 : rows;
    size_t scales = (size_t)(scale_rows * scale_columns(format, columns));
    size_t code_bytes = (size_t)(format == WEIGHT_FP8 ? rows * columns : rows * columns / 2);
    weight.data = op_fixture_upload_odd(fixture, codes, code_bytes);
    if (scale_dtype == DTYPE_F32) {
        float *numbers = malloc(scales * sizeof *numbers);
        assert_non_null(numbers);
        for (size_t i = 0; i < scales; i++) {
            numbers[i] = ldexpf(1.0f, scale_bytes[i] - 127);
        }
        weight.scales = op_fixture_upload_odd(fixture, numbers, scales * sizeof *numbers);
        free(numbers);
    } else {
        weight.scales = op_fixture_upload_odd(fixture, scale_bytes, scales);
    }
    return weight;
}

static uint64_t next_random(struct op_fixture *fixture) {
    uint64_t mixed = fixture->random += 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return mixed ^ (mixed >> 31);
}

float op_fixture_random(struct op_fixture *fixture) {
    return (float)((int32_t)(next_random(fixture) >> 40) - (1 << 23)) * 0x1p-23f;
}

void op_fixture_random_fill(struct op_fixture *fixture, float *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        values[i] = op_fixture_random(fixture);
    }
}

/* Spec deepseek-v4 2.2. */
static double meaning_of_e4m3(unsigned code) {
    int exponent = (int)(code >> 3) & 15;
    int mantissa = (int)code & 7;
    double magnitude = exponent == 0 ? ldexp(mantissa, -9) : ldexp(1.0 + mantissa / 8.0, exponent - 7);
    return code >= 128 ? -magnitude : magnitude;
}

/* Spec deepseek-v4 2.4. */
static double meaning_of_e2m1(unsigned code) {
    const double magnitudes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return code >= 8 ? -magnitudes[code - 8] : magnitudes[code];
}

static struct weight random_quantised(struct op_fixture *fixture, enum weight_format format, int64_t rows,
                                      int64_t columns, double *values) {
    size_t count = (size_t)(rows * columns);
    uint8_t *codes = malloc(count);
    uint8_t *scales = malloc(count);
    assert_non_null(codes);
    assert_non_null(scales);
    for (size_t i = 0; i < count; i++) {
        codes[i] = (uint8_t)next_random(fixture);
        if (format == WEIGHT_FP8 && (codes[i] & 0x7F) == 0x7F) {
            codes[i] = 0x38;
        }
        scales[i] = (uint8_t)(117 + next_random(fixture) % 5);
    }
    int64_t stride = scale_columns(format, columns);
    for (int64_t o = 0; o < rows; o++) {
        for (int64_t k = 0; k < columns; k++) {
            int64_t at = o * columns + k;
            if (format == WEIGHT_FP8) {
                values[at] = ldexp(meaning_of_e4m3(codes[at]), scales[o / 128 * stride + k / 128] - 127);
            } else {
                unsigned code = k % 2 == 0 ? codes[at / 2] & 15u : codes[at / 2] >> 4;
                values[at] = ldexp(meaning_of_e2m1(code), scales[o * stride + k / 32] - 127);
            }
        }
    }
    struct weight weight = op_fixture_quantised(fixture, format, rows, columns, codes, scales, DTYPE_F8_E8M0);
    free(codes);
    free(scales);
    return weight;
}

struct weight op_fixture_random_weight(struct op_fixture *fixture, enum weight_format format, int64_t rows,
                                       int64_t columns, double *values) {
    if (format != WEIGHT_PLAIN) {
        return random_quantised(fixture, format, rows, columns, values);
    }
    float *floats = malloc((size_t)(rows * columns) * sizeof *floats);
    assert_non_null(floats);
    for (int64_t i = 0; i < rows * columns; i++) {
        floats[i] = bf16_round(op_fixture_random(fixture));
        values[i] = floats[i];
    }
    struct weight weight = op_fixture_plain(fixture, DTYPE_BF16, rows, columns, floats);
    free(floats);
    return weight;
}

struct batch_view op_fixture_batch(struct op_fixture *fixture, const struct op_segment *segments, int count,
                                   const int32_t *token_ids) {
    struct batch_view batch = {.segment_count = count};
    for (int s = 0; s < count; s++) {
        batch.row_count += segments[s].row_count;
    }
    size_t rows = (size_t)batch.row_count;
    int32_t *host = calloc(3 * rows + 4 * (size_t)count + 1, sizeof *host);
    assert_non_null(host);
    int32_t *positions = host;
    int32_t *row_segment = positions + rows;
    int32_t *zeros = row_segment + rows;
    int32_t *slots = zeros + rows;
    int32_t *first_rows = slots + count;
    int32_t *first_positions = first_rows + count;
    int32_t *row_counts = first_positions + count;
    int32_t row = 0;
    for (int s = 0; s < count; s++) {
        slots[s] = segments[s].slot;
        first_rows[s] = row;
        first_positions[s] = segments[s].first_position;
        row_counts[s] = segments[s].row_count;
        for (int32_t i = 0; i < segments[s].row_count; i++, row++) {
            positions[row] = segments[s].first_position + i;
            row_segment[row] = s;
        }
    }
    batch.token_ids = op_fixture_integers(fixture, token_ids == NULL ? zeros : token_ids, batch.row_count);
    batch.positions = op_fixture_integers(fixture, positions, batch.row_count);
    batch.row_segment = op_fixture_integers(fixture, row_segment, batch.row_count);
    batch.segment_slot = op_fixture_integers(fixture, slots, count);
    batch.segment_first_row = op_fixture_integers(fixture, first_rows, count);
    batch.segment_first_position = op_fixture_integers(fixture, first_positions, count);
    batch.segment_row_count = op_fixture_integers(fixture, row_counts, count);
    free(host);
    return batch;
}

static void *nan_memory(struct op_fixture *fixture, size_t bytes) {
    void *memory = op_fixture_upload(fixture, NULL, bytes);
    op_fixture_expect_ok(stream_fill(fixture->stream, memory, 0xFF, bytes));
    return memory;
}

struct state_rows op_fixture_ring(struct op_fixture *fixture, struct row_layout layout, int64_t rows_per_slot,
                                  int64_t slot_count) {
    struct state_rows state = {.layout = layout,
                               .row_bytes = row_layout_bytes(&layout),
                               .rows_per_slot = rows_per_slot,
                               .slot_count = slot_count};
    state.memory = nan_memory(fixture, (size_t)(rows_per_slot * slot_count) * state.row_bytes);
    return state;
}

struct state_rows op_fixture_pages(struct op_fixture *fixture, struct row_layout layout,
                                   int64_t rows_per_slot, int64_t slot_count, int64_t rows_per_page,
                                   bool in_order) {
    struct state_rows state = {.layout = layout,
                               .row_bytes = row_layout_bytes(&layout),
                               .rows_per_slot = rows_per_slot,
                               .slot_count = slot_count,
                               .rows_per_page = rows_per_page};
    state.pages_per_slot = (rows_per_slot + rows_per_page - 1) / rows_per_page;
    /* Every fifth page, round and round: that visits all, as 5 is prime. */
    int64_t entries = slot_count * state.pages_per_slot;
    int64_t page_count = entries % 5 == 4 ? entries + 2 : entries + 1;
    int32_t *table = malloc((size_t)entries * sizeof *table);
    assert_non_null(table);
    for (int64_t i = 0; i < entries; i++) {
        table[i] = (int32_t)(in_order ? i : (5 * i + 2) % page_count);
    }
    state.page_table = op_fixture_integers(fixture, table, entries);
    free(table);
    state.memory = nan_memory(fixture, (size_t)(page_count * rows_per_page) * state.row_bytes);
    return state;
}

struct state_rows op_fixture_entries(struct op_fixture *fixture, struct row_layout layout,
                                     int64_t rows_per_slot, int64_t slot_count) {
    return op_fixture_pages(fixture, layout, rows_per_slot, slot_count, OP_PAGE_ROWS, false);
}

/* Rows of the state's memory, one for each row of each slot. Owned: free. */
static int64_t *list_rows(struct op_fixture *fixture, const struct state_rows *state) {
    int64_t count = state->slot_count * state->rows_per_slot;
    size_t entries = (size_t)(state->slot_count * state->pages_per_slot);
    int64_t *rows = malloc((size_t)count * sizeof *rows);
    int32_t *pages = malloc(entries * sizeof *pages + 1);
    assert_non_null(rows);
    assert_non_null(pages);
    if (entries > 0) {
        op_fixture_download(fixture, state->page_table, pages, entries * sizeof *pages);
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t slot = i / state->rows_per_slot;
        int64_t row = i % state->rows_per_slot;
        rows[i] = i;
        if (state->rows_per_page > 0) {
            int64_t page = pages[slot * state->pages_per_slot + row / state->rows_per_page];
            rows[i] = page * state->rows_per_page + row % state->rows_per_page;
        }
    }
    free(pages);
    return rows;
}

unsigned char *op_fixture_state_at(struct op_fixture *fixture, const struct state_rows *state, int64_t slot,
                                   int64_t row) {
    assert_in_range(row, 0, state->rows_per_slot - 1);
    int64_t *rows = list_rows(fixture, state);
    int64_t at = rows[slot * state->rows_per_slot + row];
    free(rows);
    return (unsigned char *)state->memory + (size_t)at * state->row_bytes;
}

/* The bytes of memory that the listed rows reach. */
static size_t reach_of(const struct state_rows *state, const int64_t *rows) {
    int64_t end = 0;
    for (int64_t i = 0; i < state->slot_count * state->rows_per_slot; i++) {
        end = rows[i] >= end ? rows[i] + 1 : end;
    }
    return (size_t)end * state->row_bytes;
}

void op_fixture_state_fill(struct op_fixture *fixture, const struct state_rows *state, const float *values) {
    int64_t *rows = list_rows(fixture, state);
    size_t bytes = reach_of(state, rows);
    unsigned char *image = malloc(bytes);
    assert_non_null(image);
    memset(image, 0xFF, bytes);
    for (int64_t i = 0; i < state->slot_count * state->rows_per_slot; i++) {
        row_encode(&state->layout, values + i * state->layout.width,
                   image + (size_t)rows[i] * state->row_bytes);
    }
    copy_to(fixture, state->memory, image, bytes);
    free(image);
    free(rows);
}

void op_fixture_state_download(struct op_fixture *fixture, const struct state_rows *state,
                               unsigned char *out) {
    int64_t *rows = list_rows(fixture, state);
    size_t bytes = reach_of(state, rows);
    unsigned char *image = malloc(bytes);
    assert_non_null(image);
    op_fixture_download(fixture, state->memory, image, bytes);
    for (int64_t i = 0; i < state->slot_count * state->rows_per_slot; i++) {
        memcpy(out + (size_t)i * state->row_bytes, image + (size_t)rows[i] * state->row_bytes,
               state->row_bytes);
    }
    free(image);
    free(rows);
}

void op_fixture_state_write(struct op_fixture *fixture, const struct state_rows *state, int64_t slot,
                            int64_t row, const float *values) {
    void *encoded = malloc(state->row_bytes);
    assert_non_null(encoded);
    row_encode(&state->layout, values, encoded);
    copy_to(fixture, op_fixture_state_at(fixture, state, slot, row), encoded, state->row_bytes);
    free(encoded);
}

void op_fixture_state_read(struct op_fixture *fixture, const struct state_rows *state, int64_t slot,
                           int64_t row, float *out) {
    void *encoded = malloc(state->row_bytes);
    assert_non_null(encoded);
    op_fixture_download(fixture, op_fixture_state_at(fixture, state, slot, row), encoded, state->row_bytes);
    row_decode(&state->layout, encoded, out);
    free(encoded);
}

const unsigned char *op_fixture_encoded(struct op_fixture *fixture, struct row_layout layout,
                                        const float *values, int64_t count) {
    size_t row_bytes = row_layout_bytes(&layout);
    unsigned char *encoded = malloc((size_t)count * row_bytes + 1);
    assert_non_null(encoded);
    for (int64_t i = 0; i < count; i++) {
        row_encode(&layout, values + i * layout.width, encoded + (size_t)i * row_bytes);
    }
    void *memory = op_fixture_upload(fixture, encoded, (size_t)count * row_bytes);
    free(encoded);
    return memory;
}

void op_expect_near(const char *what, const float *actual, const double *expected, int64_t count,
                    double tolerance) {
    for (int64_t i = 0; i < count; i++) {
        if (!(fabs((double)actual[i] - expected[i]) <= tolerance)) {
            fail_msg("%s[%lld] is %.9g, expected %.9g within %g", what, (long long)i, (double)actual[i],
                     expected[i], tolerance);
        }
    }
}
