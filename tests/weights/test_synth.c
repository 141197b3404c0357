/*
 * The weight generator against the golden tiny model: every tensor's bytes, and the whole file's.
 *
 * tests/golden/tiny-v4/tensor_hashes.txt was made from a file that an independent program wrote.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/file_map.h"
#include "tools/synth.h"
#include "tools/weight_generator.h"
#include "weights/checkpoint.h"
#include "weights/fixture.h"

static const char golden_directory[] = SLUICE_SOURCE_DIR "/tests/golden/tiny-v4";
enum { GOLDEN_TENSORS = 596, GOLDEN_FILE_BYTES = 10377418 };
static const uint64_t golden_file_hash = 0xD7915D76D95853C9u;

struct golden {
    struct arena arena;
    struct tensor_spec_list list;
    uint64_t hashes[GOLDEN_TENSORS];
};

/* What a tensor is follows from its type here; matrices and scales find each other by name. */
static void deduce_role(struct tensor_spec *spec) {
    switch (spec->dtype) {
    case DTYPE_F8_E4M3:
        spec->role = TENSOR_FP8_MATRIX;
        break;
    case DTYPE_I8:
        spec->role = TENSOR_FP4_MATRIX;
        break;
    case DTYPE_F8_E8M0:
        spec->role = TENSOR_BLOCK_SCALE;
        break;
    case DTYPE_I64:
        spec->role = TENSOR_EXPERT_TABLE;
        spec->value_limit = 8;
        assert_int_equal(sscanf(spec->name, "layers.%d.", &spec->layer), 1);
        break;
    default:
        break;
    }
}

static void pair_scales(struct tensor_spec_list *list) {
    for (size_t scale = 0; scale < list->count; scale++) {
        size_t stem = strlen(list->specs[scale].name) - strlen("scale");
        for (size_t i = 0; i < list->count && list->specs[scale].role == TENSOR_BLOCK_SCALE; i++) {
            if (strncmp(list->specs[i].name, list->specs[scale].name, stem) == 0 &&
                strcmp(list->specs[i].name + stem, "weight") == 0) {
                list->specs[i].partner = (int)scale;
                list->specs[scale].partner = (int)i;
            }
        }
    }
}

static int read_golden(void **state) {
    struct golden *golden = calloc(1, sizeof *golden);
    arena_init(&golden->arena, 1 << 16);
    golden->list.arena = &golden->arena;
    FILE *file = fopen(SLUICE_SOURCE_DIR "/tests/golden/tiny-v4/tensor_hashes.txt", "r");
    assert_non_null(file);
    char line[512];
    while (fgets(line, sizeof line, file) != NULL) {
        char name[256];
        char dtype[16];
        char shape[64];
        unsigned long long hash;
        if (line[0] == '#') {
            continue;
        }
        assert_int_equal(sscanf(line, "%255s %15s %63s %llx", name, dtype, shape, &hash), 4);
        size_t index;
        assert_int_equal(tensor_spec_list_add(&golden->list, &index), STATUS_OK);
        struct tensor_spec *spec = &golden->list.specs[index];
        spec->name = arena_copy_string(&golden->arena, name, strlen(name));
        spec->dtype = dtype_from_name(dtype, strlen(dtype));
        for (char *extent = strtok(shape, "x"); extent != NULL; extent = strtok(NULL, "x")) {
            spec->shape[spec->rank++] = atoll(extent);
        }
        deduce_role(spec);
        golden->hashes[index] = hash;
    }
    fclose(file);
    assert_int_equal(golden->list.count, GOLDEN_TENSORS);
    pair_scales(&golden->list);
    *state = golden;
    return 0;
}

static int drop_golden(void **state) {
    struct golden *golden = *state;
    arena_deinit(&golden->arena);
    free(golden);
    return 0;
}

static size_t index_of(const struct golden *golden, const char *name) {
    for (size_t i = 0; i < golden->list.count; i++) {
        if (strcmp(golden->list.specs[i].name, name) == 0) {
            return i;
        }
    }
    fail_msg("no tensor %s", name);
    return 0;
}

