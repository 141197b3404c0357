/* The wrapper of the regex library, and the translation of tokenizer.json's patterns to its dialect. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/regex.h"
#include "text/split_pattern.h"

static struct regex *compile(const char *pattern, enum regex_syntax syntax) {
    struct regex *regex = NULL;
    assert_int_equal(regex_create(pattern, strlen(pattern), syntax, "pattern", &regex), STATUS_OK);
    return regex;
}

/* Asserts the first match at or after `offset`; start == end == SIZE_MAX: none. */
static void assert_match(const struct regex *regex, const char *text, size_t offset, size_t start,
                         size_t end) {
    struct regex_matcher *matcher = NULL;
    struct regex_span span = {SIZE_MAX, SIZE_MAX};
    bool is_found = false;
    assert_int_equal(regex_matcher_create(&matcher), STATUS_OK);
    assert_int_equal(regex_find(regex, matcher, text, strlen(text), offset, &span, &is_found), STATUS_OK);
    assert_int_equal(is_found, start != SIZE_MAX);
    assert_int_equal(span.start, start);
    assert_int_equal(span.end, end);
    regex_matcher_destroy(&matcher);
    assert_null(matcher);
}

static void test_find(void **state) {
    (void)state;
    struct regex *regex = compile("\\p{L}+|(\\d)(\\d)", REGEX_SYNTAX_PERL);
    assert_match(regex, "1 été 12", 0, 2, 7);
    assert_match(regex, "1 été 12", 7, 8, 10);
    assert_match(regex, "1 été 12", 9, SIZE_MAX, SIZE_MAX);
    assert_match(regex, "", 0, SIZE_MAX, SIZE_MAX);
    regex_destroy(&regex);
    assert_null(regex);
    regex = compile("a*", REGEX_SYNTAX_PERL);
    assert_match(regex, "b", 1, 1, 1);
    regex_destroy(&regex);
    regex = compile("(.)+[", REGEX_SYNTAX_LITERAL);
    assert_match(regex, "x(.)+[", 0, 1, 6);
    regex_destroy(&regex);
}

static void test_bad_patterns(void **state) {
    (void)state;
    struct regex *regex = NULL;
    assert_int_equal(regex_create("a(b", 3, REGEX_SYNTAX_PERL, "the rule", &regex), STATUS_BAD_FORMAT);
    assert_string_equal(error_last()->message,
                        "the rule is not a valid regular expression: missing closing parenthesis at byte 3");
    assert_int_equal(regex_create("\xFF", 1, REGEX_SYNTAX_PERL, "the rule", &regex), STATUS_BAD_FORMAT);
    char *pattern = malloc(70000);
    assert_non_null(pattern);
    memset(pattern, 'a', 70000);
    assert_int_equal(regex_create(pattern, 70000, REGEX_SYNTAX_PERL, "the rule", &regex), STATUS_BAD_FORMAT);
    assert_null(regex);
    free(pattern);
}

/* An expression that needs exponential time is given up. */
static void test_step_limit(void **state) {
    (void)state;
    struct regex *regex = compile("(a+)+$", REGEX_SYNTAX_PERL);
    struct regex_matcher *matcher = NULL;
    struct regex_span span;
    bool is_found = false;
    const char *text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
    assert_int_equal(regex_matcher_create(&matcher), STATUS_OK);
    assert_int_equal(regex_find(regex, matcher, text, strlen(text), 0, &span, &is_found),
                     STATUS_OUT_OF_RANGE);
    regex_matcher_destroy(&matcher);
    regex_destroy(&regex);
}

enum { LONG_TEXT_BYTES = 1 << 20 };

struct long_search {
    const char *pattern;
    enum status expected;
    const struct regex *regex;
    enum status status;
    size_t matched_bytes;
};

static void *match_long_text(void *context) {
    struct long_search *search = context;
    struct regex_matcher *matcher = NULL;
    struct regex_span span = {0};
    bool is_found = false;
    char *text = malloc(LONG_TEXT_BYTES);
    if (text != NULL && regex_matcher_create(&matcher) == STATUS_OK) {
        memset(text, 'a', LONG_TEXT_BYTES);
        search->status = regex_find(search->regex, matcher, text, LONG_TEXT_BYTES, 0, &span, &is_found);
        search->matched_bytes = span.end - span.start;
    }
    regex_matcher_destroy(&matcher);
    free(text);
    return NULL;
}

