/*
 * The output parser: the official grammar, the documented recoveries, and that splits do not matter.
 *
 * Expected results are written as {reasoning}{content}name(arguments)..., see support/output_recorder.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "lib/json.h"
#include "support/output_recorder.h"
#include "text/json_text.h"

#define EOS "<｜end▁of▁sentence｜>"
#define DSML "｜DSML｜"
#define BLOCK(invokes) "\n\n<" DSML "tool_calls>\n" invokes "</" DSML "tool_calls>"
#define INVOKE(name, parameters) "<" DSML "invoke name=\"" name "\">\n" parameters "\n</" DSML "invoke>\n"
#define STRING(key, value) "<" DSML "parameter name=\"" key "\" string=\"true\">" value "</" DSML "parameter>"
#define VALUE(key, value) "<" DSML "parameter name=\"" key "\" string=\"false\">" value "</" DSML "parameter>"

#define DAMAGED "[The model's tool call was damaged or cut off and has been dropped.]"
#define DISABLED "[The model tried to call a tool, but no tools are enabled for this request.]"

enum mode { CHAT, THINKING };

static struct output_parser_options options_of(enum mode mode) {
    struct output_parser_options options = output_parser_options_default();
    options.starts_in_reasoning = mode == THINKING;
    return options;
}

static void assert_summary(const struct output_recorder *recorder, const char *expected) {
    struct string_buffer summary = output_recorder_summary(recorder);
    assert_string_equal(summary.data, expected);
    assert_false(recorder->is_order_broken);
    assert_false(recorder->is_character_split);
    string_buffer_deinit(&summary);
}

/* Checks the result for the whole text, by byte, by character and cut at every byte. */
static void assert_parsed(const struct output_parser_options *options, const char *text,
                          const char *expected) {
    size_t length = strlen(text);
    for (int split = 0; split < SPLIT_COUNT; split++) {
        struct output_recorder recorder = {0};
        struct output_result result;
        assert_int_equal(parse_text(options, text, length, (enum split)split, &recorder, &result), STATUS_OK);
        assert_summary(&recorder, expected);
        bool has_calls = result.tool_call_count > 0;
        assert_int_equal(result.finish, has_calls ? OUTPUT_FINISH_TOOL_CALLS : OUTPUT_FINISH_STOP);
        output_recorder_deinit(&recorder);
    }
    for (size_t position = 0; position <= length; position++) {
        struct output_recorder recorder = {0};
        struct output_result result;
        assert_int_equal(parse_text_cut_at(options, text, length, position, &recorder, &result), STATUS_OK);
        assert_summary(&recorder, expected);
        output_recorder_deinit(&recorder);
    }
}

static void assert_mode(enum mode mode, const char *text, const char *expected) {
    struct output_parser_options options = options_of(mode);
    assert_parsed(&options, text, expected);
}

struct strict_case {
    enum mode mode;
    const char *text;
    const char *expected; /* the result, or what the error says */
};

static void run_strict(const struct strict_case *cases, size_t count, enum status expected_status) {
    for (size_t i = 0; i < count; i++) {
        struct output_parser_options options = options_of(cases[i].mode);
        options.is_strict = true;
        for (int split = 0; split < SPLIT_COUNT; split++) {
            struct output_recorder recorder = {0};
            struct output_result result;
            enum status status = parse_text(&options, cases[i].text, strlen(cases[i].text), (enum split)split,
                                            &recorder, &result);
            assert_int_equal(status, expected_status);
            if (status == STATUS_OK) {
                assert_summary(&recorder, cases[i].expected);
            } else if (strstr(error_last()->message, cases[i].expected) == NULL) {
                fail_msg("\"%s\" does not say \"%s\"", error_last()->message, cases[i].expected);
            }
            output_recorder_deinit(&recorder);
        }
    }
}

