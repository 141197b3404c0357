/* One safetensors file: what a sound one yields, and a clear refusal for each way to break it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file_map.h"
#include "weights/fixture.h"
#include "weights/safetensors.h"
#include "weights/safetensors_writer.h"

/* Parses from a heap block of the exact size, so that reads past the end are seen by the sanitizer. */
static void expect_bytes_refused(const void *bytes, size_t length, const char *fragment) {
    unsigned char *copy = malloc(length == 0 ? 1 : length);
    assert_non_null(copy);
    if (length > 0) {
        memcpy(copy, bytes, length);
    }
    struct safetensors_header header;
    fixture_expect_error(safetensors_parse(copy, length, "m.safetensors", &header), STATUS_BAD_FORMAT,
                         fragment);
    assert_non_null(strstr(error_last()->message, "m.safetensors"));
    assert_int_equal(header.count, 0);
    free(copy);
}

static void expect_refused(const char *header_text, size_t data_bytes, const char *fragment) {
    size_t length;
    unsigned char *bytes = fixture_build(header_text, data_bytes, &length);
    expect_bytes_refused(bytes, length, fragment);
    free(bytes);
}

static void sound_file_is_read(void **state) {
    (void)state;
    static const char text[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
        "\"none\":{\"dtype\":\"I64\",\"shape\":[0,9223372036854775807],\"data_offsets\":[28,28]},"
        "\"one\":{\"dtype\":\"F8_E8M0\",\"shape\":[],\"data_offsets\":[28,29]}}  ";
    size_t length;
    unsigned char *bytes = fixture_build(text, 29, &length);
    struct safetensors_header header;
    assert_int_equal(safetensors_parse(bytes, length, "m", &header), STATUS_OK);
    assert_int_equal(header.count, 4);
    size_t data = 8 + strlen(text);
    static const char *const names[] = {"a", "b", "none", "one"};
    const size_t offsets[] = {data, data + 4, data + 28, data + 28};
    static const size_t sizes[] = {4, 24, 0, 1};
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(header.entries[i].name, names[i]);
        assert_int_equal(header.entries[i].offset, offsets[i]);
        assert_int_equal(header.entries[i].bytes, sizes[i]);
    }
    assert_int_equal(header.entries[1].dtype, DTYPE_F32);
    assert_int_equal(header.entries[1].rank, 2);
    assert_int_equal(header.entries[1].shape[0], 2);
    assert_int_equal(header.entries[1].shape[1], 3);
    assert_int_equal(header.entries[3].rank, 0);
    safetensors_header_deinit(&header);
    free(bytes);
}

/* B38: such as a pointer of Git LFS, and lengths that no file has. */
static void wrong_files_are_named(void **state) {
    (void)state;
    expect_bytes_refused(NULL, 0, "is empty");
    expect_bytes_refused("\x01\0\0\0\0\0\0", 7, "too few");
    expect_bytes_refused("\x02\0\0\0\0\0\0\0", 8, "too few");
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid "
                                  "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2"
                                  "ca24d17e2393\nsize 5368709120\n";
    expect_bytes_refused(pointer, strlen(pointer), "looks like a Git LFS pointer: fetch the real file");
    expect_bytes_refused("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, "header length is 18446744073709551615");
    expect_bytes_refused("\0\0\0\0\0\0\0\0{}", 10, "header length is 0");
    expect_bytes_refused("\x03\0\0\0\0\0\0\0{}", 10, "cut off");
    expect_bytes_refused("\x02\0\0\0\0\0\0\0[]", 10, "begin with '{'");
    /* 200 MB announced by a file of 1 KB. */
    static unsigned char small[1024] = {0x00, 0xC2, 0xEB, 0x0B, 0, 0, 0, 0, '{'};
    expect_bytes_refused(small, sizeof small, "header length is 200000000, at most 100000000");
    small[3] = 0x05; /* 99,074,560: allowed by the limit, but not by the file */
    small[2] = 0xE7;
    expect_bytes_refused(small, sizeof small, "cut off");
}

static void headers_that_are_no_json_are_refused(void **state) {
    (void)state;
    expect_refused("{\"a\":", 0, "line 1");
    expect_refused("{} x", 0, "line 1");
    expect_refused("{\"\xff\":1}", 0, "line 1");
    expect_refused("{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                   "\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                   2, "duplicate object key");
    char deep[3000];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"a\":", 5);
    deep[sizeof deep - 1] = '\0';
    expect_refused(deep, 0, "deeper");
}

