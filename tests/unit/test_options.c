/* Options: every type and spelling, every mistake and its sentence, and the help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/status.h"

struct values {
    bool quiet;
    bool colour, colour_given;
    int64_t max_tokens;
    bool max_tokens_given;
    double ratio;
    const char *model;
    int mode;
    struct option_list stop;
    double scale;
    int64_t other;
};

enum { MAIN = 1, OTHER = 2 };

static const struct option_row word_rows[] = {
    {"max-tokens", NULL, OPTION_INT, MAIN, "auto", 0, 1000, "auto", "N", "Stop then.",
     offsetof(struct values, max_tokens), SIZE_MAX},
};
static const struct option_group word_group = {"Words", word_rows, 1};
static const struct option_group *const word_groups[] = {&word_group};
static const struct option_table word_table = {word_groups, 1};

static const struct option_row rows[] = {
    {"quiet", "q", OPTION_FLAG, MAIN, NULL, 0, 0, NULL, NULL, "Say less.", offsetof(struct values, quiet),
     SIZE_MAX},
    {"colour", NULL, OPTION_FLAG, MAIN, "true", 0, 0, NULL, NULL, "Use colours.",
     offsetof(struct values, colour), offsetof(struct values, colour_given)},
    {"max-tokens", "limit", OPTION_INT, MAIN, "16", -1, 1000, NULL, "N", "Stop then.",
     offsetof(struct values, max_tokens), offsetof(struct values, max_tokens_given)},
    {"ratio", NULL, OPTION_REAL, MAIN, "0.5", 0, 1, NULL, "X", "A share.", offsetof(struct values, ratio),
     SIZE_MAX},
    {"model", "m", OPTION_TEXT, MAIN, NULL, 0, 0, NULL, "DIR", "The model.", offsetof(struct values, model),
     SIZE_MAX},
    {"mode", NULL, OPTION_CHOICE, MAIN, "fast", 0, 0, "slow|fast|fastest", NULL, "How.",
     offsetof(struct values, mode), SIZE_MAX},
    {"stop", NULL, OPTION_LIST, MAIN, NULL, 0, 0, NULL, "TEXT", "Where.", offsetof(struct values, stop),
     SIZE_MAX},
    {"scale", NULL, OPTION_REAL, MAIN, NULL, 0, 0, NULL, "X",
     "A sentence that is so long that it cannot stand on one line of the help and must be broken.",
     offsetof(struct values, scale), SIZE_MAX},
    {"other", NULL, OPTION_INT, OTHER, "3", 0, 0, NULL, "N", "Of the other command.",
     offsetof(struct values, other), SIZE_MAX},
};
/* Two groups, so that rows are found behind the first. */
static const struct option_group first_group = {"First", rows, 3};
static const struct option_group second_group = {"Second", rows + 3, sizeof rows / sizeof rows[0] - 3};
static const struct option_group *const groups[] = {&first_group, &second_group};
static const struct option_table table = {groups, 2};
static const struct option_command command = {MAIN, "work", "WORD...", "Does the work.",
                                              "Example:\n  work hard"};

struct outcome {
    struct values values;
    int word_count;
    int wants_help;
    char *words[16];
    enum status status;
};

/* Parses a command line given as one string; the arguments are separated by '|' and may be empty. */
static struct outcome parse(const char *line) {
    static char storage[4096];
    struct outcome outcome = {0};
    memset(&outcome.values, 0x55, sizeof outcome.values);
    snprintf(storage, sizeof storage, "%s", line);
    int argc = 0;
    for (char *at = storage; line[0] != '\0' && at != NULL;) {
        char *bar = strchr(at, '|');
        if (bar != NULL) {
            *bar++ = '\0';
        }
        outcome.words[argc++] = at;
        at = bar;
    }
    outcome.status = options_parse(&table, &command, NULL, argc, outcome.words, &outcome.values,
                                   &outcome.word_count, &outcome.wants_help);
    return outcome;
}

static void assert_refused(const char *line, const char *message) {
    struct outcome outcome = parse(line);
    assert_int_equal(outcome.status, STATUS_USAGE);
    assert_string_equal(error_last()->message, message);
}

static void test_defaults(void **state) {
    (void)state;
    struct outcome outcome = parse("");
    assert_int_equal(outcome.status, STATUS_OK);
    assert_false(outcome.values.quiet);
    assert_true(outcome.values.colour);
    assert_false(outcome.values.colour_given);
    assert_int_equal(outcome.values.max_tokens, 16);
    assert_false(outcome.values.max_tokens_given);
    assert_true(outcome.values.ratio == 0.5);
    assert_null(outcome.values.model);
    assert_int_equal(outcome.values.mode, 1);
    assert_int_equal(outcome.values.stop.count, 0);
    assert_int_equal(outcome.word_count, 0);
    assert_int_equal(outcome.wants_help, 0);
    /* The other command's field is not touched. */
    assert_int_equal(outcome.values.other, 0x5555555555555555);
}