/* What the official grammar accepts gives the same in strict and in robust mode. */
static const struct strict_case well_formed[] = {
    {CHAT, "hello" EOS, "{}{hello}"},
    {CHAT, EOS, "{}{}"},
    {CHAT, "a\n\n" EOS, "{}{a\n\n}"},
    {THINKING, "r\n</think>\n\na < b </ c\n" EOS, "{r\n}{\n\na < b </ c\n}"},
    {THINKING, "</think>a" EOS, "{}{a}"},
    {CHAT, BLOCK(INVOKE("f", "")) EOS, "{}{}f({})"},
    {CHAT, "\n" BLOCK(INVOKE("f", "")) EOS, "{}{\n}f({})"},
    {THINKING, "r</think>ok" BLOCK(INVOKE("run", STRING("cmd", "Lima"))) EOS,
     "{r}{ok}run({\"cmd\": \"Lima\"})"},
    {CHAT,
     "ok" BLOCK(INVOKE("f", VALUE("x", "1") "\n" STRING("s", "a<b") "\n" VALUE("l", "[1, 2]"))
                    INVOKE("g", "")) EOS,
     "{}{ok}f({\"x\": 1, \"s\": \"a<b\", \"l\": [1, 2]})g({})"},
    {CHAT, BLOCK(INVOKE("f", STRING("s", "\n a\n\n </b> 2>&1 > \"\\\t\n"))) EOS,
     "{}{}f({\"s\": \"\\n a\\n\\n </b> 2>&1 > \\\"\\\\\\t\\n\"})"},
    {CHAT, BLOCK(INVOKE("f", STRING("", "") "\n" STRING("k\"q=>\"", "v"))) EOS,
     "{}{}f({\"\": \"\", \"k\\\"q=>\\\"\": \"v\"})"},
    {CHAT, BLOCK(INVOKE("f", VALUE("n", " {\"a\": 12345678901234567890123, \"a\": 1.0} "))) EOS,
     "{}{}f({\"n\":  {\"a\": 12345678901234567890123, \"a\": 1.0} })"},
    {CHAT, "naïve 世界 😀" BLOCK(INVOKE("f", STRING("ключ", "значение ｜ ｜D"))) EOS,
     "{}{naïve 世界 😀}f({\"ключ\": \"значение ｜ ｜D\"})"},
};

static void test_strict_accepts(void **state) {
    (void)state;
    run_strict(well_formed, sizeof well_formed / sizeof *well_formed, STATUS_OK);
}

static void test_robust_equals_strict(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof well_formed / sizeof *well_formed; i++) {
        assert_mode(well_formed[i].mode, well_formed[i].text, well_formed[i].expected);
    }
}

static void test_strict_refuses(void **state) {
    (void)state;
    static const struct strict_case cases[] = {
        {CHAT, "hello", "does not end with"},
        {THINKING, "r" EOS, "reasoning is not closed"},
        {THINKING, "r" BLOCK(INVOKE("f", "")) EOS, "reasoning is not closed"},
        {THINKING, "a<think>b</think>c" EOS, "<think> in its reasoning"},
        {CHAT, "a</think>b" EOS, "</think> in its content"},
        {CHAT, "a<" DSML "invoke" EOS, "｜DSML｜ in its content"},
        {CHAT, "<｜begin▁of▁sentence｜>" EOS, "in its content"},
        {CHAT, BLOCK(INVOKE("f", "")) "x" EOS, "behind the tool block"},
        {CHAT, BLOCK(INVOKE("f", "")) EOS "x", "more text"},
        {CHAT, BLOCK("x" INVOKE("f", "")) EOS, "between the tags"},
        {CHAT, "\n\n<" DSML "tool_calls>\n" INVOKE("f", "") EOS, "no closing tool_calls"},
        {CHAT, BLOCK("<" DSML "invoke name=\"f\">\n") EOS, "no closing invoke"},
        {CHAT, BLOCK("<" DSML "invoke name=f>\n</" DSML "invoke>\n") EOS, "invoke tag is not"},
        {CHAT, BLOCK(INVOKE("f", "<" DSML "parameter name=\"a\">x</" DSML "parameter>")) EOS,
         "parameter is not"},
        {CHAT, BLOCK(INVOKE("f", "<" DSML "parameter name=\"a\" string=\"true\">x")) EOS, "no closing tag"},
        {CHAT, BLOCK(INVOKE("f", STRING("a", "x") STRING("b", "x"))) EOS, "something else than a newline"},
        {CHAT, BLOCK(INVOKE("f", STRING("a", "x") "\n" STRING("a", "y"))) EOS, "\"a\" twice"},
    };
    run_strict(cases, sizeof cases / sizeof *cases, STATUS_BAD_FORMAT);
}