static void entries_are_checked(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *fragment;
    } cases[] = {
        {"{\"__metadata__\":3}", 0, "__metadata__"},
        {"{\"__metadata__\":{\"a\":3}}", 0, "__metadata__"},
        {"{\"a\":3}", 0, "no JSON object"},
        {"{\"\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "name has 0 bytes"},
        {"{\"a\\u001b[31m\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         "control character 0x1b"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "no dtype"},
        {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "no dtype"},
        {"{\"a\":{\"dtype\":\"F8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "unknown dtype \"F8\""},
        {"{\"a\":{\"dtype\":\"bf16\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2, "unknown dtype \"bf16\""},
        {"{\"a\":{\"dtype\":\"I8\",\"data_offsets\":[0,1]}}", 1, "no shape"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, "5 axes"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1, "axis 0"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[1,1.0],\"data_offsets\":[0,1]}}", 1, "axis 1"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[\"1\"],\"data_offsets\":[0,1]}}", 1, "axis 0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", 4,
         "overflows"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,1],\"data_offsets\":[0,0]}}", 0,
         "overflows"},
        {"{\"a\":{\"dtype\":\"I64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0,
         "overflows"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "needs 12 bytes"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[1]}}", 1, "no data_offsets"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "no data_offsets"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1.0]}}", 1, "no data_offsets"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1, "not in order"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", 1, "not in order"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 1, "cut off"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,9223372036854775807]}}", 1, "cut off"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect_refused(cases[i].header, cases[i].data_bytes, cases[i].fragment);
    }
}

/* B38: ranges that overlap or leave gaps. */
static void layout_is_checked(void **state) {
    (void)state;
#define ENTRY(name, begin, end, size) \
    "\"" name "\":{\"dtype\":\"I8\",\"shape\":[" size "],\"data_offsets\":[" begin "," end "]}"
    expect_refused("{" ENTRY("a", "0", "4", "4") "," ENTRY("b", "2", "6", "4") "}", 6,
                   "tensors a and b overlap");
    expect_refused("{" ENTRY("a", "0", "4", "4") "," ENTRY("b", "0", "4", "4") "}", 4, "overlap");
    expect_refused("{" ENTRY("a", "0", "4", "4") "," ENTRY("b", "5", "6", "1") "}", 6,
                   "1 bytes before tensor b");
    expect_refused("{" ENTRY("a", "1", "4", "3") "}", 4, "before tensor a");
    expect_refused("{" ENTRY("a", "0", "4", "4") "}", 9, "5 bytes after the last tensor");
    expect_refused("{}", 1, "1 bytes after the last tensor");
#undef ENTRY
}

static void real_shards_are_read(void **state) {
    (void)state;
    struct file_map map;
    assert_int_equal(
        file_map_open(SLUICE_SOURCE_DIR "/models/mini-v4/model-00001-of-00002.safetensors", &map), STATUS_OK);
    struct safetensors_header header;
    assert_int_equal(safetensors_parse(map.bytes, map.length, "shard", &header), STATUS_OK);
    assert_string_equal(header.entries[0].name, "embed.weight");
    assert_int_equal(header.entries[0].dtype, DTYPE_BF16);
    assert_int_equal(header.entries[0].bytes, 2097152);
    safetensors_header_deinit(&header);
    file_map_close(&map);
}

