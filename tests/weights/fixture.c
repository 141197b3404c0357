/* Every function asserts: a fixture that cannot be made fails the test that asked for it. */
#include "weights/fixture.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file_map.h"

void fixture_make(char directory[FIXTURE_PATH_BYTES]) {
    snprintf(directory, FIXTURE_PATH_BYTES, "/tmp/sluice-test-XXXXXX");
    assert_non_null(mkdtemp(directory));
}

void fixture_remove(const char *directory) {
    DIR *stream = opendir(directory);
    assert_non_null(stream);
    for (struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        char path[2 * FIXTURE_PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        struct stat info;
        assert_int_equal(lstat(path, &info), 0);
        assert_int_equal(S_ISDIR(info.st_mode) ? rmdir(path) : unlink(path), 0);
    }
    closedir(stream);
    assert_int_equal(rmdir(directory), 0);
}

void fixture_write(const char *directory, const char *name, const void *bytes, size_t length) {
    char path[2 * FIXTURE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(length == 0 ? 0 : fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

void fixture_copy(const char *directory, const char *source_path, const char *name) {
    struct file_map map;
    assert_int_equal(file_map_open(source_path, &map), STATUS_OK);
    fixture_write(directory, name, map.bytes, map.length);
    file_map_close(&map);
}

unsigned char *fixture_build(const char *header, size_t data_bytes, size_t *length) {
    size_t header_bytes = strlen(header);
    *length = 8 + header_bytes + data_bytes;
    unsigned char *bytes = calloc(1, *length);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)((uint64_t)header_bytes >> (8 * i));
    }
    memcpy(bytes + 8, header, header_bytes);
    return bytes;
}

void fixture_write_tensors(const char *directory, const char *name, const char *header, size_t data_bytes) {
    size_t length;
    unsigned char *bytes = fixture_build(header, data_bytes, &length);
    fixture_write(directory, name, bytes, length);
    free(bytes);
}

void fixture_expect_error(enum status actual, enum status expected, const char *fragment) {
    const char *message = error_last()->message;
    if (actual != expected || strstr(message, fragment) == NULL) {
        fail_msg("status %s, message '%s'; expected %s and '%s'", status_name(actual),
                 actual == STATUS_OK ? "" : message, status_name(expected), fragment);
    }
}

uint64_t fixture_fnv1a(const void *bytes, size_t length) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001B3u;
    }
    return hash;
}