static void test_reasoning_rules(void **state) {
    (void)state;
    assert_mode(THINKING, "all of it", "{all of it}{}");
    assert_mode(THINKING, "<think>r</think>a", "{r}{a}");
    assert_mode(THINKING, "plan" BLOCK(INVOKE("f", "")) EOS, "{plan}{}f({})");
    assert_mode(THINKING, "plan" BLOCK(INVOKE("f", "")) "</think>\n\nanswer", "{plan}{answer}f({})");
    assert_mode(THINKING, "a\n\n<b> </thin k> < /think></thought></think>c",
                "{a\n\n<b> </thin k> < /think></thought>}{c}");
    assert_mode(CHAT, "</think>a</think>b<think>c", "{}{abc}");
    assert_mode(CHAT, "a" EOS "b" BLOCK(INVOKE("f", "")), "{}{a}");
    assert_mode(CHAT, "a<｜User｜>b", "{}{a}");
}

static void test_missing_and_extra_structure(void **state) {
    (void)state;
    /* no outer opening or closing, or neither */
    assert_mode(CHAT, "\n\n" INVOKE("f", "") "</" DSML "tool_calls>" EOS, "{}{}f({})");
    assert_mode(CHAT, "\n\n<" DSML "tool_calls>\n" INVOKE("f", "") EOS, "{}{}f({})");
    assert_mode(CHAT, "x\n\n" INVOKE("f", "") INVOKE("g", "") "y", "{}{x\n\n\n\ny}f({})g({})");
    /* no closing tag of a parameter: the newline in front of the next tag is not part of the value */
    assert_mode(CHAT,
                BLOCK("<" DSML "invoke name=\"f\">\n<" DSML "parameter name=\"a\" string=\"true\">x\n</" DSML
                      "invoke>\n") EOS,
                "{}{}f({\"a\": \"x\"})");
    assert_mode(CHAT,
                BLOCK(INVOKE("f", "<" DSML "parameter name=\"a\" string=\"true\">x\n" STRING("b", "y"))) EOS,
                "{}{}f({\"a\": \"x\", \"b\": \"y\"})");
    /* no closing tag of an invoke: counts with parameters, not without */
    assert_mode(CHAT, BLOCK("<" DSML "invoke name=\"f\">\n" STRING("a", "x") INVOKE("g", "")) EOS,
                "{}{}f({\"a\": \"x\"})g({})");
    assert_mode(CHAT, BLOCK("<" DSML "invoke name=\"f\">\n" INVOKE("g", "")) EOS, "{}{}g({})");
    /* doubled opening tags */
    assert_mode(CHAT, BLOCK("<" DSML "tool_calls>\n" INVOKE("f", STRING("a", "x"))) EOS,
                "{}{}f({\"a\": \"x\"})");
    assert_mode(CHAT, BLOCK("<" DSML "invoke name=\"f\">\n" INVOKE("f", STRING("a", "x"))) EOS,
                "{}{}f({\"a\": \"x\"})");
    assert_mode(CHAT,
                BLOCK(INVOKE("f", "<" DSML "parameter name=\"a\" string=\"true\">\n" STRING("a", "x"))) EOS,
                "{}{}f({\"a\": \"x\"})");
    assert_mode(CHAT, BLOCK(INVOKE("f", STRING("a", "x") STRING("a", "y") VALUE("b", "2"))) EOS,
                "{}{}f({\"a\": \"x\", \"b\": 2})");
    /* newlines between tags, more or fewer */
    assert_mode(CHAT,
                "t<" DSML "tool_calls><" DSML
                "invoke name=\"f\">" STRING("a", "x") "\n\n\n</" DSML "invoke></" DSML "tool_calls>\n\n" EOS,
                "{}{t}f({\"a\": \"x\"})");
}