/* The writer's header is the one the official files have, to the byte. */
static void writer_gives_the_official_form(void **state) {
    (void)state;
    char directory[FIXTURE_PATH_BYTES];
    fixture_make(directory);
    char path[FIXTURE_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/x.safetensors", directory);
    const struct safetensors_entry tensors[] = {
        {.name = "embed.weight", .dtype = DTYPE_BF16, .rank = 2, .shape = {2, 3}},
        {.name = "s", .dtype = DTYPE_F8_E8M0, .rank = 1, .shape = {1}},
    };
    struct safetensors_writer *writer;
    assert_int_equal(safetensors_writer_open(path, tensors, 2, &writer), STATUS_OK);
    assert_int_equal(safetensors_writer_append(writer, "abcdefghijk", 11), STATUS_OK);
    assert_int_equal(safetensors_writer_append(writer, "lm", 2), STATUS_OK);
    fixture_expect_error(safetensors_writer_append(writer, "n", 1), STATUS_BAD_ARGUMENT, "1 bytes more");
    struct file_map map;
    assert_int_equal(file_map_open(path, &map), STATUS_NOT_FOUND);
    assert_int_equal(safetensors_writer_finish(&writer), STATUS_OK);
    assert_null(writer);
    static const char expected[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"embed.weight\":{\"dtype\":\"BF16\",\"shape\":["
        "2,3],\"data_offsets\":[0,12]},\"s\":{\"dtype\":\"F8_E8M0\",\"shape\":[1],"
        "\"data_offsets\":[12,13]}}";
    assert_int_equal(file_map_open(path, &map), STATUS_OK);
    size_t padded = (strlen(expected) + 7) / 8 * 8;
    assert_int_equal(map.length, 8 + padded + 13);
    assert_int_equal(map.bytes[0], padded);
    assert_memory_equal(map.bytes + 8, expected, strlen(expected));
    assert_memory_equal(map.bytes + 8 + padded, "abcdefghijklm", 13);
    struct safetensors_header header;
    assert_int_equal(safetensors_parse(map.bytes, map.length, path, &header), STATUS_OK);
    assert_int_equal(header.count, 2);
    safetensors_header_deinit(&header);
    file_map_close(&map);
    fixture_remove(directory);
}

static void writer_leaves_no_half_file(void **state) {
    (void)state;
    char directory[FIXTURE_PATH_BYTES];
    fixture_make(directory);
    char path[FIXTURE_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/x.safetensors", directory);
    const struct safetensors_entry tensor = {.name = "a", .dtype = DTYPE_I8, .rank = 1, .shape = {4}};
    struct safetensors_writer *writer;
    assert_int_equal(safetensors_writer_open(path, &tensor, 1, &writer), STATUS_OK);
    assert_int_equal(safetensors_writer_append(writer, "ab", 2), STATUS_OK);
    fixture_expect_error(safetensors_writer_finish(&writer), STATUS_BAD_ARGUMENT, "lacks 2 of its 4 bytes");
    assert_int_equal(safetensors_writer_open(path, &tensor, 1, &writer), STATUS_OK);
    safetensors_writer_abort(&writer);
    safetensors_writer_abort(&writer);
    const struct safetensors_entry twice[] = {tensor, tensor};
    fixture_expect_error(safetensors_writer_open(path, twice, 2, &writer), STATUS_BAD_ARGUMENT,
                         "written twice");
    assert_null(writer);
    fixture_expect_error(safetensors_writer_open("/nonexistent/x", &tensor, 1, &writer), STATUS_IO,
                         "cannot create");
    /* Nothing may be left, or this fails. */
    assert_int_equal(rmdir(directory), 0);
}

static void writer_reports_a_full_disk(void **state) {
    (void)state;
    char directory[FIXTURE_PATH_BYTES];
    fixture_make(directory);
    char path[FIXTURE_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/x.safetensors.partial", directory);
    assert_int_equal(symlink("/dev/full", path), 0);
    snprintf(path, sizeof path, "%s/x.safetensors", directory);
    const struct safetensors_entry tensor = {.name = "a", .dtype = DTYPE_I8, .rank = 1, .shape = {1}};
    struct safetensors_writer *writer;
    assert_int_equal(safetensors_writer_open(path, &tensor, 1, &writer), STATUS_OK);
    assert_int_equal(safetensors_writer_append(writer, "a", 1), STATUS_OK);
    fixture_expect_error(safetensors_writer_finish(&writer), STATUS_IO, "cannot write");
    fixture_remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_file_is_read),
        cmocka_unit_test(wrong_files_are_named),
        cmocka_unit_test(headers_that_are_no_json_are_refused),
        cmocka_unit_test(entries_are_checked),
        cmocka_unit_test(layout_is_checked),
        cmocka_unit_test(real_shards_are_read),
        cmocka_unit_test(writer_gives_the_official_form),
        cmocka_unit_test(writer_leaves_no_half_file),
        cmocka_unit_test(writer_reports_a_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