static void test_spellings(void **state) {
    (void)state;
    struct outcome outcome =
        parse("one|--quiet|--no-colour|--max-tokens|-1|--ratio=1e-1|-m|a=b|--mode|fastest|two|"
              "--stop=|--stop|x|-");
    assert_int_equal(outcome.status, STATUS_OK);
    assert_true(outcome.values.quiet);
    assert_false(outcome.values.colour);
    assert_true(outcome.values.colour_given);
    assert_int_equal(outcome.values.max_tokens, -1);
    assert_true(outcome.values.max_tokens_given);
    assert_true(outcome.values.ratio == 0.1);
    assert_string_equal(outcome.values.model, "a=b");
    assert_int_equal(outcome.values.mode, 2);
    assert_int_equal(outcome.values.stop.count, 2);
    assert_string_equal(outcome.values.stop.items[0], "");
    assert_string_equal(outcome.values.stop.items[1], "x");
    assert_int_equal(outcome.word_count, 3);
    assert_string_equal(outcome.words[0], "one");
    assert_string_equal(outcome.words[1], "two");
    assert_string_equal(outcome.words[2], "-");
}

/* A number may have a word that stands for it, which bounds do not apply to. */
static void test_numbers_with_a_word(void **state) {
    (void)state;
    static const char *const texts[] = {"--max-tokens=7", "--max-tokens=auto", "--max-tokens=aut",
                                        "--max-tokens=-1"};
    static const int64_t expected[] = {7, OPTION_INT_WORD};
    for (int i = 0; i < 4; i++) {
        struct values values;
        char text[32];
        char *words[] = {text};
        int word_count, wants_help;
        snprintf(text, sizeof text, "%s", texts[i]);
        enum status status =
            options_parse(&word_table, &command, NULL, 1, words, &values, &word_count, &wants_help);
        assert_int_equal(status, i < 2 ? STATUS_OK : STATUS_USAGE);
        if (i < 2) {
            assert_int_equal(values.max_tokens, expected[i]);
        } else {
            assert_non_null(strstr(error_last()->message, "a whole number between 0 and 1000, or auto, not"));
        }
    }
}

static void test_aliases_and_last_value_wins(void **state) {
    (void)state;
    struct outcome outcome = parse("-q|--limit=5|--max-tokens|7|--quiet|--no-quiet|--model=x|--model=");
    assert_int_equal(outcome.status, STATUS_OK);
    assert_false(outcome.values.quiet);
    assert_int_equal(outcome.values.max_tokens, 7);
    assert_string_equal(outcome.values.model, "");
}

static void test_two_dashes_end_the_options(void **state) {
    (void)state;
    struct outcome outcome = parse("-q|--|--model|-x|--|--help");
    assert_int_equal(outcome.status, STATUS_OK);
    assert_int_equal(outcome.word_count, 4);
    assert_string_equal(outcome.words[0], "--model");
    assert_string_equal(outcome.words[2], "--");
    assert_int_equal(outcome.wants_help, 0);
    assert_null(outcome.values.model);
}

static void test_help_stops(void **state) {
    (void)state;
    struct outcome outcome = parse("--help|--max-tokens|rubbish");
    assert_int_equal(outcome.status, STATUS_OK);
    assert_int_equal(outcome.wants_help, 1);
    assert_int_equal(parse("-h").wants_help, 1);
}

static void test_unknown_options(void **state) {
    (void)state;
    assert_refused("--max-tokns|3", "unknown option --max-tokns; did you mean --max-tokens?");
    assert_refused("--max_tokens=3", "unknown option --max_tokens; did you mean --max-tokens?");
    assert_refused("--max", "unknown option --max; did you mean --max-tokens?");
    assert_refused("--limti=3", "unknown option --limti; did you mean --limit?");
    assert_refused("--no-color", "unknown option --no-color; did you mean --no-colour?");
    assert_refused("--hlep", "unknown option --hlep; did you mean --help?");
    assert_refused("--wholly-different", "unknown option --wholly-different; --help lists the options");
    assert_refused("-x", "unknown option -x; --help lists the options");
    assert_refused("--m|x", "unknown option --m; --help lists the options");
    assert_refused("-model|x", "unknown option -model; did you mean --model?");
    assert_refused("--no-", "unknown option --no-; --help lists the options");
    assert_refused("--=3", "unknown option --; --help lists the options");
    assert_refused("--other|3", "--other is not an option of work; see work --help");
}