static void test_damaged_tags(void **state) {
    (void)state;
    assert_mode(CHAT,
                BLOCK("<" DSML "invoke name=f>\n<" DSML "parameter name=a string=true>x</" DSML
                      "parameter>\n<" DSML "parameter string='false' name='b'>2</" DSML "parameter>\n</" DSML
                      "invoke>\n") EOS,
                "{}{}f({\"a\": \"x\", \"b\": 2})");
    /* no string attribute: a string */
    assert_mode(CHAT, BLOCK(INVOKE("f", "<" DSML "parameter name=\"a\">3</" DSML "parameter>")) EOS,
                "{}{}f({\"a\": \"3\"})");
    /* no '>', an unclosed quote */
    assert_mode(CHAT, BLOCK("<" DSML "invoke name=\"f\"\n" STRING("a", "x") "</" DSML "invoke\n") EOS,
                "{}{}f({\"a\": \"x\"})");
    assert_mode(CHAT, BLOCK("<" DSML "invoke name=\"f>\n" STRING("a", "x") "\n</" DSML "invoke>\n") EOS,
                "{}{}f({\"a\": \"x\"})");
    /* unknown tags and text between tags */
    assert_mode(CHAT,
                BLOCK("note <" DSML "comment>c</" DSML "comment>" INVOKE("f", "b" STRING("a", "x") "c")) EOS,
                "{}{}f({\"a\": \"x\"})");
    assert_mode(CHAT, "a\n\n<" DSML "comment x=\"1\">b</" DSML "comment> c " DSML " d", "{}{a\n\nb c  d}");
    /* the name of the wrapper in V3.2 */
    assert_mode(CHAT, "\n\n<" DSML "function_calls>\n" INVOKE("f", "") "</" DSML "function_calls>",
                "{}{}f({})");
    /* without a name there is no call; a parameter needs an invoke and a name */
    assert_mode(CHAT, "t" BLOCK("<" DSML "invoke>\n" STRING("a", "x") "</" DSML "invoke>\n") EOS, "{}{t}");
    assert_mode(CHAT, BLOCK(INVOKE("", STRING("a", "x"))) EOS, "{}{" DAMAGED "}");
    assert_mode(CHAT, BLOCK(STRING("a", "x")) EOS, "{}{" DAMAGED "}");
    assert_mode(CHAT, STRING("a", "x") "rest", "{}{rest}");
    assert_mode(CHAT, BLOCK(INVOKE("f", "<" DSML "parameter string=\"true\">x</" DSML "parameter>")) EOS,
                "{}{}f({})");
    /* closing tags without opening ones */
    assert_mode(CHAT, "a\n</" DSML "invoke>b</" DSML "tool_calls>c</" DSML "parameter>", "{}{a\nbc}");
}

static void test_values(void **state) {
    (void)state;
    /* markup that a value may hold */
    assert_mode(
        CHAT,
        BLOCK(INVOKE("f", STRING("a", "<" DSML "b> " DSML " </think> <" DSML "tool_calls> </" DSML "x"))) EOS,
        "{}{}f({\"a\": \"<" DSML "b> " DSML " </think> <" DSML "tool_calls> </" DSML "x\"})");
    assert_mode(
        CHAT,
        BLOCK(INVOKE("f", VALUE("a", "yes") VALUE("b", "") VALUE("c", "{\"x\":") VALUE("d", "\"q\"y"))) EOS,
        "{}{}f({\"a\": \"yes\", \"b\": \"\", \"c\": \"{\\\"x\\\":\", \"d\": \"\\\"q\\\"y\"})");
    assert_mode(CHAT,
                BLOCK(INVOKE("f", STRING("a", "</b>\n<") STRING("b", "\n\n\n") STRING("c", "<<</"))) EOS,
                "{}{}f({\"a\": \"</b>\\n<\", \"b\": \"\\n\\n\\n\", \"c\": \"<<</\"})");
}

