/* Recursive descent over the characters; blanks and comments are skipped between all parts. */
#include <string.h>

#include "text/grammar/ebnf_internal.h"
#include "text/grammar/pattern.h"
#include "text/grammar/pattern_class.h"
#include "text/utf8.h"

struct ebnf_reader {
    struct pattern_reader text;
    struct ebnf_rules *rules;
};

static int line_of(const struct ebnf_reader *reader) {
    int line = 1;
    for (const char *at = reader->text.start; at < reader->text.at; at++) {
        line += *at == '\n';
    }
    return line;
}

static bool is_next(const struct ebnf_reader *reader, const char *word) {
    size_t length = strlen(word);
    return (size_t)(reader->text.end - reader->text.at) >= length &&
           memcmp(reader->text.at, word, length) == 0;
}

static bool take(struct ebnf_reader *reader, const char *word) {
    bool is_taken = is_next(reader, word);
    reader->text.at += is_taken ? strlen(word) : 0;
    return is_taken;
}

static bool is_at_end(const struct ebnf_reader *reader) {
    return reader->text.at == reader->text.end;
}

static void skip_blanks(struct ebnf_reader *reader) {
    while (!is_at_end(reader)) {
        if (strchr(" \t\r\n", *reader->text.at) != NULL && *reader->text.at != '\0') {
            reader->text.at++;
        } else if (*reader->text.at == '#' || is_next(reader, "//")) {
            while (!is_at_end(reader) && *reader->text.at != '\n') {
                reader->text.at++;
            }
        } else {
            return;
        }
    }
}

static bool is_name_byte(char byte, bool is_first) {
    bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
    return is_letter || (!is_first && ((byte >= '0' && byte <= '9') || byte == '-'));
}

static size_t name_length(const struct ebnf_reader *reader) {
    size_t length = 0;
    while (reader->text.at + length < reader->text.end &&
           is_name_byte(reader->text.at[length], length == 0)) {
        length++;
    }
    /* "->" behind a name is an alias, not a part of it */
    while (length > 0 && reader->text.at[length - 1] == '-') {
        length--;
    }
    return length;
}

/* Whether a rule begins here; moves behind its sign and returns its name if so. */
static bool take_rule_head(struct ebnf_reader *reader, const char **name, size_t *length) {
    struct ebnf_reader ahead = *reader;
    if (!take(&ahead, "?")) {
        take(&ahead, "!");
    }
    *name = ahead.text.at;
    *length = name_length(&ahead);
    ahead.text.at += *length;
    skip_blanks(&ahead);
    bool is_head = *length > 0 && (take(&ahead, "::=") || take(&ahead, ":=") || take(&ahead, ":"));
    if (is_head) {
        *reader = ahead;
    }
    return is_head;
}

static bool is_rule_head(const struct ebnf_reader *reader) {
    struct ebnf_reader ahead = *reader;
    const char *name;
    size_t length;
    return take_rule_head(&ahead, &name, &length);
}

/* The rule's number; it is added if it is new. */
static enum status find_rule(struct ebnf_reader *reader, const char *name, size_t length, uint32_t *out) {
    struct ebnf_rules *rules = reader->rules;
    for (uint32_t i = 0; i < rules->count; i++) {
        if (strlen(rules->rules[i].name) == length && memcmp(rules->rules[i].name, name, length) == 0) {
            *out = i;
            return STATUS_OK;
        }
    }
    CHECK(rules->count < EBNF_RULES_MAX, STATUS_UNSUPPORTED, "the grammar has more than %d rules",
          EBNF_RULES_MAX);
    const char *copy = arena_copy_string(reader->text.arena, name, length);
    CHECK_MEMORY(copy);
    *out = rules->count;
    rules->rules[rules->count++] = (struct ebnf_rule){.name = copy, .line = line_of(reader)};
    return STATUS_OK;
}

static enum status parse_choice(struct ebnf_reader *reader, int depth, struct expression **out);

/* A character of a string; both cases of a letter if asked for. */
static struct expression *new_character(struct arena *arena, uint32_t character, bool is_any_case) {
    uint32_t lower = character | 0x20;
    if (is_any_case && character < 0x80 && lower >= 'a' && lower <= 'z') {
        const struct code_point_range both[] = {{lower, lower}, {lower & ~0x20u, lower & ~0x20u}};
        return expression_new_class(arena, both, 2, false);
    }
    return expression_new_range(arena, character, character);
}

