/* What the disk's prefix cache knows a model by: any change that is written into its files is another model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/model_digest.h"
#include "support/checkpoint_edit.h"
#include "support/model_fixture.h"
#include "weights/checkpoint.h"
#include "weights/fixture.h"

struct digest {
    uint8_t bytes[HASH_SHA256_BYTES];
};

static struct digest digest_of(const char *directory) {
    static const char config_text[] = "{\"layers\": 3}";
    struct digest digest;
    struct checkpoint *checkpoint;
    struct json *config;
    EXPECT_OK(checkpoint_open(directory, &checkpoint));
    EXPECT_OK(json_parse(config_text, sizeof config_text - 1, "the test", &config));
    EXPECT_OK(model_digest_make(config, checkpoint, digest.bytes));
    json_free(&config);
    checkpoint_close(&checkpoint);
    return digest;
}

static bool is_same(const struct digest *a, const struct digest *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

/* Where the middle of the checkpoint's largest tensor lies in its file. */
static off_t middle_of_largest(const char *directory, char path[FIXTURE_PATH_BYTES]) {
    struct checkpoint *checkpoint;
    EXPECT_OK(checkpoint_open(directory, &checkpoint));
    const struct checkpoint_tensor *largest = &checkpoint->tensors[0];
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        largest = checkpoint->tensors[i].bytes > largest->bytes ? &checkpoint->tensors[i] : largest;
    }
    snprintf(path, FIXTURE_PATH_BYTES, "%.200s/%.200s", directory,
             checkpoint->shards[largest->shard].file_name);
    off_t middle = (off_t)(largest->offset + largest->bytes / 2);
    /* A tensor whose middle is not looked at. */
    assert_true(largest->bytes > 65536);
    checkpoint_close(&checkpoint);
    return middle;
}

static void flip_byte(const char *path, off_t offset) {
    unsigned char byte;
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    assert_true(descriptor >= 0);
    assert_int_equal(pread(descriptor, &byte, 1, offset), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(descriptor, &byte, 1, offset), 1);
    close(descriptor);
}

static void set_time(const char *path, struct timespec time) {
    const struct timespec times[2] = {time, time};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* One byte in the middle of a tensor, size and header as before: its file has another time. */
static void test_a_byte_in_the_middle(void **state) {
    (void)state;
    char directory[FIXTURE_PATH_BYTES];
    char path[FIXTURE_PATH_BYTES];
    const struct timespec past = {.tv_sec = 1700000000, .tv_nsec = 5};
    const struct timespec later = {.tv_sec = 1700000000, .tv_nsec = 6};
    fixture_make(directory);
    checkpoint_copy_edited(SLUICE_SOURCE_DIR "/models/mini-v4", directory, &(struct checkpoint_edit){0});
    off_t middle = middle_of_largest(directory, path);
    /* Long ago: a clock tick need not lie between writing the copy and changing it. */
    set_time(path, past);
    struct digest first = digest_of(directory);
    struct digest again = digest_of(directory);
    assert_true(is_same(&first, &again));
    flip_byte(path, middle);
    struct digest changed = digest_of(directory);
    assert_false(is_same(&first, &changed));
    /* As it was, with its time: the same model. A nanosecond later: nobody knows. */
    flip_byte(path, middle);
    set_time(path, past);
    struct digest restored = digest_of(directory);
    assert_true(is_same(&first, &restored));
    set_time(path, later);
    struct digest touched = digest_of(directory);
    assert_false(is_same(&first, &touched));
    fixture_remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_byte_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
