/* The error record: what it says, where from, and that threads have their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "base/status.h"

static enum status fail_deep(int value) {
    CHECK(value != 3, STATUS_BAD_SHAPE, "value %d is not allowed", value);
    return STATUS_OK;
}

static enum status fail_middle(int value) {
    TRY(fail_deep(value));
    return STATUS_OK;
}

static enum status fail_with_cleanup(int value, int *cleaned) {
    enum status status = STATUS_OK;
    TRY_GOTO(fail_middle(value));
    return STATUS_OK;
fail:
    *cleaned += 1;
    return status;
}

static void test_success_leaves_no_error(void **state) {
    (void)state;
    int cleaned = 0;
    assert_int_equal(fail_with_cleanup(1, &cleaned), STATUS_OK);
    assert_int_equal(cleaned, 0);
}

static void test_record_has_message_and_trace(void **state) {
    (void)state;
    int cleaned = 0;
    assert_int_equal(fail_with_cleanup(3, &cleaned), STATUS_BAD_SHAPE);
    assert_int_equal(cleaned, 1);
    const struct error_record *error = error_last();
    assert_int_equal(error->status, STATUS_BAD_SHAPE);
    assert_string_equal(error->message, "value 3 is not allowed");
    assert_string_equal(sluice_last_error(), "value 3 is not allowed");
    assert_int_equal(error->frame_count, 3);
    assert_string_equal(error->frames[0].function, "fail_deep");
    assert_string_equal(error->frames[1].function, "fail_middle");
    assert_string_equal(error->frames[2].function, "fail_with_cleanup");
    assert_string_equal(error->frames[0].file, "tests/unit/test_status.c");
    assert_true(error->frames[0].line > 0);
}

static enum status fail_recursively(int depth) {
    CHECK(depth > 0, STATUS_INTERNAL, "bottom");
    TRY(fail_recursively(depth - 1));
    return STATUS_OK;
}

static void test_deep_trace_keeps_the_innermost_frames(void **state) {
    (void)state;
    assert_int_equal(fail_recursively(100), STATUS_INTERNAL);
    assert_int_equal(error_last()->frame_count, ERROR_FRAMES_MAX);
    assert_string_equal(error_last()->message, "bottom");
}

static enum status raise_text(const char *text) {
    FAIL(STATUS_IO, "%s", text);
}

static void test_long_message_is_cut_at_a_character(void **state) {
    (void)state;
    /* "a" and then two-byte characters: the limit falls into the middle of one. */
    static char text[ERROR_MESSAGE_BYTES + 100];
    memset(text, 0, sizeof text);
    text[0] = 'a';
    for (size_t i = 1; i + 1 < sizeof text - 1; i += 2) {
        memcpy(text + i, "\xc3\xa4", 2);
    }
    assert_int_equal(raise_text(text), STATUS_IO);
    assert_int_equal(strlen(error_last()->message), ERROR_MESSAGE_BYTES - 1);
    /* One byte more in front moves the cut into a character, which must then go. */
    memmove(text + 1, text, sizeof text - 2);
    assert_int_equal(raise_text(text), STATUS_IO);
    assert_int_equal(strlen(error_last()->message), ERROR_MESSAGE_BYTES - 2);
    assert_memory_equal(error_last()->message + ERROR_MESSAGE_BYTES - 4, "\xc3\xa4", 3);
}

static void test_message_may_quote_the_last_one(void **state) {
    (void)state;
    assert_int_equal(raise_text("inner"), STATUS_IO);
    assert_int_equal(error_raise(STATUS_IO, ERROR_HERE, "outer: %s", error_last()->message), STATUS_IO);
    assert_string_equal(error_last()->message, "outer: inner");
}

static void *fail_in_thread(void *out) {
    raise_text("of the other thread");
    *(int *)out = strcmp(error_last()->message, "of the other thread");
    return NULL;
}

static void test_threads_have_their_own_record(void **state) {
    (void)state;
    raise_text("of this thread");
    pthread_t thread;
    int difference = -1;
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, &difference), 0);
    pthread_join(thread, NULL);
    assert_int_equal(difference, 0);
    assert_string_equal(error_last()->message, "of this thread");
}

static void test_names_and_values_are_stable(void **state) {
    (void)state;
    assert_int_equal(STATUS_OK, 0);
    assert_int_equal(STATUS_USAGE, 1);
    assert_int_equal(STATUS_BAD_CONFIG, 6);
    assert_int_equal(STATUS_INTERNAL, 14);
    assert_string_equal(status_name(STATUS_CONTEXT_FULL), "CONTEXT_FULL");
    assert_string_equal(sluice_status_text(SLUICE_NOT_FOUND), "a file or name was not found");
    assert_string_equal(status_name((enum status)999), "UNKNOWN");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_success_leaves_no_error),
        cmocka_unit_test(test_record_has_message_and_trace),
        cmocka_unit_test(test_deep_trace_keeps_the_innermost_frames),
        cmocka_unit_test(test_long_message_is_cut_at_a_character),
        cmocka_unit_test(test_message_may_quote_the_last_one),
        cmocka_unit_test(test_threads_have_their_own_record),
        cmocka_unit_test(test_names_and_values_are_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