/* Text up to the quote, which has been read once. */
static enum status parse_text(struct ebnf_reader *reader, char quote, struct expression **out) {
    const char *closing = reader->text.at;
    while (closing < reader->text.end && *closing != quote && *closing != '\n') {
        closing += *closing == '\\' && closing + 1 < reader->text.end ? 2 : 1;
    }
    CHECK(closing < reader->text.end && *closing == quote, STATUS_BAD_FORMAT,
          "the grammar has a string without its closing quote in line %d", line_of(reader));
    bool is_any_case = closing + 1 < reader->text.end && closing[1] == 'i' &&
                       (closing + 2 == reader->text.end || !is_name_byte(closing[2], false));
    *out = expression_new(reader->text.arena, EXPRESSION_SEQUENCE);
    CHECK_MEMORY(*out);
    while (reader->text.at < closing) {
        struct expression *item;
        if (take(reader, "\\")) {
            TRY(pattern_read_escape(&reader->text, &item));
        } else {
            uint32_t character;
            TRY(pattern_read_character(&reader->text, &character));
            item = new_character(reader->text.arena, character, is_any_case);
            CHECK_MEMORY(item);
        }
        expression_append(*out, item);
    }
    reader->text.at = closing + 1 + is_any_case;
    return STATUS_OK;
}

/* A regular expression between slashes; the first has been read. */
static enum status parse_pattern(struct ebnf_reader *reader, struct expression **out) {
    const char *closing = reader->text.at;
    while (closing < reader->text.end && *closing != '/' && *closing != '\n') {
        closing += *closing == '\\' && closing + 1 < reader->text.end ? 2 : 1;
    }
    CHECK(closing < reader->text.end && *closing == '/', STATUS_BAD_FORMAT,
          "the grammar has a regular expression without its closing slash in line %d", line_of(reader));
    const char *what =
        arena_format(reader->text.arena, "the grammar's regular expression in line %d", line_of(reader));
    CHECK_MEMORY(what);
    TRY(pattern_parse(reader->text.at, (size_t)(closing - reader->text.at), what, reader->text.arena, out));
    reader->text.at = closing + 1;
    bool has_flags = !is_at_end(reader) && is_name_byte(*reader->text.at, true);
    CHECK(!has_flags, STATUS_UNSUPPORTED,
          "the grammar's regular expression in line %d has flags, which are not supported", line_of(reader));
    return STATUS_OK;
}

static enum status parse_reference(struct ebnf_reader *reader, struct expression **out) {
    size_t length = name_length(reader);
    CHECK(length > 0, STATUS_BAD_FORMAT,
          "the grammar has something in line %d that is no rule, string, class, group or regular expression",
          line_of(reader));
    *out = expression_new(reader->text.arena, EXPRESSION_CALL);
    CHECK_MEMORY(*out);
    TRY(find_rule(reader, reader->text.at, length, &(*out)->rule));
    reader->text.at += length;
    return STATUS_OK;
}

static enum status parse_item(struct ebnf_reader *reader, int depth, struct expression **out) {
    static const struct code_point_range newline = {'\n', '\n'};
    if (take(reader, "(")) {
        CHECK(depth < EXPRESSION_DEPTH_MAX, STATUS_UNSUPPORTED,
              "the grammar nests groups deeper than %d levels", EXPRESSION_DEPTH_MAX);
        TRY(parse_choice(reader, depth + 1, out));
        CHECK(take(reader, ")"), STATUS_BAD_FORMAT,
              "the grammar has a group without its closing parenthesis in line %d", line_of(reader));
        return STATUS_OK;
    }
    if (take(reader, "\"")) {
        return parse_text(reader, '"', out);
    }
    if (take(reader, "'")) {
        return parse_text(reader, '\'', out);
    }
    if (take(reader, "[")) {
        return pattern_read_class(&reader->text, out);
    }
    if (take(reader, "/")) {
        return parse_pattern(reader, out);
    }
    if (take(reader, ".")) {
        *out = expression_new_class(reader->text.arena, &newline, 1, true);
        CHECK_MEMORY(*out);
        return STATUS_OK;
    }
    return parse_reference(reader, out);
}

