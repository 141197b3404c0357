/*
 * Cuts of single tensors by hand-made records: blocks, leaves, vocabularies, raw scale bytes (spec
 * parallelism 1.5, 1.6, 6.5, T-6).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/device_cpu.h"
#include "weights/checkpoint_writer.h"
#include "weights/fixture.h"
#include "weights/loader.h"
#include "weights/tensor_part.h"

enum { MATRIX, SCALES };

struct scene {
    char directory[FIXTURE_PATH_BYTES];
    struct arena arena;
    struct tensor_spec_list list;
    struct shard_layout layout;
    int first_layers[2];
};

static int make_scene(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    fixture_make(scene->directory);
    arena_init(&scene->arena, 1 << 16);
    scene->list.arena = &scene->arena;
    scene->first_layers[1] = 1;
    scene->layout = (struct shard_layout){.mesh = mesh_shape_single(), .first_layers = scene->first_layers};
    *state = scene;
    return 0;
}

static int drop_scene(void **state) {
    struct scene *scene = *state;
    arena_deinit(&scene->arena);
    fixture_remove(scene->directory);
    free(scene);
    return 0;
}

static void place(struct scene *scene, int rank, int ranks) {
    scene->layout.mesh.tensor = ranks;
    scene->layout.place = mesh_place_of(&scene->layout.mesh, rank);
}

static struct tensor_spec *add_spec(struct scene *scene, enum dtype dtype, int64_t rows, int64_t columns) {
    size_t index;
    assert_int_equal(tensor_spec_list_add(&scene->list, &index), STATUS_OK);
    struct tensor_spec *spec = &scene->list.specs[index];
    spec->name = "m.weight";
    spec->dtype = dtype;
    spec->rank = 2;
    spec->shape[0] = rows;
    spec->shape[1] = columns;
    spec->stage = STAGE_LAST;
    spec->is_used = true;
    return spec;
}

/* An FP8 matrix, its scales behind it. */
static struct tensor_spec *add_matrix(struct scene *scene, int64_t rows, int64_t columns,
                                      enum placement placement, int unit) {
    add_spec(scene, DTYPE_F8_E4M3, rows, columns);
    struct tensor_spec *scales = add_spec(scene, DTYPE_F8_E8M0, (rows + 127) / 128, (columns + 127) / 128);
    struct tensor_spec *matrix = &scene->list.specs[MATRIX];
    scales->name = "m.scale";
    scales->role = TENSOR_BLOCK_SCALE;
    scales->partner = MATRIX;
    scales->placement = placement;
    matrix->role = TENSOR_FP8_MATRIX;
    matrix->partner = SCALES;
    matrix->placement = placement;
    matrix->placement_unit = unit;
    return matrix;
}

/* An FP4 matrix of `columns` numbers a row, two a byte, its scales of 32 each behind it. */
static struct tensor_spec *add_fp4_matrix(struct scene *scene, int64_t rows, int64_t columns,
                                          enum placement placement, int unit) {
    struct tensor_spec *matrix = add_matrix(scene, rows, columns, placement, unit);
    matrix->role = TENSOR_FP4_MATRIX;
    matrix->dtype = DTYPE_I8;
    matrix->shape[1] = columns / 2;
    scene->list.specs[SCALES].shape[0] = rows;
    scene->list.specs[SCALES].shape[1] = columns / 32;
    return matrix;
}

static void expect_part(const struct scene *scene, size_t index, int64_t first_row, int64_t rows,
                        int64_t first_column, int64_t columns) {
    struct tensor_part part = tensor_part_of(&scene->list, index, &scene->layout);
    assert_true(part.is_here);
    assert_int_equal(part.index, scene->layout.place.tensor);
    assert_int_equal(part.count, scene->layout.mesh.tensor);
    assert_int_equal(part.first_row, first_row);
    assert_int_equal(part.shape[0], rows);
    assert_int_equal(part.first_column, first_column);
    assert_int_equal(part.shape[1], columns);
}

