/* File maps: whole files, empty files, and everything that is no file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_map.h"
#include "support/temporary_directory.h"

static void write_file(const char *path, const char *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void test_maps_the_whole_file(void **state) {
    (void)state;
    write_file("data", "one\0two", 7);
    struct file_map map;
    assert_int_equal(file_map_open("data", &map), STATUS_OK);
    assert_int_equal(map.length, 7);
    assert_memory_equal(map.bytes, "one\0two", 7);
    /* The map outlives the name. */
    assert_int_equal(remove("data"), 0);
    assert_int_equal(map.bytes[4], 't');
    file_map_close(&map);
    assert_null(map.bytes);
    assert_int_equal(map.length, 0);
    file_map_close(&map);
}

static void test_empty_file_is_an_empty_map(void **state) {
    (void)state;
    write_file("empty", "", 0);
    struct file_map map = {.length = 99};
    assert_int_equal(file_map_open("empty", &map), STATUS_OK);
    assert_null(map.bytes);
    assert_int_equal(map.length, 0);
    file_map_close(&map);
}

static void test_what_is_no_file(void **state) {
    (void)state;
    struct file_map map;
    assert_int_equal(file_map_open("missing", &map), STATUS_NOT_FOUND);
    assert_string_equal(error_last()->message, "cannot open missing: No such file or directory");
    assert_int_equal(file_map_open(".", &map), STATUS_IO);
    assert_string_equal(error_last()->message, ". is a directory, a file is needed");
    assert_int_equal(file_map_open("/dev/null", &map), STATUS_IO);
    /* A FIFO without a writer must be refused, not waited for. */
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(file_map_open("pipe", &map), STATUS_IO);
    assert_string_equal(error_last()->message, "pipe is not a regular file and cannot be mapped");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maps_the_whole_file),
        cmocka_unit_test(test_empty_file_is_an_empty_map),
        cmocka_unit_test(test_what_is_no_file),
    };
    return cmocka_run_group_tests(tests, enter_temporary_directory, leave_temporary_directory);
}
