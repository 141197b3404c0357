/* Log lines: form, level, length. stderr is a pipe during the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static char captured[16384];

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_long_line_is_cut_and_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