/* q_b_proj of V3.2: 128 heads of 192 rows, one and a half blocks each (table 1.4, CFG-08). */
static void heads_must_end_where_blocks_end(void **state) {
    struct scene *scene = *state;
    add_matrix(scene, 128 * 192, 1536, PLACEMENT_SPLIT_ROWS, 192)->even_units = "heads";
    for (int ranks = 1; ranks <= 64; ranks *= 2) {
        place(scene, ranks - 1, ranks);
        assert_int_equal(tensor_parts_check(&scene->list, &scene->layout), STATUS_OK);
        int64_t rows = 128 / ranks * 192;
        expect_part(scene, MATRIX, (ranks - 1) * rows, rows, 0, 1536);
        expect_part(scene, SCALES, (ranks - 1) * rows / 128, rows / 128, 0, 12);
    }
    place(scene, 0, 128);
    fixture_expect_error(
        tensor_parts_check(&scene->list, &scene->layout), STATUS_UNSUPPORTED,
        "tensor parallel size 128 would cut m.weight at row 192, inside one of its 192 blocks "
        "of 128 (1 of 128 heads per rank): use 1, 2, 4, 8, 16, 32, 64");
}

/* Units that are no blocks, dealt out unevenly: two ranks would be fine, three are not (CFG-07). */
static void other_units_must_end_where_blocks_end(void **state) {
    struct scene *scene = *state;
    struct tensor_spec *matrix = add_matrix(scene, 64, 4 * 64, PLACEMENT_SPLIT_COLUMNS, 64);
    matrix->leaf_count = 12;
    place(scene, 0, 2);
    assert_int_equal(tensor_parts_check(&scene->list, &scene->layout), STATUS_OK);
    place(scene, 0, 3);
    fixture_expect_error(
        tensor_parts_check(&scene->list, &scene->layout), STATUS_UNSUPPORTED,
        "tensor parallel size 3 would cut m.weight at column 64, inside one of its 2 blocks of "
        "128: use 1, 2");
    matrix->is_used = false;
    assert_int_equal(tensor_parts_check(&scene->list, &scene->layout), STATUS_OK);
}

/*
 * G-10: rows of FP4 end anywhere. Columns end where 128 inputs do, which share the scale that inputs are
 * rounded with, though a scale of weights is for 32; a unit of 96 would do for these.
 */
static void fp4_rows_end_anywhere_and_columns_at_blocks(void **state) {
    struct scene *scene = *state;
    struct tensor_spec *matrix = add_fp4_matrix(scene, 7, 6 * 128, PLACEMENT_SPLIT_ROWS, 1);
    place(scene, 1, 3);
    assert_int_equal(tensor_parts_check(&scene->list, &scene->layout), STATUS_OK);
    expect_part(scene, MATRIX, 2, 2, 0, 6 * 64);
    expect_part(scene, SCALES, 2, 2, 0, 6 * 4);
    matrix->placement = PLACEMENT_SPLIT_COLUMNS;
    matrix->placement_unit = 128;
    matrix->leaf_count = 6;
    place(scene, 2, 3);
    assert_int_equal(tensor_parts_check(&scene->list, &scene->layout), STATUS_OK);
    expect_part(scene, MATRIX, 0, 7, 4 * 64, 2 * 64);
    expect_part(scene, SCALES, 0, 7, 4 * 4, 2 * 4);
    matrix->placement_unit = 96;
    matrix->leaf_count = 24;
    place(scene, 0, 8);
    fixture_expect_error(
        tensor_parts_check(&scene->list, &scene->layout), STATUS_UNSUPPORTED,
        "tensor parallel size 8 would cut m.weight at column 96, inside one of its 6 blocks of "
        "128: use 1, 2");
}

