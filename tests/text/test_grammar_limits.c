/* Sources that would take for ever or fill the memory are refused with a sentence, or compiled soon all the
 * same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/string_buffer.h"
#include "text/grammar_fixture.h"

/* A compilation that blows up takes minutes; a sanitizer and a busy machine take some of this. */
static const double limit_seconds = 20.0;

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct case_row {
    enum grammar_kind kind;
    const char *text;
    const char *part; /* of the refusal; NULL: compiles */
};

static void check(const struct case_row *row) {
    double start = now_seconds();
    if (row->part == NULL) {
        struct grammar *grammar = compile_grammar(row->kind, row->text);
        assert_true(grammar_bytes(grammar) < (size_t)1 << 27);
        grammar_destroy(&grammar);
    } else {
        assert_grammar_refused(row->kind, row->text, row->part);
    }
    if (now_seconds() - start > limit_seconds) {
        fail_msg("%.80s took %.1f s", row->text, now_seconds() - start);
    }
}

static void test_counts(void **state) {
    (void)state;
    static const struct case_row rows[] = {
        {GRAMMAR_JSON_SCHEMA, "{\"type\": \"array\", \"maxItems\": 1000000000}",
         "\"maxItems\" at $ is higher than 100000"},
        {GRAMMAR_JSON_SCHEMA, "{\"type\": \"array\", \"minItems\": 1e14}",
         "\"minItems\" at $ is higher than 100000"},
        {GRAMMAR_JSON_SCHEMA, "{\"properties\": {\"a\": {\"type\": \"string\", \"maxLength\": 4294967296}}}",
         "\"maxLength\" at $.properties.a is higher than 100000"},
        {GRAMMAR_JSON_SCHEMA, "{\"type\": \"object\", \"minProperties\": 99999999}",
         "\"minProperties\" at $ is higher than 100000"},
        {GRAMMAR_JSON_SCHEMA, "{\"type\": \"string\", \"maxLength\": 5000}", NULL},
        {GRAMMAR_JSON_SCHEMA, "{\"type\": \"array\", \"maxItems\": 10000}", NULL},
        {GRAMMAR_JSON_SCHEMA,
         "{\"type\": \"array\", \"maxItems\": 90000, \"items\": {\"type\": \"array\", \"maxItems\": 90000}}",
         "too large"},
        {GRAMMAR_REGEX, "a{1000000}", "too large"},
        {GRAMMAR_REGEX, "(a{1000}){1000}", "too large"},
        {GRAMMAR_REGEX, "((((a{9}){9}){9}){9}){9}", "too large"},
        {GRAMMAR_REGEX, "((((((((((a?){9}){9}){9}){9}){9}){9}){9}){9}){9}){9}", "too large"},
        {GRAMMAR_EBNF, "root ::= \"a\"{1000000}", "too large"},
        {GRAMMAR_EBNF, "root ::= (((\"ab\"{0,900}){900}){900}){900}", "too large"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check(&rows[i]);
    }
}

/* Determinising takes exponentially many states; where an automaton is small all the same, it is accepted. */
static void test_subsets(void **state) {
    (void)state;
    static const struct case_row rows[] = {
        {GRAMMAR_REGEX, "(a*)*b", NULL},
        {GRAMMAR_REGEX, "((a+)+)+$", NULL},
        {GRAMMAR_REGEX, "(a|aa)+(a|aaa)*(x+x+)+y", NULL},
        {GRAMMAR_REGEX, ".*a.{40}", "too large"},
        {GRAMMAR_REGEX, "(.*a.{20}|.*b.{21}|.*c.{22})", "too large"},
        {GRAMMAR_JSON_SCHEMA, "{\"type\": \"string\", \"pattern\": \"a.{60}b\"}", "too large"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check(&rows[i]);
    }
}

static void append_repeated(struct string_buffer *out, const char *text, int count) {
    for (int i = 0; i < count; i++) {
        string_buffer_append_text(out, text);
    }
}

/* The source made of a beginning, a middle and an end, the outer two repeated. */
static void check_nested(enum grammar_kind kind, const char *open, const char *middle, const char *close,
                         int depth, const char *part) {
    struct string_buffer text = {0};
    append_repeated(&text, open, depth);
    string_buffer_append_text(&text, middle);
    append_repeated(&text, close, depth);
    check(&(struct case_row){kind, string_buffer_text(&text), part});
    string_buffer_deinit(&text);
}

/*
 * Each of the patterns is within the limits, and so are their states together. With a small limit of work the
 * schema is given up early, and one that is small itself is not.
 */
static void test_work(void **state) {
    (void)state;
    struct string_buffer text = {0};
    struct grammar *grammar;
    string_buffer_append_text(&text, "{\"properties\": {\"p\": true");
    for (int i = 0; i < 20; i++) {
        string_buffer_append_format(
            &text, ", \"p%d\": {\"type\": \"string\", \"pattern\": \"^((a?){%d}){40}$\"}", i, i + 60);
    }
    string_buffer_append_text(&text, "}}");
    check(&(struct case_row){GRAMMAR_JSON_SCHEMA, string_buffer_text(&text),
                             "the schema takes too long to work out"});
    struct grammar_source source = grammar_source_of(GRAMMAR_JSON_SCHEMA, string_buffer_text(&text));
    source.work_limit = GRAMMAR_WORK_SMALL;
    double start = now_seconds();
    assert_int_equal(grammar_source_compile(&source, &grammar), STATUS_UNSUPPORTED);
    assert_true(grammar_source_is_cut_short());
    assert_true(now_seconds() - start < limit_seconds / 10);
    source = grammar_source_of(GRAMMAR_JSON_SCHEMA, "{\"type\": \"string\", \"maxLength\": 1000}");
    source.work_limit = GRAMMAR_WORK_SMALL;
    assert_int_equal(grammar_source_compile(&source, &grammar), STATUS_OK);
    assert_false(grammar_source_is_cut_short());
    grammar_destroy(&grammar);
    source = grammar_source_of(GRAMMAR_JSON_SCHEMA, "{\"type\": \"strin\"}");
    assert_int_not_equal(grammar_source_compile(&source, &grammar), STATUS_OK);
    assert_false(grammar_source_is_cut_short());
    string_buffer_deinit(&text);
}

static void append_list(struct string_buffer *out, int first, int end) {
    for (int i = first; i < end; i++) {
        string_buffer_append_format(out, "%s%d", i == first ? "[" : ",", i);
    }
    string_buffer_append_text(out, "]");
}

/* A list alone is as long as one likes; two that meet are compared value by value, which has a limit. */
static void test_long_lists_of_values(void **state) {
    (void)state;
    struct string_buffer text = {0};
    string_buffer_append_text(&text, "{\"enum\": ");
    append_list(&text, 0, 80000);
    string_buffer_append_text(&text, "}");
    check(&(struct case_row){GRAMMAR_JSON_SCHEMA, string_buffer_text(&text), NULL});
    static const char *const forms[] = {"{\"allOf\": [{\"enum\": ", "{\"oneOf\": [{\"enum\": "};
    for (int i = 0; i < 4; i++) {
        int count = i < 2 ? 3000 : 80000;
        string_buffer_clear(&text);
        string_buffer_append_text(&text, forms[i % 2]);
        append_list(&text, 0, count);
        string_buffer_append_text(&text, "}, {\"enum\": ");
        append_list(&text, i % 2 == 0 ? count / 2 : count, 2 * count);
        string_buffer_append_text(&text, "}]}");
        check(&(struct case_row){GRAMMAR_JSON_SCHEMA, string_buffer_text(&text),
                                 i < 2 ? NULL : "lists of fixed values that meet each other"});
    }
    string_buffer_deinit(&text);
}

/* What a tool does not say of its parameters it may write as null: one grammar for both. */
static void test_parameters_that_are_null(void **state) {
    (void)state;
    struct grammar *absent = compile_grammar(
        GRAMMAR_TOOLS, "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]}");
    struct grammar *null = compile_grammar(
        GRAMMAR_TOOLS,
        "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": "
        "null, \"parameters\": null, \"strict\": null}}]}");
    assert_int_equal(absent->state_count, null->state_count);
    assert_int_equal(absent->edge_count, null->edge_count);
    assert_memory_equal(absent->edges, null->edges, absent->edge_count * sizeof *absent->edges);
    grammar_destroy(&absent);
    grammar_destroy(&null);
}

/* A schema at fault is named as the client's API names it. */
static void test_names_of_schemas(void **state) {
    (void)state;
#define BAD_TOOL "\"tools\": [{\"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"strin\"}}}]}"
    assert_grammar_refused(GRAMMAR_TOOLS, "{" BAD_TOOL, "at $.tools[0].function.parameters is not one");
    assert_grammar_refused(GRAMMAR_TOOLS, "{\"schema_name\": \"input_schema\", " BAD_TOOL,
                           "at $.tools[0].input_schema is not one");
#undef BAD_TOOL
}

static void test_depths(void **state) {
    (void)state;
    check_nested(GRAMMAR_REGEX, "(", "a", ")", 150, NULL);
    check_nested(GRAMMAR_REGEX, "(", "a", ")", 20000, "deeper than 200 levels");
    check_nested(GRAMMAR_JSON_SCHEMA, "{\"items\":", "true", "}", 50, NULL);
    check_nested(GRAMMAR_JSON_SCHEMA, "{\"items\":", "true", "}", 100000, "deep");
    check_nested(GRAMMAR_CHOICE, "[", "", "]", 100000, "deep");
}

static void test_chains(void **state) {
    (void)state;
    struct string_buffer text = {0};
    /* 2^40 ways down. */
    string_buffer_append_text(&text, "{\"$ref\": \"#/$defs/d0\", \"$defs\": {");
    for (int i = 0; i < 40; i++) {
        string_buffer_append_format(&text,
                                    "\"d%d\": {\"allOf\": [{\"$ref\": \"#/$defs/d%d\"}, "
                                    "{\"$ref\": \"#/$defs/d%d\"}]}, ",
                                    i, i + 1, i + 1);
    }
    string_buffer_append_text(&text, "\"d40\": {\"type\": \"string\"}}}");
    check(&(struct case_row){GRAMMAR_JSON_SCHEMA, string_buffer_text(&text), "more than 64 schemas apply"});
    string_buffer_clear(&text);
    /* 3^30 ways to choose a branch of each. */
    string_buffer_append_text(&text, "{\"allOf\": [true");
    append_repeated(&text, ", {\"anyOf\": [{\"minLength\": 1}, {\"maxItems\": 1}, {\"minimum\": 1}]}", 30);
    string_buffer_append_text(&text, "]}");
    check(&(struct case_row){GRAMMAR_JSON_SCHEMA, string_buffer_text(&text), "too large"});
    string_buffer_clear(&text);
    string_buffer_append_text(&text, "root ::= r0 r0\n");
    for (int i = 0; i < 60; i++) {
        string_buffer_append_format(&text, "r%d ::= r%d r%d\n", i, i + 1, i + 1);
    }
    string_buffer_append_text(&text, "r60 ::= \"x\"\n");
    check(&(struct case_row){GRAMMAR_EBNF, string_buffer_text(&text), NULL});
    string_buffer_deinit(&text);
}

/* What is not of the kind that a keyword takes is refused, whatever else it is. */
static void test_wrong_kinds(void **state) {
    (void)state;
    static const char *const keywords[] = {
        "anyOf", "oneOf",     "allOf",    "prefixItems", "type",    "enum",   "required", "properties",
        "$defs", "minLength", "maxItems", "pattern",     "minimum", "format", "nullable", "$ref"};
    static const char *const values[] = {"{\"a\": {}}", "[[1]]", "[null]", "-1.5", "{}"};
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            struct string_buffer text = {0};
            struct grammar *grammar;
            string_buffer_append_format(&text, "{\"%s\": %s}", keywords[i], values[j]);
            struct grammar_source source = grammar_source_of(GRAMMAR_JSON_SCHEMA, string_buffer_text(&text));
            if (grammar_source_compile(&source, &grammar) == STATUS_OK) {
                grammar_destroy(&grammar);
            } else if (strstr(error_last()->message, keywords[i]) == NULL) {
                fail_msg("%s: <%s> does not name the keyword", source.text, error_last()->message);
            }
            string_buffer_deinit(&text);
        }
    }
    assert_grammar_refused(GRAMMAR_JSON_SCHEMA, "{\"anyOf\": {\"a\": {}}}",
                           "\"anyOf\" at $ is not an array of one or more schemas");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_lists_of_values),
        cmocka_unit_test(test_parameters_that_are_null),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_subsets),
        cmocka_unit_test(test_work),
        cmocka_unit_test(test_names_of_schemas),
        cmocka_unit_test(test_depths),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_wrong_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
