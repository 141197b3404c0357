/* Recursive descent; the depth of groups is bounded. */
#include "text/grammar/pattern.h"

#include <string.h>

#include "text/grammar/pattern_class.h"

static enum status parse_choice(struct pattern_reader *reader, int depth, struct expression **out);

static bool is_next(const struct pattern_reader *reader, const char *text) {
    size_t length = strlen(text);
    return (size_t)(reader->end - reader->at) >= length && memcmp(reader->at, text, length) == 0;
}

static bool take(struct pattern_reader *reader, const char *text) {
    bool is_taken = is_next(reader, text);
    reader->at += is_taken ? strlen(text) : 0;
    return is_taken;
}

/* What stands behind "(?": nothing but a group that is not remembered, or a name. */
static enum status parse_group_kind(struct pattern_reader *reader) {
    static const struct {
        const char *text, *name;
    } refused[] = {{"=", "a look-ahead"},    {"!", "a negative look-ahead"},
                   {"<=", "a look-behind"},  {"<!", "a negative look-behind"},
                   {">", "an atomic group"}, {"(", "a conditional group"},
                   {"#", "a comment"},       {"P=", "a reference back to a group"}};
    if (take(reader, ":")) {
        return STATUS_OK;
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        CHECK(!is_next(reader, refused[i].text), STATUS_UNSUPPORTED,
              "%s has %s, (?%s, before byte %d, which is not supported; rewrite it without", reader->what,
              refused[i].name, refused[i].text, pattern_offset(reader));
    }
    bool is_named = take(reader, "P<") || take(reader, "<");
    const char *closing = is_named ? memchr(reader->at, '>', (size_t)(reader->end - reader->at)) : NULL;
    CHECK(closing != NULL, STATUS_UNSUPPORTED,
          "%s has a group with flags or without a name's end before byte %d, which is not supported",
          reader->what, pattern_offset(reader));
    reader->at = closing + 1;
    return STATUS_OK;
}

static enum status parse_group(struct pattern_reader *reader, int depth, struct expression **out) {
    CHECK(depth < EXPRESSION_DEPTH_MAX, STATUS_UNSUPPORTED, "%s nests groups deeper than %d levels",
          reader->what, EXPRESSION_DEPTH_MAX);
    if (take(reader, "?")) {
        TRY(parse_group_kind(reader));
    }
    TRY(parse_choice(reader, depth + 1, out));
    CHECK(take(reader, ")"), STATUS_BAD_FORMAT, "%s has a group without its closing parenthesis",
          reader->what);
    return STATUS_OK;
}

static enum status parse_atom(struct pattern_reader *reader, int depth, struct expression **out) {
    static const struct code_point_range newline = {'\n', '\n'};
    if (take(reader, "(")) {
        return parse_group(reader, depth, out);
    }
    if (take(reader, "[")) {
        return pattern_read_class(reader, out);
    }
    if (take(reader, "\\")) {
        return pattern_read_escape(reader, out);
    }
    CHECK(strchr("*+?", *reader->at) == NULL || *reader->at == '\0', STATUS_BAD_FORMAT,
          "%s has a quantifier at byte %d with nothing to repeat", reader->what, pattern_offset(reader));
    if (take(reader, ".")) {
        *out = expression_new_class(reader->arena, &newline, 1, true);
    } else if (take(reader, "^")) {
        *out = expression_new(reader->arena, EXPRESSION_AT_START);
    } else if (take(reader, "$")) {
        *out = expression_new(reader->arena, EXPRESSION_AT_END);
    } else {
        uint32_t character;
        TRY(pattern_read_character(reader, &character));
        *out = expression_new_range(reader->arena, character, character);
    }
    CHECK_MEMORY(*out);
    return STATUS_OK;
}