static void test_several_blocks_and_text_behind(void **state) {
    (void)state;
    assert_mode(CHAT, "a" BLOCK(INVOKE("f", "")) "\n\nb" BLOCK(INVOKE("g", "")) "\n",
                "{}{a\n\n\n\nb}f({})g({})");
    assert_mode(CHAT, BLOCK(INVOKE("f", "")) "\n\nb", "{}{b}f({})");
    assert_mode(THINKING, "r</think>" BLOCK(INVOKE("f", "")) "b" EOS, "{r}{b}f({})");
}

static void test_disabled_tools(void **state) {
    (void)state;
    struct output_parser_options options = options_of(CHAT);
    options.are_tools_enabled = false;
    assert_parsed(&options, "a" BLOCK(INVOKE("f", STRING("x", "y"))) EOS, "{}{a}");
    assert_parsed(&options, "a" BLOCK(INVOKE("f", STRING("x", "y"))) "\nb", "{}{a\n\n\nb}");
    assert_parsed(&options, BLOCK(INVOKE("f", STRING("x", "y"))) EOS, "{}{" DISABLED "}");
    options.starts_in_reasoning = true;
    assert_parsed(&options, "r" BLOCK(INVOKE("f", "")) "s</think>a", "{r\n\ns}{a}");
    assert_parsed(&options, "r" BLOCK(INVOKE("f", "")) EOS, "{r}{" DISABLED "}");
}

/* Every prefix of a completion with two calls: complete calls stay, nothing of the markup shows. */
static void test_every_truncation(void **state) {
    (void)state;
    static const char text[] =
        "ok" BLOCK(INVOKE("f", STRING("a", "x\ny") "\n" VALUE("b", "[1]")) INVOKE("g", STRING("c", "z")));
    const char *first_end = strstr(text, "</" DSML "invoke");
    const char *second_end = strstr(first_end + 1, "</" DSML "invoke");
    size_t tag_length = strlen("</" DSML "invoke");
    for (size_t length = 0; length < sizeof text; length++) {
        struct output_recorder recorder = {0};
        struct output_result result;
        struct output_parser_options options = options_of(CHAT);
        assert_int_equal(parse_text(&options, text, length, SPLIT_CHARACTERS, &recorder, &result), STATUS_OK);
        size_t complete =
            (text + length >= first_end + tag_length) + (text + length >= second_end + tag_length);
        assert_int_equal(result.tool_call_count, complete);
        assert_false(recorder.is_order_broken);
        const char *content = string_buffer_text(&recorder.content);
        bool is_inside_newlines = length > 2 && length <= 4;
        if (length >= 2 && !is_inside_newlines) {
            assert_string_equal(content, "ok");
        }
        for (size_t i = 0; i < recorder.call_count; i++) {
            assert_true(recorder.calls[i].is_ended != recorder.calls[i].is_abandoned);
            assert_null(strstr(string_buffer_text(&recorder.calls[i].arguments), "<"));
            assert_null(strstr(string_buffer_text(&recorder.calls[i].arguments), "｜"));
        }
        output_recorder_deinit(&recorder);
    }
}

/* Ill-formed bytes are replaced wherever they are cut. */
static void test_ill_formed_bytes(void **state) {
    (void)state;
    assert_mode(CHAT,
                "a\xFF"
                "b\xE4\xB8"
                "c\xF0\x9F\x98",
                "{}{a\xEF\xBF\xBD"
                "b\xEF\xBF\xBD"
                "c\xEF\xBF\xBD}");
    assert_mode(CHAT, BLOCK(INVOKE("f", STRING("a", "\xC3(\xED\xA0\x80\x01"))) EOS,
                "{}{}f({\"a\": \"\xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\\u0001\"})");
}

