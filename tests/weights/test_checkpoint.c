/* Model directories: whole ones, and each way in which files and index can fail to fit together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "weights/checkpoint.h"
#include "weights/checkpoint_writer.h"
#include "weights/fixture.h"

#define ENTRY(name, begin, end) \
    "\"" name "\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[" #begin "," #end "]}"

static int make_directory(void **state) {
    char *directory = malloc(FIXTURE_PATH_BYTES);
    assert_non_null(directory);
    fixture_make(directory);
    *state = directory;
    return 0;
}

static int remove_directory(void **state) {
    fixture_remove(*state);
    free(*state);
    return 0;
}

static void expect_refused(const char *directory, enum status expected, const char *fragment) {
    struct checkpoint *checkpoint;
    fixture_expect_error(checkpoint_open(directory, &checkpoint), expected, fragment);
    assert_null(checkpoint);
}

static void write_index(const char *directory, const char *text) {
    fixture_write(directory, "model.safetensors.index.json", text, strlen(text));
}

/* Three sound shards: a in the first, b and c in the second, d in the third. */
static void write_three_shards(const char *directory) {
    fixture_write_tensors(directory, "model-1.safetensors", "{" ENTRY("a", 0, 2) "}", 2);
    fixture_write_tensors(directory, "model-2.safetensors", "{" ENTRY("b", 0, 2) "," ENTRY("c", 2, 4) "}", 4);
    fixture_write_tensors(directory, "model-3.safetensors", "{" ENTRY("d", 0, 2) "}", 2);
    write_index(
        directory,
        "{\"metadata\":{},\"weight_map\":{\"d\":\"model-3.safetensors\",\"a\":\"model-1.safetensors\","
        "\"c\":\"model-2.safetensors\",\"b\":\"model-2.safetensors\"}}");
}

static void bundled_model_opens(void **state) {
    (void)state;
    struct checkpoint *checkpoint;
    assert_int_equal(checkpoint_open(SLUICE_SOURCE_DIR "/models/mini-v4", &checkpoint), STATUS_OK);
    assert_int_equal(checkpoint->shard_count, 2);
    assert_true(checkpoint->has_index);
    /* total_size of the index, which another program wrote */
    assert_int_equal(checkpoint->tensor_bytes, 18002274);
    const struct checkpoint_tensor *tensor = checkpoint_find(checkpoint, "layers.3.attn.wkv.weight");
    assert_non_null(tensor);
    assert_int_equal(tensor->dtype, DTYPE_F8_E4M3);
    assert_int_equal(tensor->shape[0], 64);
    assert_int_equal(tensor->shape[1], 256);
    assert_int_equal(tensor->shard, 1);
    assert_ptr_equal(checkpoint_tensor_data(checkpoint, tensor),
                     checkpoint->shards[1].map.bytes + tensor->offset);
    assert_null(checkpoint_find(checkpoint, "layers.3.attn.wkv"));
    struct tensor_probe probe = checkpoint_probe(checkpoint);
    assert_int_equal(probe.dtype_of(probe.context, "layers.0.ffn.experts.0.w1.weight"), DTYPE_I8);
    assert_int_equal(probe.dtype_of(probe.context, "nothing"), DTYPE_COUNT);
    checkpoint_close(&checkpoint);
    assert_null(checkpoint);
    checkpoint_close(&checkpoint);
}

static void single_file_opens(void **state) {
    const char *directory = *state;
    fixture_write_tensors(directory, "model.safetensors", "{" ENTRY("b", 0, 2) "," ENTRY("a", 2, 4) "}", 4);
    struct checkpoint *checkpoint;
    assert_int_equal(checkpoint_open(directory, &checkpoint), STATUS_OK);
    assert_false(checkpoint->has_index);
    assert_int_equal(checkpoint->tensor_count, 2);
    assert_string_equal(checkpoint->tensors[0].name, "a");
    checkpoint_close(&checkpoint);
}

static void missing_models_are_named(void **state) {
    const char *directory = *state;
    expect_refused("/nonexistent/model", STATUS_NOT_FOUND, "/nonexistent/model");
    expect_refused(directory, STATUS_NOT_FOUND, "holds no weights");
    expect_refused(SLUICE_SOURCE_DIR "/models/mini-v4/config.json", STATUS_NOT_FOUND, "give the directory");
    fixture_write(directory, "model.safetensors", "", 0);
    expect_refused(directory, STATUS_BAD_FORMAT, "model.safetensors is empty");
}

