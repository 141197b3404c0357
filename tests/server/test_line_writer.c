/* Lines to readers that are slow, stopped or gone: nobody waits, and what is read is whole and in order. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "server/line_writer.h"

enum { LINES = 3000, ROOM_BYTES = 8192, PIPE_BYTES = 4096, LINE_BYTES_MAX = 128, READ_BYTES_MAX = 1 << 20 };

static struct line_writer *create(int descriptor) {
    const struct line_writer_options options = {
        .descriptor = descriptor, .room_bytes = ROOM_BYTES, .advice = "lines of this test are lost"};
    struct line_writer *writer = NULL;
    assert_int_equal(line_writer_create(&options, &writer), STATUS_OK);
    return writer;
}

/* Line i says so and has a length of its own. */
static size_t make_line(int i, char line[LINE_BYTES_MAX]) {
    return (size_t)snprintf(line, LINE_BYTES_MAX, "%d %.*s\n", i, i % 60,
                            "............................................................");
}

static void put_lines(struct line_writer *writer, int first, int count) {
    char line[LINE_BYTES_MAX];
    for (int i = first; i < first + count; i++) {
        line_writer_put(writer, line, make_line(i, line));
    }
}

/* Reads to the end; returns how many lines came, which rise and are as they were made. */
static uint64_t read_lines(int descriptor) {
    static char bytes[READ_BYTES_MAX];
    size_t length = 0;
    ssize_t count;
    uint64_t lines = 0;
    int last = -1;
    while ((count = read(descriptor, bytes + length, sizeof bytes - 1 - length)) > 0) {
        length += (size_t)count;
    }
    bytes[length] = '\0';
    for (const char *at = bytes; *at != '\0'; lines++) {
        char expected[LINE_BYTES_MAX];
        int number = atoi(at);
        size_t expected_length = make_line(number, expected);
        assert_true(number > last);
        assert_memory_equal(at, expected, expected_length);
        at += expected_length;
        last = number;
    }
    return lines;
}

static void test_a_reader_that_stopped(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) >= 0);
    struct line_writer *writer = create(ends[1]);
    double began = clock_seconds();
    put_lines(writer, 0, LINES);
    uint64_t dropped = line_writer_dropped_count(writer);
    assert_true(clock_seconds() - began < 5.0);
    /* All that there is room for is kept. */
    assert_in_range(dropped, LINES / 2, LINES - ROOM_BYTES / LINE_BYTES_MAX);
    assert_true((fcntl(ends[1], F_GETFL) & O_NONBLOCK) == 0);
    began = clock_seconds();
    line_writer_destroy(&writer);
    assert_null(writer);
    assert_true(clock_seconds() - began < 10.0);
    close(ends[1]);
    assert_in_range(read_lines(ends[0]), 1, LINES - dropped);
    close(ends[0]);
}

struct late_reader {
    int descriptor;
    uint64_t line_count;
};

static void *read_late(void *context) {
    struct late_reader *reader = context;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    reader->line_count = read_lines(reader->descriptor);
    return NULL;
}

/* Once somebody reads, what waited comes: what was dropped and what was read is all that was written. */
static void test_a_reader_that_comes_late(void **state) {
    (void)state;
    int ends[2];
    pthread_t thread;
    assert_int_equal(pipe(ends), 0);
    struct late_reader reader = {.descriptor = ends[0]};
    struct line_writer *writer = create(ends[1]);
    put_lines(writer, 0, LINES);
    uint64_t dropped = line_writer_dropped_count(writer);
    assert_true(dropped > 0);
    assert_int_equal(pthread_create(&thread, NULL, read_late, &reader), 0);
    line_writer_destroy(&writer);
    close(ends[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(reader.line_count + dropped, LINES);
    close(ends[0]);
}

static void test_a_file(void **state) {
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    struct line_writer *writer = create(fileno(file));
    for (int i = 0; i < LINES; i += 50) {
        put_lines(writer, i, 50);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    uint64_t dropped = line_writer_dropped_count(writer);
    line_writer_destroy(&writer);
    assert_int_equal(lseek(fileno(file), 0, SEEK_SET), 0);
    assert_int_equal(read_lines(fileno(file)) + dropped, LINES);
    fclose(file);
}

static void test_a_reader_that_is_gone(void **state) {
    (void)state;
    int ends[2];
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    struct line_writer *writer = create(ends[1]);
    put_lines(writer, 0, 10);
    double until = clock_seconds() + 10.0;
    while (line_writer_dropped_count(writer) < 10 && clock_seconds() < until) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    put_lines(writer, 10, 10);
    assert_int_equal(line_writer_dropped_count(writer), 20);
    line_writer_destroy(&writer);
    close(ends[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_reader_that_stopped),
        cmocka_unit_test(test_a_reader_that_comes_late),
        cmocka_unit_test(test_a_file),
        cmocka_unit_test(test_a_reader_that_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