/* A group that may end anywhere keeps a point to come back to for every character: given up, no overflow. */
static void test_small_stack(void **state) {
    (void)state;
    struct long_search searches[] = {
        {.pattern = "[a-z]+", .expected = STATUS_OK},
        {.pattern = "\\p{L}*?\\z", .expected = STATUS_OK},
        {.pattern = " ?[\\p{L}\\p{M}]+(?!\\S)", .expected = STATUS_OK},
        {.pattern = "(?:a|b)+", .expected = STATUS_OUT_OF_RANGE},
    };
    pthread_attr_t attributes;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, 512 << 10), 0);
    for (size_t i = 0; i < sizeof searches / sizeof searches[0]; i++) {
        struct regex *regex = compile(searches[i].pattern, REGEX_SYNTAX_PERL);
        searches[i].regex = regex;
        searches[i].status = STATUS_INTERNAL;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, &attributes, match_long_text, &searches[i]), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(searches[i].status, searches[i].expected);
        if (searches[i].expected == STATUS_OK) {
            assert_int_equal(searches[i].matched_bytes, LONG_TEXT_BYTES);
        }
        regex_destroy(&regex);
    }
    pthread_attr_destroy(&attributes);
}

static void assert_translation(const char *pattern, const char *expected) {
    struct string_buffer out = {0};
    assert_int_equal(split_pattern_translate(pattern, strlen(pattern), "pattern", &out), STATUS_OK);
    assert_string_equal(string_buffer_text(&out), expected);
    string_buffer_deinit(&out);
}

static void assert_refused(const char *pattern, const char *message) {
    struct string_buffer out = {0};
    assert_int_not_equal(split_pattern_translate(pattern, strlen(pattern), "pattern", &out), STATUS_OK);
    assert_string_equal(error_last()->message, message);
    string_buffer_deinit(&out);
}

static void test_translation(void **state) {
    (void)state;
    assert_translation("\\s+(?!\\S)|\\s+", "\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+");
    assert_translation("[^\\s\\r\\n]", "[^\\p{White_Space}\\r\\n]");
    assert_translation("\\\\s[\\]s]", "\\\\s[\\]s]");
    assert_translation("(?i:'s|'t)|[]a]", "(?i:'s|'t)|[]a]");
    assert_translation("\\x{200B}{1,3}.?", "\\x{200B}{1,3}.?");
    assert_translation("\\p{Zs}[\\p{Zs}a]\\P{Zs}", "[\\p{Zs}][\\p{Zs}a][^\\p{Zs}]");
    assert_translation("\\p{Sm}", "[\\p{Sm}\\x{10D8E}-\\x{10D8F}]");
}

static void test_refused_patterns(void **state) {
    (void)state;
    assert_refused("a\\h", "pattern uses the escape \\h at byte 1, which is not supported");
    assert_refused("\\w", "pattern uses the escape \\w at byte 0, which is not supported");
    assert_refused("a\\", "pattern ends with a lone backslash");
    assert_refused("\\xFF", "pattern uses the escape \\x without braces at byte 0, which is not supported");
    assert_refused("[a[b]]", "pattern uses a class within a class at byte 2, which is not supported");
    assert_refused("[a&&b]", "pattern uses a class within a class at byte 2, which is not supported");
    assert_refused("[\\P{L}]",
                   "pattern has a negated category within a class at byte 1, which is not supported");
    assert_refused("^a", "pattern uses the anchor ^ at byte 0, which is not supported");
    assert_refused("a{1,3}+", "pattern uses a kind of repeat at byte 1 that is not supported");
    assert_refused("a{,3}", "pattern uses a kind of repeat at byte 1 that is not supported");
    assert_refused("(*UCP)a", "pattern uses a kind of group at byte 0 that is not supported");
    assert_refused("(?m)a", "pattern uses a kind of group at byte 0 that is not supported");
    assert_refused("\\p{Han}",
                   "pattern uses a property at byte 0 that is not a general category of L, M, N, P, S "
                   "or Z; only those are supported");
    assert_refused("\\pL",
                   "pattern uses a property at byte 0 that is not a general category of L, M, N, P, S or "
                   "Z; only those are supported");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),        cmocka_unit_test(test_bad_patterns),
        cmocka_unit_test(test_step_limit),  cmocka_unit_test(test_small_stack),
        cmocka_unit_test(test_translation), cmocka_unit_test(test_refused_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