static void fill(const struct golden *golden, const char *name, size_t first_byte, size_t bytes, void *out) {
    struct weight_generator generator;
    assert_int_equal(weight_generator_init(&generator, &golden->list, index_of(golden, name)), STATUS_OK);
    weight_generator_fill(&generator, first_byte, bytes, out);
}

/* The values that spec A.1 prints. */
static void spec_examples(void **state) {
    const struct golden *golden = *state;
    uint16_t embedding[4];
    fill(golden, "embed.weight", 0, sizeof embedding, embedding);
    static const uint16_t embedding_bits[] = {0x3D10, 0x3F64, 0x3F29, 0x3F06}; /* 0.03515625 0.890625 ... */
    assert_memory_equal(embedding, embedding_bits, sizeof embedding);
    unsigned char bytes[8];
    fill(golden, "layers.0.attn.wq_a.scale", 0, 2, bytes);
    assert_int_equal(bytes[0], 118);
    assert_int_equal(bytes[1], 119);
    fill(golden, "layers.0.attn.wq_a.weight", 0, 8, bytes);
    assert_memory_equal(bytes, "\x60\x58\xda\xdb\xdb\x4a\xdc\x65", 8);
    fill(golden, "layers.0.ffn.experts.0.w1.scale", 0, 8, bytes);
    assert_memory_equal(bytes, "zzzzzyyz", 8); /* 'z' is 122 */
    fill(golden, "layers.0.ffn.experts.0.w1.weight", 0, 8, bytes);
    assert_memory_equal(bytes, "\xd5\x54\x2c\x52\x54\x4a\xdc\xd5", 8);
    float scale[3];
    fill(golden, "layers.0.hc_attn_scale", 0, sizeof scale, scale);
    assert_true(scale[0] == 1.0385931f && scale[1] == 1.0179485f && scale[2] == 0.90778363f);
    int64_t experts[4];
    fill(golden, "layers.1.ffn.gate.tid2eid", 16 * 8, sizeof experts, experts);
    static const int64_t expected[] = {(7 * 8 + 1) % 8, (7 * 8 + 3 + 1) % 8, (7 * 9 + 1) % 8,
                                       (7 * 9 + 3 + 1) % 8};
    assert_memory_equal(experts, expected, sizeof expected);
}

/* Pieces of an odd size must give what one call gives. */
static void pieces_do_not_matter(void **state) {
    const struct golden *golden = *state;
    static const char *const names[] = {"layers.0.attn.wo_a.weight", "layers.2.ffn.experts.7.w2.weight",
                                        "layers.2.ffn.experts.7.w2.scale"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct tensor_spec *spec = &golden->list.specs[index_of(golden, names[i])];
        size_t bytes = (size_t)(spec->shape[0] * spec->shape[1]);
        unsigned char *whole = malloc(bytes);
        unsigned char *pieces = malloc(bytes);
        fill(golden, names[i], 0, bytes, whole);
        for (size_t at = 0; at < bytes; at += 77) {
            fill(golden, names[i], at, bytes - at < 77 ? bytes - at : 77, pieces + at);
        }
        assert_memory_equal(whole, pieces, bytes);
        free(whole);
        free(pieces);
    }
}

