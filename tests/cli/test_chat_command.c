/* What lines of a chat mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdint.h>
#include <string.h>

#include "cli/chat_command.h"

static void assert_parsed(const char *text, enum chat_command_kind kind, const char *argument) {
    struct string_buffer line = {0};
    struct chat_command command;
    string_buffer_append_text(&line, text);
    assert_int_equal(chat_command_parse(&line, &command), STATUS_OK);
    assert_int_equal(command.kind, kind);
    assert_int_equal(command.length, strlen(argument));
    assert_memory_equal(command.text, argument, strlen(argument));
    string_buffer_deinit(&line);
}

static void assert_refused(const char *text, const char *message) {
    struct string_buffer line = {0};
    struct chat_command command;
    string_buffer_append_text(&line, text);
    assert_int_equal(chat_command_parse(&line, &command), STATUS_USAGE);
    assert_string_equal(error_last()->message, message);
    string_buffer_deinit(&line);
}

static void test_messages_stay_as_they_are(void **state) {
    (void)state;
    assert_parsed("Hello", CHAT_COMMAND_MESSAGE, "Hello");
    assert_parsed("  two \nlines  ", CHAT_COMMAND_MESSAGE, "  two \nlines  ");
    assert_parsed(" /help", CHAT_COMMAND_MESSAGE, " /help");
    assert_parsed("", CHAT_COMMAND_MESSAGE, "");
    assert_parsed(" \n\t ", CHAT_COMMAND_MESSAGE, "");
    assert_parsed("//etc is a folder", CHAT_COMMAND_MESSAGE, "/etc is a folder");
    assert_parsed("///", CHAT_COMMAND_MESSAGE, "//");
}

static void test_commands(void **state) {
    (void)state;
    assert_parsed("/help", CHAT_COMMAND_HELP, "");
    assert_parsed("/system", CHAT_COMMAND_SYSTEM, "");
    assert_parsed("/system  Be kind.\nBe short. \n", CHAT_COMMAND_SYSTEM, "Be kind.\nBe short.");
    assert_parsed("/system\nBe kind.", CHAT_COMMAND_SYSTEM, "Be kind.");
    assert_parsed("/think", CHAT_COMMAND_THINK, "");
    assert_parsed("/nothink \t", CHAT_COMMAND_NOTHINK, "");
    assert_parsed("/save a file.json ", CHAT_COMMAND_SAVE, "a file.json");
    assert_parsed("/load x", CHAT_COMMAND_LOAD, "x");
    assert_parsed("/stats", CHAT_COMMAND_STATS, "");
    assert_parsed("/clear", CHAT_COMMAND_CLEAR, "");
    assert_parsed("/quit", CHAT_COMMAND_QUIT, "");
}

static void test_mistakes_name_what_was_meant(void **state) {
    (void)state;
    assert_refused("/hlep",
                   "unknown command /hlep; did you mean /help? A message that starts with a slash needs two");
    assert_refused(
        "/nothing at all",
        "unknown command /nothing; did you mean /nothink? A message that starts with a slash needs two");
    assert_refused(
        "/usr/share/dict/words",
        "unknown command /usr/share/dict/words; /help lists them; a message that starts with a slash "
        "needs two");
    assert_refused("/", "unknown command /; /help lists them; a message that starts with a slash needs two");
    assert_refused("/quit now", "/quit takes nothing behind it");
}

static void test_help_has_every_command(void **state) {
    (void)state;
    static const char *const names[] = {"/help ", "/system ", "/think ", "/nothink ", "/save ",
                                        "/load ", "/stats ",  "/clear ", "/quit "};
    struct string_buffer text = {0};
    chat_command_append_help(&text);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_non_null(strstr(string_buffer_text(&text), names[i]));
    }
    string_buffer_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_stay_as_they_are),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_mistakes_name_what_was_meant),
        cmocka_unit_test(test_help_has_every_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
