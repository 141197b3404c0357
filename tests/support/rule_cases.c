#include "support/rule_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "lib/json.h"
#include "lib/regex.h"
#include "text/tokenizer.h"

enum { END_TOKEN = 1, MINIMUM = 12, ALLOWED = 40, FIRST_ALLOWED = 300 };

#define TEXT(literal) ((struct service_text){(literal), sizeof(literal) - 1})
#define COLOURS "[\"red\",\"blue\",\"dark green\"]"
#define SCHEMA                                                                                          \
    "{\"type\":\"object\",\"properties\":{\"ok\":{\"type\":\"boolean\"},\"c\":{\"enum\":" COLOURS "}}," \
    "\"required\":[\"ok\",\"c\"],\"additionalProperties\":false}"
#define PATTERN "[a-f]{2,6}(, [a-f]{2,6}){1,3}\\."
#define TOOLS                                                                                                \
    "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"run\",\"parameters\":{\"type\":\"object\"," \
    "\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9}},\"required\":[\"n\"]}}}],"    \
    "\"tool_choice\":\"required\",\"parallel_tool_calls\":false}"
#define TOOLS_BEGIN "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"run\">\n"

static const struct service_text stops[] = {{"a", 1}, {"he", 2}, {". ", 2}};
static const struct service_text bad_words[] = {{"the", 3}, {"and", 3}, {" was", 4}, {".", 1}};
static int32_t allowed[ALLOWED];

static const char *const names[RULE_CASES] = {
    "no rules",  "any JSON",        "a schema",           "a pattern",         "a choice",
    "a grammar", "tool calls",      "stop texts",         "a least of tokens", "few tokens",
    "bad words", "several at once", "behind the thinking"};

const char *rule_case_name(int index) {
    return names[index];
}

struct service_rules rule_case_rules(int index) {
    for (int i = 0; i < ALLOWED; i++) {
        allowed[i] = FIRST_ALLOWED + i;
    }
    const struct service_rules cases[RULE_CASES] = {
        {0},
        {.grammar = SERVICE_GRAMMAR_JSON},
        {.grammar = SERVICE_GRAMMAR_JSON_SCHEMA, .grammar_text = TEXT(SCHEMA)},
        {.grammar = SERVICE_GRAMMAR_REGEX, .grammar_text = TEXT(PATTERN)},
        {.grammar = SERVICE_GRAMMAR_CHOICE, .grammar_text = TEXT(COLOURS)},
        {.grammar = SERVICE_GRAMMAR_EBNF,
         .grammar_text = TEXT("root ::= \"<\" ( [0-9] root | \"x\" ) \">\"")},
        {.grammar = SERVICE_GRAMMAR_TOOLS, .grammar_text = TEXT(TOOLS)},
        {.stops = stops, .stop_count = 3},
        {.min_tokens = MINIMUM},
        {.allowed_tokens = allowed, .allowed_token_count = ALLOWED},
        {.bad_words = bad_words, .bad_word_count = 4},
        {.grammar = SERVICE_GRAMMAR_REGEX,
         .grammar_text = TEXT("[a-z ]+"),
         .stops = stops,
         .stop_count = 2,
         .min_tokens = MINIMUM,
         .bad_words = bad_words,
         .bad_word_count = 4},
        {.grammar = SERVICE_GRAMMAR_REGEX, .grammar_text = TEXT(PATTERN), .starts_in_reasoning = true},
    };
    return cases[index];
}

static struct tokenizer *load_tokenizer(void) {
    struct tokenizer *tokenizer;
    EXPECT_OK(tokenizer_load(SLUICE_SOURCE_DIR "/models/mini-v4/tokenizer.json", &tokenizer));
    return tokenizer;
}

/* The answer's text without its end token, with control tokens. */
static void decode(const struct answer *answer, struct string_buffer *out) {
    struct tokenizer *tokenizer = load_tokenizer();
    size_t count = answer->count;
    count -= count > 0 && answer->tokens[count - 1] == END_TOKEN;
    EXPECT_OK(tokenizer_decode(tokenizer, answer->tokens, count, false, out));
    tokenizer_destroy(&tokenizer);
}

/* Whether the tokens of the text stand one after the other in the answer. */
static bool has_word(const struct answer *answer, const char *word) {
    static const struct tokenizer_encode_options plain = {0};
    struct tokenizer *tokenizer = load_tokenizer();
    struct token_list ids = {0};
    bool is_found = false;
    EXPECT_OK(tokenizer_encode(tokenizer, word, strlen(word), &plain, &ids));
    for (size_t i = 0; i + ids.count <= answer->count; i++) {
        is_found = is_found || memcmp(answer->tokens + i, ids.ids, ids.count * sizeof *ids.ids) == 0;
    }
    token_list_deinit(&ids);
    tokenizer_destroy(&tokenizer);
    return is_found;
}