static enum status parse_repeat(struct ebnf_reader *reader, int depth, struct expression **out) {
    uint32_t minimum;
    uint32_t maximum;
    TRY(parse_item(reader, depth, out));
    for (;;) {
        struct ebnf_reader ahead = *reader;
        skip_blanks(&ahead);
        if (is_rule_head(&ahead) || !pattern_take_quantifier(&ahead.text, &minimum, &maximum)) {
            return STATUS_OK;
        }
        *reader = ahead;
        CHECK(minimum <= maximum, STATUS_BAD_FORMAT, "the grammar has counts that run backwards in line %d",
              line_of(reader));
        struct expression *repeat = expression_new(reader->text.arena, EXPRESSION_REPEAT);
        CHECK_MEMORY(repeat);
        repeat->minimum = minimum;
        repeat->maximum = maximum;
        expression_append(repeat, *out);
        *out = repeat;
    }
}

/* Lark's name for an alternative. */
static void skip_alias(struct ebnf_reader *reader) {
    skip_blanks(reader);
    if (take(reader, "->")) {
        skip_blanks(reader);
        reader->text.at += name_length(reader);
        skip_blanks(reader);
    }
}

static enum status parse_sequence(struct ebnf_reader *reader, int depth, struct expression **out) {
    *out = expression_new(reader->text.arena, EXPRESSION_SEQUENCE);
    CHECK_MEMORY(*out);
    for (skip_alias(reader); !is_at_end(reader) && !is_next(reader, "|") && !is_next(reader, ")");
         skip_alias(reader)) {
        if (is_rule_head(reader)) {
            return STATUS_OK;
        }
        CHECK(!is_next(reader, "%"), STATUS_UNSUPPORTED,
              "the grammar has a directive (%%) in line %d, which is not supported; write its rules out",
              line_of(reader));
        struct expression *item;
        TRY(parse_repeat(reader, depth, &item));
        expression_append(*out, item);
    }
    return STATUS_OK;
}

static enum status parse_choice(struct ebnf_reader *reader, int depth, struct expression **out) {
    *out = expression_new(reader->text.arena, EXPRESSION_CHOICE);
    CHECK_MEMORY(*out);
    do {
        struct expression *sequence;
        TRY(parse_sequence(reader, depth, &sequence));
        expression_append(*out, sequence);
    } while (take(reader, "|"));
    return STATUS_OK;
}

static enum status parse_rule(struct ebnf_reader *reader) {
    const char *name;
    size_t length;
    uint32_t rule;
    CHECK(!is_next(reader, "%"), STATUS_UNSUPPORTED,
          "the grammar has a directive (%%) in line %d, which is not supported; write its rules out",
          line_of(reader));
    CHECK(take_rule_head(reader, &name, &length), STATUS_BAD_FORMAT,
          "the grammar has something in line %d where a rule, NAME ::= ..., should begin", line_of(reader));
    TRY(find_rule(reader, name, length, &rule));
    CHECK(reader->rules->rules[rule].expression == NULL, STATUS_BAD_FORMAT,
          "the grammar defines the rule \"%s\" twice, the second time in line %d",
          reader->rules->rules[rule].name, line_of(reader));
    return parse_choice(reader, 0, &reader->rules->rules[rule].expression);
}

enum status ebnf_parse(const char *text, size_t length, struct arena *arena, struct ebnf_rules *out) {
    struct ebnf_reader reader = {{text, text, text + length, "the grammar", arena}, out};
    CHECK(length <= 1 << 20, STATUS_UNSUPPORTED, "the grammar is longer than 1 MiB");
    CHECK(utf8_valid_length(text, length) == length, STATUS_BAD_FORMAT, "the grammar is not valid UTF-8");
    for (skip_blanks(&reader); !is_at_end(&reader); skip_blanks(&reader)) {
        TRY(parse_rule(&reader));
        CHECK(!is_next(&reader, ")"), STATUS_BAD_FORMAT,
              "the grammar has a closing parenthesis too many in line %d", line_of(&reader));
    }
    for (uint32_t i = 0; i < out->count; i++) {
        CHECK(out->rules[i].expression != NULL, STATUS_BAD_FORMAT,
              "the grammar uses the rule \"%s\" in line %d and does not define it", out->rules[i].name,
              out->rules[i].line);
    }
    return STATUS_OK;
}