/* B35, B43: by the index, before anything is read. */
static void all_missing_shards_are_named(void **state) {
    const char *directory = *state;
    char path[FIXTURE_PATH_BYTES + 32];
    write_three_shards(directory);
    snprintf(path, sizeof path, "%s/model-2.safetensors", directory);
    assert_int_equal(remove(path), 0);
    expect_refused(directory, STATUS_NOT_FOUND, "model-2.safetensors (2 tensors, such as b)");
    assert_null(strstr(error_last()->message, "model-1"));
    snprintf(path, sizeof path, "%s/model-1.safetensors", directory);
    assert_int_equal(remove(path), 0);
    expect_refused(directory, STATUS_NOT_FOUND, "lacks 2 of the 3 shards");
    assert_non_null(strstr(error_last()->message, "model-1.safetensors (1 tensors, such as a)"));
    assert_non_null(strstr(error_last()->message, "model-2.safetensors (2 tensors, such as b)"));
}

/* B35: nor are they taken for weights that are zero. */
static void empty_shards_and_directories_are_refused(void **state) {
    const char *directory = *state;
    char path[FIXTURE_PATH_BYTES + 32];
    write_three_shards(directory);
    fixture_write(directory, "model-2.safetensors", "", 0);
    expect_refused(directory, STATUS_BAD_FORMAT, "model-2.safetensors is empty");
    snprintf(path, sizeof path, "%s/model-2.safetensors", directory);
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    expect_refused(directory, STATUS_IO, "model-2.safetensors is a directory");
}

static void index_and_shards_must_agree(void **state) {
    const char *directory = *state;
    write_three_shards(directory);
    struct checkpoint *checkpoint;
    assert_int_equal(checkpoint_open(directory, &checkpoint), STATUS_OK);
    assert_int_equal(checkpoint->tensor_count, 4);
    checkpoint_close(&checkpoint);
    fixture_write_tensors(directory, "model-2.safetensors", "{" ENTRY("b", 0, 2) "}", 2);
    expect_refused(directory, STATUS_BAD_CHECKPOINT, "tensor c should be in shard model-2.safetensors");
    fixture_write_tensors(directory, "model-2.safetensors",
                          "{" ENTRY("b", 0, 2) "," ENTRY("c", 2, 4) "," ENTRY("extra", 4, 6) "}", 6);
    expect_refused(directory, STATUS_BAD_CHECKPOINT,
                   "tensor extra is in shard model-2.safetensors, but the index");
    fixture_write_tensors(directory, "model-2.safetensors", "{" ENTRY("b", 0, 2) "," ENTRY("a", 2, 4) "}", 4);
    expect_refused(directory, STATUS_BAD_CHECKPOINT,
                   "tensor a is in two shards: model-1.safetensors and model-2.safetensors");
    fixture_write_tensors(directory, "model-2.safetensors", "{" ENTRY("b", 0, 2) "}", 2);
    fixture_write_tensors(directory, "model-3.safetensors", "{" ENTRY("d", 0, 2) "," ENTRY("c", 2, 4) "}", 4);
    expect_refused(
        directory, STATUS_BAD_CHECKPOINT,
        "tensor c should be in shard model-2.safetensors by the index, but is in model-3.safetensors");
}

static void hostile_indexes_are_refused(void **state) {
    const char *directory = *state;
    static const struct {
        const char *text;
        const char *fragment;
    } cases[] = {
        {"", "is empty"},
        {"{", "line 1"},
        {"[]", "no weight_map"},
        {"{\"weight_map\":{}}", "no weight_map"},
        {"{\"weight_map\":{\"a\":3}}", "no printable file name"},
        {"{\"weight_map\":{\"a\":\"x\\u0000.safetensors\"}}", "no printable file name"},
        {"{\"weight_map\":{\"a\":\"x\\u001b.safetensors\"}}", "no printable file name"},
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "no plain file name"},
        {"{\"weight_map\":{\"a\":\"/etc/x.safetensors\"}}", "no plain file name"},
        {"{\"weight_map\":{\"a\":\"sub/x.safetensors\"}}", "no plain file name"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "no plain file name"},
        {"{\"weight_map\":{\"a\":\"\"}}", "no .safetensors file"},
        {"{\"weight_map\":{\"a\":\"config.json\"}}", "no .safetensors file"},
        {"{\"weight_map\":{\"a\":\"x.safetensors\",\"a\":\"x.safetensors\"}}", "duplicate object key"},
        {"{\"weight_map\":{\"\":\"x.safetensors\"}}", "tensor name that is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_index(directory, cases[i].text);
        expect_refused(directory, STATUS_BAD_FORMAT, cases[i].fragment);
    }
}