static void expect_match(const char *pattern, const char *text) {
    struct regex *regex;
    struct regex_matcher *matcher;
    struct regex_span span;
    bool is_found = false;
    EXPECT_OK(regex_create(pattern, strlen(pattern), REGEX_SYNTAX_PERL, "a pattern", &regex));
    EXPECT_OK(regex_matcher_create(&matcher));
    EXPECT_OK(regex_find(regex, matcher, text, strlen(text), 0, &span, &is_found));
    if (!is_found) {
        fail_msg("\"%s\" does not match %s", text, pattern);
    }
    regex_matcher_destroy(&matcher);
    regex_destroy(&regex);
}

static void expect_json(const char *text, bool has_schema) {
    struct json *value;
    EXPECT_OK(json_parse(text, strlen(text), text, &value));
    assert_int_equal(json_kind(value), JSON_KIND_OBJECT);
    if (has_schema) {
        assert_int_equal(json_length(value), 2);
        assert_int_equal(json_kind(json_get(value, "ok")), JSON_KIND_BOOL);
        const char *colour = json_text(json_get(value, "c"), NULL);
        assert_non_null(colour);
        assert_non_null(strstr("red blue dark green", colour));
    }
    json_free(&value);
}

/* What is the beginning of a whole text as much as a whole one; the end is checked where it was reached. */
static void expect_grammar_kept(int index, const char *text, bool is_whole) {
    switch (index) {
    case 1:
    case 2:
        if (is_whole) {
            expect_json(text, index == 2);
        }
        expect_match("^\\s*\\{", text);
        break;
    case 3:
        expect_match(is_whole ? "^" PATTERN "$" : "^[a-f, ]+$", text);
        break;
    case 4:
        assert_true(is_whole);
        expect_match("^(red|blue|dark green)$", text);
        break;
    case 5:
        expect_match(is_whole ? "^(<[0-9])*<x>+$" : "^(<[0-9])*", text);
        break;
    case 6:
        assert_memory_equal(text, TOOLS_BEGIN,
                            strlen(text) < strlen(TOOLS_BEGIN) ? strlen(text) : strlen(TOOLS_BEGIN));
        expect_match(!is_whole ? "" : "invoke name=\"run\">[^$]*<[^$]*parameter name=\"n\"[^$]*>[0-9]</",
                     text);
        break;
    case 12:
        expect_match(is_whole ? "</think>" PATTERN "$" : "", text);
        break;
    default:
        break;
    }
}

static void expect_no_stop_before_end(const struct answer *answer, const char *text, size_t stop_count) {
    size_t length = strlen(text);
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < stop_count; i++) {
        const char *found = strstr(text, stops[i].bytes);
        if (found != NULL && (size_t)(found - text) + stops[i].length < first) {
            first = (size_t)(found - text) + stops[i].length;
        }
    }
    if (first == SIZE_MAX) {
        return;
    }
    /* A stop text is there: it is completed by the last token, whatever that has behind it. */
    assert_int_equal(answer->reason, SLUICE_FINISH_STOP);
    struct answer before = *answer;
    struct string_buffer shorter = {0};
    before.count--;
    decode(&before, &shorter);
    assert_true(first <= length && first > shorter.length);
    string_buffer_deinit(&shorter);
}

void rule_case_expect_kept(int index, const struct answer *answer) {
    struct string_buffer text = {0};
    bool is_whole = answer->reason == SLUICE_FINISH_STOP;
    assert_true(is_whole || answer->reason == SLUICE_FINISH_LENGTH);
    assert_true(answer->count > 0 && answer->count <= REQUEST_ANSWER_MAX);
    decode(answer, &text);
    expect_grammar_kept(index, string_buffer_text(&text), is_whole);
    if (index == 7) {
        expect_no_stop_before_end(answer, string_buffer_text(&text), 3);
    }
    if (index == 8 || index == 11) {
        assert_true(!is_whole || answer->count >= MINIMUM);
    }
    for (size_t i = 0; i < answer->count && index == 9; i++) {
        assert_in_range(answer->tokens[i], FIRST_ALLOWED, FIRST_ALLOWED + ALLOWED - 1);
    }
    static const char *const words[] = {"the", " the", "and", " and", " was", "was", "."};
    for (size_t i = 0; i < sizeof words / sizeof *words && (index == 10 || index == 11); i++) {
        assert_false(has_word(answer, words[i]));
    }
    string_buffer_deinit(&text);
}
