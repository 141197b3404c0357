/* Classes are collected as ranges; what a letter such as \w stands for is a list of them. */
#include "text/grammar/pattern_class.h"

#include <string.h>

#include "text/utf8.h"

enum { CLASS_RANGES_MAX = 2000 };

struct class_ranges {
    struct code_point_range ranges[CLASS_RANGES_MAX];
    size_t count;
};

int pattern_offset(const struct pattern_reader *reader) {
    return (int)(reader->at - reader->start);
}

enum status pattern_read_character(struct pattern_reader *reader, uint32_t *out) {
    struct utf8_step step = utf8_next(reader->at, (size_t)(reader->end - reader->at));
    CHECK(step.kind == UTF8_CHARACTER, STATUS_BAD_FORMAT, "%s is not valid UTF-8 at byte %d", reader->what,
          pattern_offset(reader));
    *out = step.code_point;
    reader->at += step.length;
    return STATUS_OK;
}

static const struct code_point_range digit_ranges[] = {{'0', '9'}};
static const struct code_point_range word_ranges[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct code_point_range space_ranges[] = {{'\t', '\r'}, {' ', ' '}};

/* The ranges of \d, \w and \s by the letter in lower case; 0 if it is none of them. */
static size_t ranges_of_letter(uint32_t letter, const struct code_point_range **out) {
    switch (letter | 0x20) {
    case 'd':
        *out = digit_ranges;
        return 1;
    case 'w':
        *out = word_ranges;
        return 4;
    case 's':
        *out = space_ranges;
        return 2;
    default:
        return 0;
    }
}

static int hex_value(char byte) {
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    char lower = (char)(byte | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static enum status read_hex(struct pattern_reader *reader, int digit_count, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < digit_count; i++) {
        int digit = reader->at < reader->end ? hex_value(*reader->at) : -1;
        CHECK(digit >= 0, STATUS_BAD_FORMAT, "%s has an escape at byte %d that lacks its %d hex digits",
              reader->what, pattern_offset(reader), digit_count);
        *out = *out << 4 | (uint32_t)digit;
        reader->at++;
    }
    return STATUS_OK;
}

/* \u{...} */
static enum status read_braced_hex(struct pattern_reader *reader, uint32_t *out) {
    *out = 0;
    reader->at++;
    while (reader->at < reader->end && hex_value(*reader->at) >= 0 && *out < SYMBOL_CODE_POINTS) {
        *out = *out << 4 | (uint32_t)hex_value(*reader->at++);
    }
    CHECK(reader->at < reader->end && *reader->at == '}' && *out < SYMBOL_CODE_POINTS, STATUS_BAD_FORMAT,
          "%s has an escape at byte %d that is no character", reader->what, pattern_offset(reader));
    reader->at++;
    return STATUS_OK;
}

/* The character that an escape stands for; the letter has been read. */
static enum status read_escaped_character(struct pattern_reader *reader, uint32_t letter, uint32_t *out) {
    static const char letters[] = "nrtfv0";
    static const char values[] = "\n\r\t\f\v";
    const char *found = letter < 0x80 && letter != 0 ? strchr(letters, (int)letter) : NULL;
    if (found != NULL) {
        *out = (uint32_t)values[found - letters];
        return STATUS_OK;
    }
    if (letter == 'x') {
        return read_hex(reader, 2, out);
    }
    if (letter == 'u') {
        bool is_braced = reader->at < reader->end && *reader->at == '{';
        return is_braced ? read_braced_hex(reader, out) : read_hex(reader, 4, out);
    }
    if (letter == 'U') {
        TRY(read_hex(reader, 8, out));
        CHECK(*out < SYMBOL_CODE_POINTS, STATUS_BAD_FORMAT,
              "%s has an escape at byte %d that is no character", reader->what, pattern_offset(reader));
        return STATUS_OK;
    }
    bool is_alphanumeric = letter < 0x80 && ((letter >= '0' && letter <= '9') ||
                                             ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z'));
    CHECK(!is_alphanumeric, STATUS_UNSUPPORTED,
          "%s has the escape \\%c before byte %d, which is not supported; write out what it stands for",
          reader->what, (int)letter, pattern_offset(reader));
    *out = letter;
    return STATUS_OK;
}

static enum status refuse_named_escape(const struct pattern_reader *reader, uint32_t letter) {
    const char *name = letter == 'b' || letter == 'B'   ? "a word boundary"
                       : letter >= '1' && letter <= '9' ? "a reference back to a group"
                       : letter == 'k'                  ? "a reference back to a group"
                       : letter == 'p' || letter == 'P' ? "a Unicode property"
                                                        : NULL;
    CHECK(name == NULL, STATUS_UNSUPPORTED,
          "%s has %s (\\%c) before byte %d, which is not supported; rewrite it without", reader->what, name,
          (int)letter, pattern_offset(reader));
    return STATUS_OK;
}

static enum status read_escape_letter(struct pattern_reader *reader, uint32_t *letter) {
    CHECK(reader->at < reader->end, STATUS_BAD_FORMAT, "%s ends with a backslash", reader->what);
    return pattern_read_character(reader, letter);
}

enum status pattern_read_escape(struct pattern_reader *reader, struct expression **out) {
    uint32_t letter;
    const struct code_point_range *ranges;
    TRY(read_escape_letter(reader, &letter));
    TRY(refuse_named_escape(reader, letter));
    size_t range_count = ranges_of_letter(letter, &ranges);
    if (range_count > 0) {
        *out = expression_new_class(reader->arena, ranges, range_count, letter < 'a');
    } else if (letter == 'A' || letter == 'z' || letter == 'Z') {
        *out = expression_new(reader->arena, letter == 'A' ? EXPRESSION_AT_START : EXPRESSION_AT_END);
    } else {
        uint32_t character;
        TRY(read_escaped_character(reader, letter, &character));
        *out = expression_new_range(reader->arena, character, character);
    }
    CHECK_MEMORY(*out);
    return STATUS_OK;
}

static enum status add_range(const struct pattern_reader *reader, struct class_ranges *class, uint32_t first,
                             uint32_t last) {
    CHECK(first <= last, STATUS_BAD_FORMAT, "%s has a range that runs backwards before byte %d", reader->what,
          pattern_offset(reader));
    CHECK(class->count < CLASS_RANGES_MAX, STATUS_UNSUPPORTED,
          "%s has a class with more than %d ranges before byte %d", reader->what, CLASS_RANGES_MAX,
          pattern_offset(reader));
    class->ranges[class->count++] = (struct code_point_range){first, last};
    return STATUS_OK;
}

/* Adds what a letter such as \d stands for, or its opposite. */
static enum status add_letter(const struct pattern_reader *reader, struct class_ranges *class,
                              const struct code_point_range *ranges, size_t count, bool is_negated) {
    const struct expression *expression = expression_new_class(reader->arena, ranges, count, is_negated);
    CHECK_MEMORY(expression);
    for (size_t i = 0; i < expression->range_count; i++) {
        TRY(add_range(reader, class, expression->ranges[i].first, expression->ranges[i].last));
    }
    return STATUS_OK;
}

/* One character inside brackets; *is_letter: it was a whole class, which has been added. */
static enum status read_class_item(struct pattern_reader *reader, struct class_ranges *class, uint32_t *out,
                                   bool *is_letter) {
    *is_letter = false;
    TRY(pattern_read_character(reader, out));
    if (*out != '\\') {
        return STATUS_OK;
    }
    uint32_t letter;
    const struct code_point_range *ranges;
    TRY(read_escape_letter(reader, &letter));
    size_t range_count = ranges_of_letter(letter, &ranges);
    if (range_count > 0) {
        *is_letter = true;
        return add_letter(reader, class, ranges, range_count, letter < 'a');
    }
    if (letter == 'b') {
        *out = '\b';
        return STATUS_OK;
    }
    TRY(refuse_named_escape(reader, letter));
    return read_escaped_character(reader, letter, out);
}

static bool is_range_next(const struct pattern_reader *reader) {
    return reader->end - reader->at >= 2 && reader->at[0] == '-' && reader->at[1] != ']';
}

enum status pattern_read_class(struct pattern_reader *reader, struct expression **out) {
    struct class_ranges class = {.count = 0};
    bool is_negated = reader->at < reader->end && *reader->at == '^';
    reader->at += is_negated;
    for (bool is_first = true;; is_first = false) {
        CHECK(reader->at < reader->end, STATUS_BAD_FORMAT, "%s has a class without its closing bracket",
              reader->what);
        if (*reader->at == ']' && !is_first) {
            reader->at++;
            break;
        }
        uint32_t first;
        uint32_t last;
        bool is_letter;
        TRY(read_class_item(reader, &class, &first, &is_letter));
        if (is_letter) {
            continue;
        }
        last = first;
        if (is_range_next(reader)) {
            reader->at++;
            TRY(read_class_item(reader, &class, &last, &is_letter));
            CHECK(!is_letter, STATUS_BAD_FORMAT, "%s has a range that ends with a class before byte %d",
                  reader->what, pattern_offset(reader));
        }
        TRY(add_range(reader, &class, first, last));
    }
    *out = expression_new_class(reader->arena, class.ranges, class.count, is_negated);
    CHECK_MEMORY(*out);
    return STATUS_OK;
}

/* Digits up to a number that is too large anyway; false without any. */
static bool take_number(const char **at, const char *end, uint32_t *out) {
    const char *start = *at;
    *out = 0;
    while (*at < end && **at >= '0' && **at <= '9') {
        *out = *out > 100000000 ? *out : *out * 10 + (uint32_t)(**at - '0');
        ++*at;
    }
    return *at > start;
}

/* {m}, {m,}, {,n} or {m,n}; anything else behind a brace is text. */
static bool take_counts(struct pattern_reader *reader, uint32_t *minimum, uint32_t *maximum) {
    const char *at = reader->at;
    if (at == reader->end || *at++ != '{') {
        return false;
    }
    bool has_minimum = take_number(&at, reader->end, minimum);
    *maximum = *minimum;
    if (at < reader->end && *at == ',') {
        at++;
        if (!take_number(&at, reader->end, maximum)) {
            if (!has_minimum) {
                return false;
            }
            *maximum = UINT32_MAX;
        }
    } else if (!has_minimum) {
        return false;
    }
    if (at == reader->end || *at != '}') {
        return false;
    }
    reader->at = at + 1;
    return true;
}

bool pattern_take_quantifier(struct pattern_reader *reader, uint32_t *minimum, uint32_t *maximum) {
    static const struct {
        char sign;
        uint32_t minimum, maximum;
    } signs[] = {{'*', 0, UINT32_MAX}, {'+', 1, UINT32_MAX}, {'?', 0, 1}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs && reader->at < reader->end; i++) {
        if (*reader->at == signs[i].sign) {
            reader->at++;
            *minimum = signs[i].minimum;
            *maximum = signs[i].maximum;
            return true;
        }
    }
    return take_counts(reader, minimum, maximum);
}