/* Ranks that do not share the leaves of a sum evenly would not get the bits of one rank. */
static void leaves_are_not_torn(void **state) {
    struct scene *scene = *state;
    struct tensor_spec *matrix = add_matrix(scene, 128, 16 * 128, PLACEMENT_SPLIT_COLUMNS, 128);
    matrix->leaf_count = 16;
    place(scene, 0, 3);
    fixture_expect_error(
        tensor_parts_check(&scene->list, &scene->layout), STATUS_UNSUPPORTED,
        "tensor parallel size 3 would tear the 16 leaves that m.weight sums in: use 1, 2, 4, 8, 16");
    matrix->placement = PLACEMENT_SPLIT_ROWS;
    assert_int_equal(tensor_parts_check(&scene->list, &scene->layout), STATUS_OK);
}

/* 24 blocks over 16 ranks (G-9), and a last block that is short. */
static void blocks_are_dealt_out_unevenly(void **state) {
    struct scene *scene = *state;
    add_matrix(scene, 24 * 128 - 32, 256, PLACEMENT_SPLIT_ROWS, 128);
    place(scene, 1, 16);
    assert_int_equal(tensor_parts_check(&scene->list, &scene->layout), STATUS_OK);
    expect_part(scene, MATRIX, 128, 256, 0, 256);
    expect_part(scene, SCALES, 1, 2, 0, 2);
    place(scene, 15, 16);
    expect_part(scene, MATRIX, 22 * 128, 256 - 32, 0, 256);
    expect_part(scene, SCALES, 22, 2, 0, 2);
}

/* 129280 over 3: 43093.3 rows, rounded up to 43136; of 100 over 4 the first two get 64 and 36 (G-14). */
static void vocabularies_are_cut_by_64(void **state) {
    struct scene *scene = *state;
    struct tensor_spec *head = add_spec(scene, DTYPE_BF16, 129280, 8);
    head->placement = PLACEMENT_SPLIT_VOCABULARY;
    place(scene, 2, 3);
    expect_part(scene, 0, 86272, 43008, 0, 8);
    head->shape[0] = 100;
    place(scene, 1, 4);
    expect_part(scene, 0, 64, 36, 0, 8);
    place(scene, 2, 4);
    expect_part(scene, 0, 100, 0, 0, 8);
    head->stage = STAGE_FIRST_AND_DRAFT;
    struct tensor_part part = tensor_part_of(&scene->list, 0, &scene->layout);
    assert_int_equal(part.shape[0], 100);
    assert_int_equal(part.count, 1);
}

/* Writes the list's tensors: byte i of each is (i * step) modulo 256. */
static void write_files(const struct scene *scene, size_t step) {
    struct safetensors_entry entries[2];
    struct checkpoint_writer *writer;
    for (size_t t = 0; t < scene->list.count; t++) {
        const struct tensor_spec *spec = &scene->list.specs[t];
        entries[t] = (struct safetensors_entry){.name = spec->name, .dtype = spec->dtype, .rank = 2};
        memcpy(entries[t].shape, spec->shape, sizeof entries[t].shape);
    }
    assert_int_equal(checkpoint_writer_open(scene->directory, entries, scene->list.count, 0, &writer),
                     STATUS_OK);
    for (size_t t = 0; t < scene->list.count; t++) {
        size_t bytes = (size_t)(entries[t].shape[0] * entries[t].shape[1]) * dtype_bytes(entries[t].dtype);
        unsigned char *data = malloc(bytes);
        assert_non_null(data);
        for (size_t i = 0; i < bytes; i++) {
            data[i] = (unsigned char)(i * step);
        }
        assert_int_equal(checkpoint_writer_append(writer, data, bytes), STATUS_OK);
        free(data);
    }
    assert_int_equal(checkpoint_writer_finish(&writer), STATUS_OK);
}