static enum status parse_repeat(struct pattern_reader *reader, int depth, struct expression **out) {
    uint32_t minimum;
    uint32_t maximum;
    TRY(parse_atom(reader, depth, out));
    if (!pattern_take_quantifier(reader, &minimum, &maximum)) {
        return STATUS_OK;
    }
    CHECK(minimum <= maximum, STATUS_BAD_FORMAT,
          "%s has a quantifier before byte %d whose counts run backwards", reader->what,
          pattern_offset(reader));
    CHECK(!is_next(reader, "+"), STATUS_UNSUPPORTED,
          "%s has a possessive quantifier at byte %d, which is not supported; use a greedy one", reader->what,
          pattern_offset(reader));
    take(reader, "?"); /* a lazy quantifier matches the same texts */
    bool is_repeated_again = is_next(reader, "*") || is_next(reader, "+") || is_next(reader, "?");
    CHECK(!is_repeated_again, STATUS_BAD_FORMAT, "%s has two quantifiers in a row at byte %d", reader->what,
          pattern_offset(reader));
    struct expression *repeat = expression_new(reader->arena, EXPRESSION_REPEAT);
    CHECK_MEMORY(repeat);
    repeat->minimum = minimum;
    repeat->maximum = maximum;
    expression_append(repeat, *out);
    *out = repeat;
    return STATUS_OK;
}

static enum status parse_sequence(struct pattern_reader *reader, int depth, struct expression **out) {
    *out = expression_new(reader->arena, EXPRESSION_SEQUENCE);
    CHECK_MEMORY(*out);
    while (reader->at < reader->end && *reader->at != '|' && *reader->at != ')') {
        struct expression *item;
        TRY(parse_repeat(reader, depth, &item));
        expression_append(*out, item);
    }
    return STATUS_OK;
}

static enum status parse_choice(struct pattern_reader *reader, int depth, struct expression **out) {
    *out = expression_new(reader->arena, EXPRESSION_CHOICE);
    CHECK_MEMORY(*out);
    do {
        struct expression *sequence;
        TRY(parse_sequence(reader, depth, &sequence));
        expression_append(*out, sequence);
    } while (take(reader, "|"));
    return STATUS_OK;
}

enum status pattern_parse(const char *pattern, size_t length, const char *what, struct arena *arena,
                          struct expression **out) {
    struct pattern_reader reader = {pattern, pattern, pattern + length, what, arena};
    CHECK(length <= 1 << 16, STATUS_UNSUPPORTED, "%s is longer than 64 KiB", what);
    TRY(parse_choice(&reader, 0, out));
    CHECK(reader.at == reader.end, STATUS_BAD_FORMAT, "%s has a closing parenthesis too many at byte %d",
          what, pattern_offset(&reader));
    return STATUS_OK;
}

/* Any number of any characters. */
static uint32_t add_anything(struct nfa *nfa, uint32_t from) {
    uint32_t loop = nfa_add_state(nfa);
    nfa_add_empty(nfa, from, loop);
    nfa_add_edge(nfa, loop, 0, 0xD7FF, loop);
    nfa_add_edge(nfa, loop, 0xE000, SYMBOL_CODE_POINTS - 1, loop);
    return loop;
}

enum status pattern_compile(const char *pattern, size_t length, enum pattern_extent extent, const char *what,
                            struct dfa *out) {
    enum status status = STATUS_OK;
    struct arena pattern_arena;
    struct nfa nfa;
    struct expression *expression;
    *out = (struct dfa){0};
    arena_init(&pattern_arena, 1 << 14);
    nfa_init(&nfa, 4 * PATTERN_STATES_MAX);
    TRY_GOTO(pattern_parse(pattern, length, what, &pattern_arena, &expression));
    uint32_t from = extent == PATTERN_PART ? add_anything(&nfa, 0) : 0;
    uint32_t end = expression_build(expression, EXPRESSION_CODE_POINTS, &nfa, from);
    end = extent == PATTERN_PART ? add_anything(&nfa, end) : end;
    TRY_GOTO(nfa_check(&nfa, what));
    TRY_GOTO(dfa_determinize(&nfa, 0, end, PATTERN_STATES_MAX, what, out));
fail:
    nfa_deinit(&nfa);
    arena_deinit(&pattern_arena);
    return status;
}
