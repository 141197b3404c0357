/* The program from outside: help, errors, streams and exit codes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

struct outcome {
    int exit_code;
    char output[32768];
    char errors[32768];
};

static void read_stream(const char *command, char *text, size_t text_bytes, int *exit_code) {
    FILE *stream = popen(command, "r");
    assert_non_null(stream);
    size_t length = fread(text, 1, text_bytes - 1, stream);
    text[length] = '\0';
    int status = pclose(stream);
    assert_true(WIFEXITED(status));
    *exit_code = WEXITSTATUS(status);
}

/* Runs the program twice, once for each of its streams. */
static struct outcome *run(const char *arguments) {
    static struct outcome outcome;
    char command[1024];
    int exit_code = -1;
    snprintf(command, sizeof command, "%s %s 2>/dev/null", SLUICE_PROGRAM, arguments);
    read_stream(command, outcome.output, sizeof outcome.output, &outcome.exit_code);
    snprintf(command, sizeof command, "%s %s 2>&1 >/dev/null", SLUICE_PROGRAM, arguments);
    read_stream(command, outcome.errors, sizeof outcome.errors, &exit_code);
    assert_int_equal(exit_code, outcome.exit_code);
    return &outcome;
}

static void assert_fails(const char *arguments, int exit_code, const char *errors) {
    struct outcome *outcome = run(arguments);
    assert_int_equal(outcome->exit_code, exit_code);
    assert_string_equal(outcome->errors, errors);
    assert_string_equal(outcome->output, "");
}

static void test_program_help(void **state) {
    (void)state;
    struct outcome *outcome = run("--help");
    assert_int_equal(outcome->exit_code, 0);
    assert_string_equal(outcome->errors, "");
    static const char *const expected[] = {
        "generate", "chat", "tokenize", "inspect", "synth", "Exit codes: 0 success, 1 failure, 2 wrong use"};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_non_null(strstr(outcome->output, expected[i]));
    }
    /* Without any argument the help is an error message. */
    outcome = run("");
    assert_int_equal(outcome->exit_code, 2);
    assert_string_equal(outcome->output, "");
    assert_non_null(strstr(outcome->errors, "Usage: sluice COMMAND"));
}

static void test_command_help(void **state) {
    (void)state;
    static const char *const spellings[] = {"generate --help", "help generate",
                                            "generate --seed 1 -h --rubbish"};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        struct outcome *outcome = run(spellings[i]);
        assert_int_equal(outcome->exit_code, 0);
        assert_non_null(strstr(outcome->output, "Usage: sluice generate [OPTIONS]\n"));
        assert_non_null(strstr(outcome->output, "--max-tokens N"));
        assert_non_null(strstr(outcome->output, "Exit codes:"));
        assert_null(strstr(outcome->output, "--shard-bytes"));
    }
}

static void test_version(void **state) {
    (void)state;
    struct outcome *outcome = run("--version");
    int major = -1;
    int minor = -1;
    int patch = -1;
    assert_int_equal(outcome->exit_code, 0);
    assert_int_equal(sscanf(outcome->output, "sluice %d.%d.%d", &major, &minor, &patch), 3);
}

static void test_wrong_use(void **state) {
    (void)state;
    assert_fails("genrate", 2, "sluice: unknown command genrate; did you mean generate?\n");
    assert_fails("help genrate", 2, "sluice: unknown command genrate; did you mean generate?\n");
    assert_fails("--vresion", 2, "sluice: unknown option --vresion; `sluice --help` lists the commands\n");
    assert_fails("generate --max-tokns 3", 2,
                 "sluice generate: unknown option --max-tokns; did you mean --max-tokens?\n");
    assert_fails("synth --threads many", 2,
                 "sluice synth: --threads needs a whole number between 0 and 1024, not \"many\"\n");
    assert_fails(
        "synth word", 2,
        "sluice synth: it takes options only, so \"word\" has no meaning here; see sluice synth --help\n");
}

static void test_failure_is_reported_once(void **state) {
    (void)state;
    struct outcome *outcome = run("inspect --model /nowhere");
    assert_int_equal(outcome->exit_code, 1);
    assert_string_equal(outcome->output, "");
    assert_int_equal(strncmp(outcome->errors, "sluice inspect: ", 16), 0);
    assert_non_null(strstr(outcome->errors, "/nowhere"));
    assert_int_equal(strcspn(outcome->errors, "\n"), strlen(outcome->errors) - 1);
    outcome = run("inspect --model /nowhere --log-level debug");
    assert_int_equal(outcome->exit_code, 1);
    assert_non_null(strstr(outcome->errors, "\n  at "));
    assert_non_null(strstr(outcome->errors, "(src/cli/main.c:"));
}

static void test_full_disk_is_a_failure(void **state) {
    (void)state;
    struct outcome outcome;
    read_stream(SLUICE_PROGRAM " --help 2>&1 >/dev/full", outcome.errors, sizeof outcome.errors,
                &outcome.exit_code);
    assert_int_equal(outcome.exit_code, 1);
    assert_string_equal(outcome.errors,
                        "sluice: the output could not be written completely; is the disk full?\n");
}

static void test_kernelcheck(void **state) {
    (void)state;
    struct outcome *outcome = run("kernelcheck rope swiglu --quick --cpu-features reference");
    assert_int_equal(outcome->exit_code, 0);
    assert_string_equal(outcome->errors, "");
    assert_non_null(strstr(outcome->output, "\nrope_reference "));
    assert_non_null(strstr(outcome->output, "\nswiglu_reference "));
    assert_non_null(strstr(outcome->output, " 2 passed, 0 failed, 0 without a case, "));
    assert_null(strstr(outcome->output, "rms_norm"));
    outcome = run("kernelcheck swiglu --quick --cpu-features reference --json");
    assert_int_equal(outcome->exit_code, 0);
    assert_non_null(strstr(outcome->output, "{\"features\":\"reference\",\"seed\":0,\"failed\":0,"));
    outcome = run("kernelcheck swiglu --cpu-features reference --bench");
    assert_int_equal(outcome->exit_code, 0);
    assert_non_null(strstr(outcome->output, "limits: "));
    assert_non_null(strstr(outcome->output, "\nswiglu_reference "));
    assert_fails("kernelcheck ropes", 2,
                 "sluice kernelcheck: there is no operation \"ropes\"; did you mean rope\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_help),
        cmocka_unit_test(test_command_help),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_wrong_use),
        cmocka_unit_test(test_failure_is_reported_once),
        cmocka_unit_test(test_full_disk_is_a_failure),
        cmocka_unit_test(test_kernelcheck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