static void test_wrong_values(void **state) {
    (void)state;
    static const char *const no_integers[] = {
        "", " 1", "1 ", "3x", "0x10", "1.5", "1e3", "1001", "--2", "-2", "99999999999999999999"};
    for (size_t i = 0; i < sizeof no_integers / sizeof no_integers[0]; i++) {
        char line[64];
        char message[160];
        snprintf(line, sizeof line, "--max-tokens=%s", no_integers[i]);
        snprintf(message, sizeof message, "--max-tokens needs a whole number between -1 and 1000, not \"%s\"",
                 no_integers[i]);
        assert_refused(line, message);
    }
    static const char *const no_reals[] = {"",     "nan",  "inf",  "0x1p-1", " 0.5",
                                           "0.5 ", "1.01", "-0.1", "1e999",  "."};
    for (size_t i = 0; i < sizeof no_reals / sizeof no_reals[0]; i++) {
        char line[64];
        char message[160];
        snprintf(line, sizeof line, "--ratio=%s", no_reals[i]);
        snprintf(message, sizeof message, "--ratio needs a number between 0 and 1, not \"%s\"", no_reals[i]);
        assert_refused(line, message);
    }
    assert_refused("--scale=1e999", "--scale needs a number, not \"1e999\"");
    assert_true(parse("--scale=-1e9").values.scale == -1e9);
    assert_refused("--mode|fas", "--mode must be one of slow|fast|fastest, not \"fas\"");
    assert_refused("--mode=", "--mode must be one of slow|fast|fastest, not \"\"");
}

static void test_missing_and_needless_values(void **state) {
    (void)state;
    assert_refused("--model", "--model needs DIR after it");
    assert_refused("-m", "--model needs DIR after it");
    assert_refused("--model|--quiet",
                   "--model needs DIR, but the option --quiet follows; if that is the value, "
                   "write --model=--quiet");
    assert_int_equal(parse("--model=--quiet").status, STATUS_OK);
    assert_int_equal(parse("--model|-").status, STATUS_OK);
    assert_refused("--quiet=yes", "--quiet takes no value; write --quiet or --no-quiet");
    assert_refused("--no-model", "--model takes a value, so there is no --no-model");
}

static void test_too_long_a_list(void **state) {
    (void)state;
    static char arguments[OPTION_LIST_MAX + 1][16];
    char *argv[OPTION_LIST_MAX + 1];
    for (int i = 0; i <= OPTION_LIST_MAX; i++) {
        snprintf(arguments[i], sizeof arguments[i], "--stop=%d", i);
        argv[i] = arguments[i];
    }
    struct values values;
    int word_count = 0;
    int wants_help = 0;
    assert_int_equal(
        options_parse(&table, &command, NULL, OPTION_LIST_MAX, argv, &values, &word_count, &wants_help),
        STATUS_OK);
    assert_int_equal(values.stop.count, OPTION_LIST_MAX);
    assert_int_equal(
        options_parse(&table, &command, NULL, OPTION_LIST_MAX + 1, argv, &values, &word_count, &wants_help),
        STATUS_USAGE);
}

static void test_help_text(void **state) {
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    options_print_help(&table, &command, "tool", out);
    fclose(out);
    assert_non_null(strstr(text, "Usage: tool work [OPTIONS] WORD...\n\nDoes the work.\n"));
    assert_non_null(strstr(text, "  -q, --quiet                     Say less.\n"));
    assert_non_null(strstr(text, "  --[no-]colour                   Use colours.\n"));
    assert_non_null(strstr(text, "  --max-tokens, --limit N         Stop then. A number between -1 and 1000. "
                                 "Default: 16.\n"));
    assert_non_null(strstr(text, "  --mode slow|fast|fastest        How. Default: fast.\n"));
    assert_non_null(strstr(text, "Example:\n  work hard\n"));
    assert_null(strstr(text, "--other"));
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        assert_true(strcspn(line, "\n") <= 100);
    }
    free(text);
}

static void test_nearest_name(void **state) {
    (void)state;
    static const char *const names[] = {"generate", "tokenize", "inspect", "synth"};
    assert_string_equal(options_nearest_name("genrate", names, 4), "generate");
    assert_string_equal(options_nearest_name("genreate", names, 4), "generate");
    assert_string_equal(options_nearest_name("tok", names, 4), "tokenize");
    assert_string_equal(options_nearest_name("snyth", names, 4), "synth");
    /* Two swaps are two edits, not four. */
    static const char *const short_name[] = {"mode"};
    assert_string_equal(options_nearest_name("omed", short_name, 1), "mode");
    assert_null(options_nearest_name("bench", names, 4));
    assert_null(options_nearest_name("", names, 4));
    assert_null(options_nearest_name("generate", names, 0));
    char long_word[500];
    memset(long_word, 'g', sizeof long_word - 1);
    long_word[sizeof long_word - 1] = '\0';
    assert_null(options_nearest_name(long_word, names, 4));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_numbers_with_a_word),
        cmocka_unit_test(test_aliases_and_last_value_wins),
        cmocka_unit_test(test_two_dashes_end_the_options),
        cmocka_unit_test(test_help_stops),
        cmocka_unit_test(test_unknown_options),
        cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_missing_and_needless_values),
        cmocka_unit_test(test_too_long_a_list),
        cmocka_unit_test(test_help_text),
        cmocka_unit_test(test_nearest_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