static void write_model(const struct golden *golden, const char *directory, size_t shard_bytes,
                        unsigned threads) {
    const struct synth_request request = {.config_path =
                                              SLUICE_SOURCE_DIR "/tests/golden/tiny-v4/config.json",
                                          .directory = directory,
                                          .shard_bytes = shard_bytes,
                                          .thread_count = threads};
    enum status status = synth_write(&request, &golden->list);
    if (status != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
}

static void check_tensors(const struct golden *golden, const char *directory, size_t shard_count) {
    struct checkpoint *checkpoint;
    assert_int_equal(checkpoint_open(directory, &checkpoint), STATUS_OK);
    assert_int_equal(checkpoint->shard_count, shard_count);
    assert_int_equal(checkpoint->tensor_count, GOLDEN_TENSORS);
    for (size_t i = 0; i < golden->list.count; i++) {
        const struct tensor_spec *spec = &golden->list.specs[i];
        const struct checkpoint_tensor *tensor = checkpoint_find(checkpoint, spec->name);
        assert_non_null(tensor);
        assert_int_equal(tensor->dtype, spec->dtype);
        uint64_t hash = fixture_fnv1a(checkpoint_tensor_data(checkpoint, tensor), tensor->bytes);
        if (hash != golden->hashes[i]) {
            fail_msg("tensor %s differs from the golden file", spec->name);
        }
    }
    checkpoint_close(&checkpoint);
}

static void one_file_equals_the_golden_file(void **state) {
    const struct golden *golden = *state;
    char directory[FIXTURE_PATH_BYTES];
    fixture_make(directory);
    write_model(golden, directory, 0, 2);
    check_tensors(golden, directory, 1);
    char path[FIXTURE_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    struct file_map map;
    assert_int_equal(file_map_open(path, &map), STATUS_OK);
    assert_int_equal(map.length, GOLDEN_FILE_BYTES);
    assert_true(fixture_fnv1a(map.bytes, map.length) == golden_file_hash);
    file_map_close(&map);
    struct file_map original;
    snprintf(path, sizeof path, "%s/config.json", directory);
    assert_int_equal(file_map_open(path, &map), STATUS_OK);
    snprintf(path, sizeof path, "%s/config.json", golden_directory);
    assert_int_equal(file_map_open(path, &original), STATUS_OK);
    assert_int_equal(map.length, original.length);
    assert_memory_equal(map.bytes, original.bytes, map.length);
    file_map_close(&original);
    file_map_close(&map);
    fixture_remove(directory);
}

static void shards_hold_the_same_tensors(void **state) {
    const struct golden *golden = *state;
    char directory[FIXTURE_PATH_BYTES];
    fixture_make(directory);
    write_model(golden, directory, 3000000, 1);
    check_tensors(golden, directory, 4);
    const struct synth_request again = {.config_path = SLUICE_SOURCE_DIR "/tests/golden/tiny-v4/config.json",
                                        .directory = directory,
                                        .thread_count = 1};
    fixture_expect_error(synth_write(&again, &golden->list), STATUS_BAD_ARGUMENT,
                         "already holds model.safetensors");
    fixture_remove(directory);
}

static void impossible_requests_are_refused(void **state) {
    struct golden *golden = *state;
    char directory[FIXTURE_PATH_BYTES];
    fixture_make(directory);
    struct synth_request request = {
        .config_path = "/nonexistent/config.json", .directory = directory, .thread_count = 1};
    fixture_expect_error(synth_write(&request, &golden->list), STATUS_NOT_FOUND, "/nonexistent/config.json");
    request.config_path = SLUICE_SOURCE_DIR "/tests/golden/tiny-v4/config.json";
    request.directory = "/nonexistent/out";
    fixture_expect_error(synth_write(&request, &golden->list), STATUS_IO, "/nonexistent/out");
    request.directory = directory;
    struct tensor_spec *norm = &golden->list.specs[index_of(golden, "norm.weight")];
    norm->dtype = DTYPE_F16;
    fixture_expect_error(synth_write(&request, &golden->list), STATUS_UNSUPPORTED, "norm.weight of type F16");
    norm->dtype = DTYPE_BF16;
    fixture_remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(spec_examples, read_golden, drop_golden),
        cmocka_unit_test_setup_teardown(pieces_do_not_matter, read_golden, drop_golden),
        cmocka_unit_test_setup_teardown(one_file_equals_the_golden_file, read_golden, drop_golden),
        cmocka_unit_test_setup_teardown(shards_hold_the_same_tensors, read_golden, drop_golden),
        cmocka_unit_test_setup_teardown(impossible_requests_are_refused, read_golden, drop_golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