/* A megabyte in one value, byte by byte, must take time in proportion. */
static void test_long_values_are_linear(void **state) {
    (void)state;
    static const char *const units[] = {"x",
                                        "<",
                                        "\n",
                                        "</",
                                        "\"",
                                        ">",
                                        "\xEF\xBD\x9C",
                                        "<\xEF\xBD\x9C"
                                        "DSML"};
    enum { VALUE_BYTES = 1000000 };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        struct string_buffer text = {0};
        string_buffer_append_text(&text, "\n\n<" DSML "tool_calls>\n<" DSML "invoke name=\"f\">\n<" DSML
                                         "parameter name=\"a\" string=\"true\">");
        while (text.length < VALUE_BYTES) {
            string_buffer_append_text(&text, units[i]);
        }
        string_buffer_append_text(&text,
                                  "</" DSML "parameter>\n</" DSML "invoke>\n</" DSML "tool_calls>" EOS);
        struct output_recorder recorder = {0};
        struct output_result result;
        struct output_parser_options options = options_of(CHAT);
        clock_t start = clock();
        assert_int_equal(parse_text(&options, text.data, text.length, SPLIT_BYTES, &recorder, &result),
                         STATUS_OK);
        /* A quadratic parser needs minutes; this takes a fraction of a second. */
        assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 20);
        assert_int_equal(result.tool_call_count, 1);
        struct json *arguments = NULL;
        const struct string_buffer *joined = &recorder.calls[0].arguments;
        assert_int_equal(json_parse(joined->data, joined->length, "arguments", &arguments), STATUS_OK);
        size_t length;
        assert_non_null(json_text(json_get(arguments, "a"), &length));
        assert_true(length > VALUE_BYTES - 1000);
        json_free(&arguments);
        output_recorder_deinit(&recorder);
        string_buffer_deinit(&text);
    }
}

static void test_json_text(void **state) {
    (void)state;
    static const char *const valid[] = {"1",
                                        "-0.5e+3",
                                        " [ ] ",
                                        "{}",
                                        "[[],{\"a\":[1,null]},true]",
                                        "\"\\u00e9\\n\"",
                                        "{\"a\":1,\"a\":{\"b\":\"\"}}",
                                        "9e999",
                                        "\t0\n"};
    static const char *const invalid[] = {
        "",  "01",      "1.",  "+1",  "[1,]",   "{\"a\"}", "{a:1}", "nul", "[1",          "\"a",      "1 2",
        "-", "\"\\x\"", "[1}", "NaN", "\"\n\"", "{,}",     "[,1]",  "1e",  "\"\\u12g4\"", "{\"a\":}", "]"};
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++) {
        assert_true(json_text_is_valid(valid[i], strlen(valid[i])));
    }
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        assert_false(json_text_is_valid(invalid[i], strlen(invalid[i])));
    }
    char deep[1026];
    memset(deep, '[', 513);
    memset(deep + 513, ']', 513);
    assert_false(json_text_is_valid(deep, 1026));
    assert_true(json_text_is_valid(deep + 1, 1024));
}

static enum status refuse(void *context, const struct output_event *event) {
    (void)context;
    (void)event;
    return error_raise(STATUS_IO, ERROR_HERE, "the client is gone");
}

static void test_sink_failure_is_passed_on(void **state) {
    (void)state;
    struct output_parser parser;
    struct output_parser_options options = options_of(CHAT);
    struct output_sink sink = {refuse, NULL};
    output_parser_init(&parser, &options);
    assert_int_equal(output_parser_push_text(&parser, "abc", 3, &sink), STATUS_IO);
    output_parser_deinit(&parser);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict_accepts),
        cmocka_unit_test(test_robust_equals_strict),
        cmocka_unit_test(test_strict_refuses),
        cmocka_unit_test(test_reasoning_rules),
        cmocka_unit_test(test_missing_and_extra_structure),
        cmocka_unit_test(test_damaged_tags),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_several_blocks_and_text_behind),
        cmocka_unit_test(test_disabled_tools),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_ill_formed_bytes),
        cmocka_unit_test(test_long_values_are_linear),
        cmocka_unit_test(test_json_text),
        cmocka_unit_test(test_sink_failure_is_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
