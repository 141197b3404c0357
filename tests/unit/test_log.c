/* Log lines: form, level, length. stderr is a pipe during the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

static char captured[1 << 20]; /* more than a pipe or socket holds */

/* Runs `act` with stderr caught in `captured`. */
static void capture(void (*act)(void)) {
    int ends[2];
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    act();
    dup2(saved, STDERR_FILENO);
    close(saved);
    size_t length = 0;
    ssize_t got = 0;
    while ((got = read(ends[0], captured + length, sizeof captured - 1 - length)) > 0) {
        length += (size_t)got;
    }
    captured[length] = '\0';
    close(ends[0]);
}

static void write_all_levels(void) {
    log_write(LOG_ERROR, "weights", "file %d is bad", 7);
    log_write(LOG_WARNING, "engine", "slow");
    log_write(LOG_INFO, "engine", "loaded");
    log_write(LOG_DEBUG, "engine", "detail");
}

static void test_levels(void **state) {
    (void)state;
    capture(write_all_levels);
    assert_string_equal(captured, "error weights: file 7 is bad\nwarning engine: slow\n");
    log_set_level(LOG_INFO);
    capture(write_all_levels);
    assert_string_equal(captured,
                        "error weights: file 7 is bad\nwarning engine: slow\ninfo engine: loaded\n");
    log_set_level(LOG_ERROR);
    capture(write_all_levels);
    assert_string_equal(captured, "error weights: file 7 is bad\n");
    log_set_level(LOG_WARNING);
}

static void write_long_line(void) {
    char text[10000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    log_write(LOG_ERROR, "text", "%s", text);
}

static void test_long_line_is_cut_and_ended(void **state) {
    (void)state;
    capture(write_long_line);
    size_t length = strlen(captured);
    assert_true(length > 1000 && length < 10000);
    assert_int_equal(captured[length - 1], '\n');
    assert_int_equal(captured[length - 2], 'x');
}

/* stderr becomes `descriptor`, which is closed; returns what it was. */
static int replace_stderr(int descriptor) {
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_int_equal(dup2(descriptor, STDERR_FILENO), STDERR_FILENO);
    close(descriptor);
    return saved;
}

static void restore_stderr(int saved) {
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
    log_never_wait();
}

/* Takes all there is without waiting for more. */
static void read_all(int descriptor) {
    size_t length = 0;
    ssize_t got = 0;
    while ((got = read(descriptor, captured + length, sizeof captured - 1 - length)) > 0) {
        length += (size_t)got;
    }
    captured[length] = '\0';
}

/* Writes until lines are lost, reads them, and what comes next says how many are missing. */
static void check_that_lines_are_lost(int reader) {
    uint64_t before = log_lost_line_count();
    int written = 0;
    while (log_lost_line_count() < before + 2) {
        log_write(LOG_ERROR, "unit", "line %d", written++);
        assert_true(written < 1000000);
    }
    uint64_t lost = log_lost_line_count() - before;
    char last[64];
    snprintf(last, sizeof last, "error unit: line %d\n", written - (int)lost - 1);
    read_all(reader);
    size_t length = strlen(captured);
    assert_true(length > strlen(last));
    assert_string_equal(captured + length - strlen(last), last);
    log_say("said");
    read_all(reader);
    char expected[128];
    snprintf(expected, sizeof expected,
             "warning log: %d lines were lost, because nobody read stderr in time\nsaid\n", (int)lost);
    assert_string_equal(captured, expected);
}

static void test_full_pipe_loses_lines(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    int saved = replace_stderr(ends[1]);
    log_never_wait();
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    assert_false(flags & O_NONBLOCK); /* others have it too */
    check_that_lines_are_lost(ends[0]);
    restore_stderr(saved);
    close(ends[0]);
}

static void test_full_socket_loses_lines(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    int saved = replace_stderr(ends[1]);
    log_never_wait();
    check_that_lines_are_lost(ends[0]);
    restore_stderr(saved);
    close(ends[0]);
}

/* Where stdout and stderr are one file, lines of both stand one behind the other. */
static void test_file_is_shared(void **state) {
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    int other = dup(fileno(file));
    int saved = replace_stderr(dup(fileno(file)));
    log_never_wait();
    assert_int_equal(write(other, "one\n", 4), 4);
    log_say("%s", "two");
    assert_int_equal(write(other, "three\n", 6), 6);
    restore_stderr(saved);
    close(other);
    assert_int_equal(pread(fileno(file), captured, sizeof captured, 0), 14);
    assert_memory_equal(captured, "one\ntwo\nthree\n", 14);
    fclose(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_long_line_is_cut_and_ended),
        cmocka_unit_test(test_full_pipe_loses_lines),
        cmocka_unit_test(test_full_socket_loses_lines),
        cmocka_unit_test(test_file_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
