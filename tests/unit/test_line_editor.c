/* Lines through a pipe, and typed on a pseudo terminal by a test that waits for the prompt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pty.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/line_editor.h"
#include "support/temporary_directory.h"

enum { TEXT_BYTES = 16384 };

static const char HISTORY[] = "history";

/* With the mark before it: when a line is drawn anew, only the prompt is shown again. */
static const char PROMPT[] = "\x1b[?2004h> ";
static const char MORE[] = "\x1b[?2004h... ";

/* What the editor reads, one "kind:line" after the other, each ended by a NUL, until the end of the input. */
static void report_lines(FILE *out, const char *history_file) {
    struct line_editor_options options = {
        .prompt = "> ", .continuation_prompt = "... ", .history_file = history_file};
    struct line_editor *editor = NULL;
    struct string_buffer line = {0};
    enum line_kind kind = LINE_END;
    enum status status = line_editor_create(&options, &editor);
    while (status == STATUS_OK) {
        status = line_editor_read(editor, &line, &kind);
        if (status != STATUS_OK || kind == LINE_END) {
            break;
        }
        fprintf(out, "%c:%s", kind == LINE_TEXT ? 't' : 'i', string_buffer_text(&line));
        fputc('\0', out);
        fflush(out);
        if (kind == LINE_TEXT) {
            status = line_editor_remember(editor, string_buffer_text(&line));
        }
    }
    fprintf(out, "%s", status == STATUS_OK ? "end" : error_last()->message);
    fputc('\0', out);
    string_buffer_deinit(&line);
    line_editor_destroy(&editor);
    fclose(out);
}

/* A child that reads lines from a terminal. */
struct typist {
    pid_t child;
    int terminal;
    FILE *lines;
    char screen[TEXT_BYTES];
    size_t screen_length;
};

static void start_typing(struct typist *typist, const char *history_file) {
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    *typist = (struct typist){0};
    typist->child = forkpty(&typist->terminal, NULL, NULL, NULL);
    assert_true(typist->child >= 0);
    if (typist->child == 0) {
        close(pipe_ends[0]);
        setenv("TERM", "xterm", 1);
        setenv("HOME", ".", 1);
        report_lines(fdopen(pipe_ends[1], "w"), history_file);
        _exit(0);
    }
    close(pipe_ends[1]);
    typist->lines = fdopen(pipe_ends[0], "r");
}

/* Waits for a text on the screen and forgets the screen up to its end. */
static void await(struct typist *typist, const char *text) {
    char *found = NULL;
    while ((found = strstr(typist->screen, text)) == NULL) {
        char *end = typist->screen + typist->screen_length;
        ssize_t count = read(typist->terminal, end, sizeof typist->screen - typist->screen_length - 1);
        if (count <= 0) {
            fail_msg("the screen never shows \"%s\" after: %s", text, typist->screen);
        }
        typist->screen_length += (size_t)count;
        typist->screen[typist->screen_length] = '\0';
    }
    size_t used = (size_t)(found - typist->screen) + strlen(text);
    typist->screen_length -= used;
    memmove(typist->screen, typist->screen + used, typist->screen_length + 1);
}

static void type(struct typist *typist, const char *keys) {
    assert_int_equal(write(typist->terminal, keys, strlen(keys)), strlen(keys));
}

static void assert_line(struct typist *typist, const char *expected) {
    char *line = NULL;
    size_t capacity = 0;
    assert_true(getdelim(&line, &capacity, '\0', typist->lines) > 0);
    assert_string_equal(line, expected);
    free(line);
}

static void stop_typing(struct typist *typist) {
    int status = -1;
    /* The child waits until its output is read; after that reading fails. */
    while (read(typist->terminal, typist->screen, sizeof typist->screen) > 0) {
    }
    assert_int_equal(waitpid(typist->child, &status, 0), typist->child);
    assert_int_equal(status, 0);
    fclose(typist->lines);
    close(typist->terminal);
}

static void test_keys_edit_the_line(void **state) {
    (void)state;
    struct typist typist;
    start_typing(&typist, NULL);
    await(&typist, PROMPT);
    type(&typist, "hallo\x01\x1b[C\x1b[C\x08"
                  "e\n"); /* Ctrl-A, right twice, backspace */
    assert_line(&typist, "t:hello");
    await(&typist, PROMPT);
    type(&typist, "gr\xc3\xbc\xc3\x9f \xe4\xbd\xa0\xe5\xa5\xbd\x7f!\n"); /* a wide character deleted whole */
    assert_line(&typist, "t:gr\xc3\xbc\xc3\x9f \xe4\xbd\xa0!");
    await(&typist, PROMPT);
    type(&typist, "\n");
    assert_line(&typist, "t:");
    await(&typist, PROMPT);
    type(&typist, "\x04");
    assert_line(&typist, "end");
    stop_typing(&typist);
}