/* As many tensors as the largest official release: a quadratic search would not end before the time limit. */
static void many_tensors_open(void **state) {
    const char *directory = *state;
    enum { COUNT = 150000, NAME_BYTES = 48 };
    struct safetensors_entry *entries = calloc(COUNT, sizeof *entries);
    char(*names)[NAME_BYTES] = calloc(COUNT, sizeof *names);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], NAME_BYTES, "layers.%zu.ffn.experts.%zu.w1.weight", i * 7919 % COUNT / 400,
                 i * 7919 % COUNT % 400);
        entries[i] = (struct safetensors_entry){.name = names[i], .dtype = DTYPE_I8, .rank = 1, .shape = {1}};
    }
    struct checkpoint_writer *writer;
    assert_int_equal(checkpoint_writer_open(directory, entries, COUNT, COUNT / 4, &writer), STATUS_OK);
    char *zeros = calloc(1, COUNT);
    assert_int_equal(checkpoint_writer_append(writer, zeros, COUNT), STATUS_OK);
    assert_int_equal(checkpoint_writer_finish(&writer), STATUS_OK);
    struct checkpoint *checkpoint;
    assert_int_equal(checkpoint_open(directory, &checkpoint), STATUS_OK);
    for (size_t i = 0; i < COUNT; i++) {
        const struct checkpoint_tensor *tensor = checkpoint_find(checkpoint, names[i]);
        assert_non_null(tensor);
        assert_string_equal(tensor->name, names[i]);
    }
    assert_int_equal(checkpoint->tensor_count, COUNT);
    assert_int_equal(checkpoint->shard_count, 4);
    checkpoint_close(&checkpoint);
    free(zeros);
    free(names);
    free(entries);
}

static void writer_bounds_shards(void **state) {
    const char *directory = *state;
    const struct safetensors_entry tensors[] = {
        {.name = "a", .dtype = DTYPE_I8, .rank = 1, .shape = {6}},
        {.name = "b", .dtype = DTYPE_I8, .rank = 1, .shape = {4}},
        {.name = "none", .dtype = DTYPE_I8, .rank = 1, .shape = {0}},
        {.name = "large", .dtype = DTYPE_I8, .rank = 1, .shape = {25}},
        {.name = "none too", .dtype = DTYPE_I8, .rank = 1, .shape = {0}},
    };
    struct checkpoint_writer *writer;
    assert_int_equal(checkpoint_writer_open(directory, tensors, 5, 10, &writer), STATUS_OK);
    char bytes[35];
    for (int i = 0; i < 35; i++) {
        bytes[i] = (char)i;
    }
    assert_int_equal(checkpoint_writer_append(writer, bytes, 3), STATUS_OK);
    assert_int_equal(checkpoint_writer_append(writer, bytes + 3, 32), STATUS_OK);
    fixture_expect_error(checkpoint_writer_append(writer, bytes, 1), STATUS_BAD_ARGUMENT, "1 bytes more");
    assert_int_equal(checkpoint_writer_finish(&writer), STATUS_OK);
    struct checkpoint *checkpoint;
    assert_int_equal(checkpoint_open(directory, &checkpoint), STATUS_OK);
    assert_int_equal(checkpoint->shard_count, 2);
    assert_string_equal(checkpoint->shards[0].file_name, "model-00001-of-00002.safetensors");
    assert_int_equal(checkpoint->shards[0].tensor_count, 3);
    const struct checkpoint_tensor *large = checkpoint_find(checkpoint, "large");
    assert_int_equal(large->shard, 1);
    assert_memory_equal(checkpoint_tensor_data(checkpoint, large), bytes + 10, 25);
    checkpoint_close(&checkpoint);
}

static void unfinished_checkpoints_leave_nothing(void **state) {
    const char *directory = *state;
    const struct safetensors_entry tensors[] = {
        {.name = "a", .dtype = DTYPE_I8, .rank = 1, .shape = {6}},
        {.name = "b", .dtype = DTYPE_I8, .rank = 1, .shape = {6}},
    };
    struct checkpoint_writer *writer;
    assert_int_equal(checkpoint_writer_open(directory, tensors, 2, 6, &writer), STATUS_OK);
    assert_int_equal(checkpoint_writer_append(writer, "123456789", 9), STATUS_OK);
    fixture_expect_error(checkpoint_writer_finish(&writer), STATUS_BAD_ARGUMENT, "lacks 3 of its 6 bytes");
    assert_null(writer);
    expect_refused(directory, STATUS_NOT_FOUND, "holds no weights");
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(mkdir(directory, 0700), 0);
}

int main(void) {
#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bundled_model_opens),
        IN_DIRECTORY(single_file_opens),
        IN_DIRECTORY(missing_models_are_named),
        IN_DIRECTORY(all_missing_shards_are_named),
        IN_DIRECTORY(empty_shards_and_directories_are_refused),
        IN_DIRECTORY(index_and_shards_must_agree),
        IN_DIRECTORY(hostile_indexes_are_refused),
        IN_DIRECTORY(many_tensors_open),
        IN_DIRECTORY(writer_bounds_shards),
        IN_DIRECTORY(unfinished_checkpoints_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