/* Byte `at` of a part of rows of `row_bytes` bytes is that of the file at its row and column. */
static void expect_bytes(const struct loaded_tensor *loaded, const struct tensor_spec *spec, size_t step) {
    size_t element = dtype_bytes(loaded->dtype);
    size_t row_bytes = (size_t)loaded->part.shape[1] * element;
    const unsigned char *bytes = loaded->data; /* the CPU's device memory is the host's */
    assert_int_equal(loaded->bytes, (size_t)loaded->part.shape[0] * row_bytes);
    for (size_t at = 0; at < loaded->bytes; at++) {
        size_t row = (size_t)loaded->part.first_row + at / row_bytes;
        size_t column = (size_t)loaded->part.first_column * element + at % row_bytes;
        if (bytes[at] != (unsigned char)((row * (size_t)spec->shape[1] * element + column) * step)) {
            fail_msg("%s: byte %zu", spec->name, at);
        }
    }
}

static void expect_loaded(const struct scene *scene, size_t step) {
    struct device *device;
    struct stream *stream;
    struct checkpoint *checkpoint;
    struct loaded_tensor tensors[2];
    struct loaded_weights weights;
    assert_int_equal(device_cpu_create(&device), STATUS_OK);
    assert_int_equal(device_stream_create(device, &stream), STATUS_OK);
    assert_int_equal(checkpoint_open(scene->directory, &checkpoint), STATUS_OK);
    if (checkpoint_load(&checkpoint, &scene->list, &(struct load_options){.layout = &scene->layout}, device,
                        stream, tensors, &weights) != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
    for (size_t t = 0; t < scene->list.count; t++) {
        expect_bytes(&tensors[t], &scene->list.specs[t], step);
    }
    weights_release(&weights, device);
    device_stream_destroy(&stream);
    device_destroy(&device);
}

/* G-11: scales are exponent bytes: all 256 come through as they are, in either direction of the cut (G-8,
 * T-6). */
static void scale_bytes_are_copied(void **state) {
    struct scene *scene = *state;
    struct tensor_spec *matrix = add_matrix(scene, 16 * 128, 16 * 128, PLACEMENT_SPLIT_ROWS, 128);
    matrix->leaf_count = 16;
    write_files(scene, 1);
    for (int ranks = 1; ranks <= 16; ranks *= 4) {
        for (int rank = 0; rank < ranks; rank++) {
            place(scene, rank, ranks);
            matrix->placement = PLACEMENT_SPLIT_ROWS;
            expect_part(scene, SCALES, 16 / ranks * rank, 16 / ranks, 0, 16);
            expect_loaded(scene, 1);
            matrix->placement = PLACEMENT_SPLIT_COLUMNS;
            expect_part(scene, SCALES, 0, 16, 16 / ranks * rank, 16 / ranks);
            expect_loaded(scene, 1);
        }
    }
}

/* Parts of columns that are packed in many pieces, and rows that are longer than a piece. */
static void long_columns_are_packed_in_pieces(void **state) {
    struct scene *scene = *state;
    static const int64_t shapes[2][2] = {{3001, 1024}, {3, 600001}};
    struct tensor_spec *matrix = add_spec(scene, DTYPE_F32, 0, 0);
    matrix->placement = PLACEMENT_SPLIT_COLUMNS;
    matrix->leaf_count = 2;
    for (int i = 0; i < 2; i++) {
        memcpy(matrix->shape, shapes[i], sizeof shapes[i]);
        write_files(scene, 7);
        for (int rank = 0; rank < 2; rank++) {
            place(scene, rank, 2);
            expect_loaded(scene, 7);
        }
        fixture_remove(scene->directory);
        fixture_make(scene->directory);
    }
}

int main(void) {
#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, make_scene, drop_scene)
    const struct CMUnitTest tests[] = {
        IN_SCENE(heads_must_end_where_blocks_end),
        IN_SCENE(other_units_must_end_where_blocks_end),
        IN_SCENE(fp4_rows_end_anywhere_and_columns_at_blocks),
        IN_SCENE(leaves_are_not_torn),
        IN_SCENE(blocks_are_dealt_out_unevenly),
        IN_SCENE(vocabularies_are_cut_by_64),
        IN_SCENE(scale_bytes_are_copied),
        IN_SCENE(long_columns_are_packed_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