static void test_interrupt_gives_the_line_up(void **state) {
    (void)state;
    struct typist typist;
    start_typing(&typist, NULL);
    await(&typist, PROMPT);
    type(&typist, "wrong\x03");
    assert_line(&typist, "i:");
    await(&typist, PROMPT);
    type(&typist, "a\\\n");
    await(&typist, MORE);
    type(&typist, "b\x03");
    assert_line(&typist, "i:");
    await(&typist, PROMPT);
    type(&typist, "right\n");
    assert_line(&typist, "t:right");
    await(&typist, PROMPT);
    type(&typist, "\x04");
    assert_line(&typist, "end");
    stop_typing(&typist);
}

static void test_several_lines(void **state) {
    (void)state;
    struct typist typist;
    start_typing(&typist, NULL);
    await(&typist, PROMPT);
    type(&typist, "one\\\n");
    await(&typist, MORE);
    type(&typist, "two\n");
    assert_line(&typist, "t:one\ntwo");
    await(&typist, PROMPT);
    type(&typist, "x \x1b[200~first\rsecond \xc3\xa9\nthird\x1b[201~ y\n");
    assert_line(&typist, "t:x first\nsecond \xc3\xa9\nthird y");
    await(&typist, PROMPT);
    type(&typist, "\x04");
    assert_line(&typist, "end");
    stop_typing(&typist);
}

static void test_history_outlives_the_editor(void **state) {
    (void)state;
    struct typist typist;
    start_typing(&typist, HISTORY);
    await(&typist, PROMPT);
    type(&typist, "first\n");
    await(&typist, PROMPT);
    type(&typist, "two\\\n");
    await(&typist, MORE);
    type(&typist, "lines\n");
    await(&typist, PROMPT);
    type(&typist, "\x04");
    assert_line(&typist, "t:first");
    stop_typing(&typist);
    struct stat info;
    assert_int_equal(stat(HISTORY, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);

    start_typing(&typist, HISTORY);
    await(&typist, PROMPT);
    type(&typist, "\x1b[A\n"); /* up */
    assert_line(&typist, "t:two\nlines");
    await(&typist, PROMPT);
    type(&typist, "\x1b[A\x1b[A!\n"); /* the same line again is one entry */
    assert_line(&typist, "t:first!");
    await(&typist, PROMPT);
    type(&typist, "\x04");
    assert_line(&typist, "end");
    stop_typing(&typist);
}

static void test_other_file_is_no_history(void **state) {
    (void)state;
    FILE *file = fopen("letter", "w");
    assert_non_null(file);
    fputs("Dear Rosa\n", file);
    fclose(file);
    struct typist typist;
    start_typing(&typist, "letter");
    assert_line(&typist, "letter is no history of lines; name another file with --history, or none");
    stop_typing(&typist);
    struct stat info;
    assert_int_equal(stat("letter", &info), 0);
    assert_int_equal(info.st_size, 10);
}

/* Runs the editor on a file as its standard input and returns what it reads. */
static void assert_piped(const char *input, size_t length, const char *expected, size_t expected_length) {
    char found[TEXT_BYTES];
    FILE *file = fopen("input", "w+");
    FILE *lines = tmpfile();
    assert_true(file != NULL && lines != NULL);
    assert_int_equal(fwrite(input, 1, length, file), length);
    rewind(file);
    int status = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(fileno(file), STDIN_FILENO);
        report_lines(fdopen(dup(fileno(lines)), "w"), HISTORY);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    rewind(lines);
    assert_int_equal(fread(found, 1, sizeof found, lines), expected_length);
    assert_memory_equal(found, expected, expected_length);
    fclose(lines);
    fclose(file);
}

#define ASSERT_PIPED(input, expected) assert_piped(input, sizeof(input) - 1, expected, sizeof(expected))

static void test_piped_lines(void **state) {
    (void)state;
    ASSERT_PIPED("", "end");
    ASSERT_PIPED("one\ntwo", "t:one\0t:two\0end");
    ASSERT_PIPED("\n\r\nx\r\n", "t:\0t:\0t:x\0end");
    ASSERT_PIPED("a\\\nb\\\r\n\\\nc\nd\n", "t:a\nb\n\nc\0t:d\0end");
    ASSERT_PIPED("a\\\n", "t:a\0end");
    ASSERT_PIPED("a\\", "t:a\0end");
    assert_int_equal(access(HISTORY, F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keys_edit_the_line, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_interrupt_gives_the_line_up, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_several_lines, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_history_outlives_the_editor, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_other_file_is_no_history, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_piped_lines, enter_temporary_directory,
                                        leave_temporary_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
