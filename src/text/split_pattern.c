/* One pass over the pattern that knows escapes, classes, groups and quantifiers. */
#include "text/split_pattern.h"

#include <stdbool.h>
#include <string.h>

#include "text/unicode_additions.h"

struct translation {
    const char *pattern;
    size_t length;
    size_t position;
    const char *what;
    struct string_buffer *out;
    bool is_in_class;
};

static bool is_ascii_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

static bool is_ascii_alphanumeric(char byte) {
    return is_ascii_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* The byte `ahead` of the position, NUL behind the end. */
static char peek(const struct translation *state, size_t ahead) {
    size_t position = state->position + ahead;
    return position < state->length ? state->pattern[position] : '\0';
}

static void copy(struct translation *state, size_t count) {
    string_buffer_append(state->out, state->pattern + state->position, count);
    state->position += count;
}

/* The length of a letter escape with its braces, as in \p{Lu} and \x{200B}; 0 if it has none. */
static size_t braced_escape_length(const struct translation *state) {
    const char *start = state->pattern + state->position;
    const char *end = memchr(start, '}', state->length - state->position);
    return peek(state, 2) == '{' && end != NULL ? (size_t)(end - start) + 1 : 0;
}

/* Writes "\p{category}" with the characters that newer versions of Unicode have in it. */
static enum status write_category(struct translation *state, const char *category, size_t length,
                                  bool is_negated) {
    struct string_buffer *out = state->out;
    if (!state->is_in_class) {
        string_buffer_append_text(out, is_negated ? "[^" : "[");
    }
    string_buffer_append_text(out, "\\p{");
    string_buffer_append(out, category, length);
    string_buffer_append_char(out, '}');
    unicode_additions_append_ranges(category, length, out);
    if (!state->is_in_class) {
        string_buffer_append_char(out, ']');
    }
    CHECK(!is_negated || !state->is_in_class, STATUS_UNSUPPORTED,
          "%s has a negated category within a class at byte %zu, which is not supported", state->what,
          state->position);
    return STATUS_OK;
}

/* \p{...} and \P{...} with a general category: one letter for a group, two for one category. */
static enum status translate_property(struct translation *state) {
    size_t length = braced_escape_length(state);
    const char *name = state->pattern + state->position + 3;
    size_t name_length = length < 4 ? 0 : length - 4;
    bool is_group = name_length >= 1 && memchr("LMNPSZ", name[0], 6) != NULL;
    bool is_category = name_length == 1 || (name_length == 2 && name[1] >= 'a' && name[1] <= 'z');
    CHECK(
        is_group && is_category, STATUS_UNSUPPORTED,
        "%s uses a property at byte %zu that is not a general category of L, M, N, P, S or Z; only those are "
        "supported",
        state->what, state->position);
    TRY(write_category(state, name, name_length, peek(state, 1) == 'P'));
    state->position += length;
    return STATUS_OK;
}

static enum status translate_code_point(struct translation *state) {
    size_t length = braced_escape_length(state);
    CHECK(length > 0, STATUS_UNSUPPORTED,
          "%s uses the escape \\x without braces at byte %zu, which is not supported", state->what,
          state->position);
    copy(state, length);
    return STATUS_OK;
}

static enum status translate_escape(struct translation *state) {
    CHECK(state->position + 1 < state->length, STATUS_BAD_FORMAT, "%s ends with a lone backslash",
          state->what);
    char escaped = peek(state, 1);
    switch (escaped) {
    case 's':
    case 'S':
        string_buffer_append_text(state->out, escaped == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
        state->position += 2;
        return STATUS_OK;
    case 'd':
    case 'D':
        TRY(write_category(state, "Nd", 2, escaped == 'D'));
        state->position += 2;
        return STATUS_OK;
    case 'p':
    case 'P':
        return translate_property(state);
    case 'x':
        return translate_code_point(state);
    case 'r':
    case 'n':
    case 't':
        copy(state, 2);
        return STATUS_OK;
    default:
        CHECK(!is_ascii_alphanumeric(escaped), STATUS_UNSUPPORTED,
              "%s uses the escape \\%c at byte %zu, which is not supported", state->what, escaped,
              state->position);
        copy(state, 2);
        return STATUS_OK;
    }
}

static enum status translate_in_class(struct translation *state) {
    char byte = peek(state, 0);
    CHECK(byte != '[' && !(byte == '&' && peek(state, 1) == '&'), STATUS_UNSUPPORTED,
          "%s uses a class within a class at byte %zu, which is not supported", state->what, state->position);
    state->is_in_class = byte != ']';
    copy(state, 1);
    return STATUS_OK;
}

/* "(?" may start a plain, caseless or atomic group or a look-around; "(*" is a command to the library. */
static enum status translate_group(struct translation *state) {
    static const char *const openings[] = {"(?:", "(?i:", "(?>", "(?=", "(?!", "(?<=", "(?<!"};
    if (peek(state, 1) != '?' && peek(state, 1) != '*') {
        copy(state, 1);
        return STATUS_OK;
    }
    for (size_t i = 0; i < sizeof openings / sizeof openings[0]; i++) {
        size_t length = strlen(openings[i]);
        if (length <= state->length - state->position &&
            memcmp(state->pattern + state->position, openings[i], length) == 0) {
            copy(state, length);
            return STATUS_OK;
        }
    }
    FAIL(STATUS_UNSUPPORTED, "%s uses a kind of group at byte %zu that is not supported", state->what,
         state->position);
}

/* {n}, {n,} and {n,m}. A plus behind them repeats there and forbids backtracking here. */
static enum status translate_repeat(struct translation *state) {
    const char *start = state->pattern + state->position;
    const char *end = memchr(start, '}', state->length - state->position);
    CHECK(end != NULL && is_ascii_digit(peek(state, 1)) && peek(state, (size_t)(end - start) + 1) != '+',
          STATUS_UNSUPPORTED, "%s uses a kind of repeat at byte %zu that is not supported", state->what,
          state->position);
    copy(state, (size_t)(end - start) + 1);
    return STATUS_OK;
}

static enum status translate_next(struct translation *state) {
    char byte = peek(state, 0);
    if (byte == '\\') {
        return translate_escape(state);
    }
    if (state->is_in_class) {
        return translate_in_class(state);
    }
    switch (byte) {
    case '[':
        state->is_in_class = true;
        copy(state, peek(state, 1) == '^' ? 2 : 1);
        if (peek(state, 0) == ']') {
            copy(state, 1);
        }
        return STATUS_OK;
    case '(':
        return translate_group(state);
    case '{':
        return translate_repeat(state);
    case '^':
    case '$':
        FAIL(STATUS_UNSUPPORTED, "%s uses the anchor %c at byte %zu, which is not supported", state->what,
             byte, state->position);
    default:
        copy(state, 1);
        return STATUS_OK;
    }
}

enum status split_pattern_translate(const char *pattern, size_t length, const char *what,
                                    struct string_buffer *out) {
    struct translation state = {.pattern = pattern, .length = length, .what = what, .out = out};
    while (state.position < state.length) {
        TRY(translate_next(&state));
    }
    TRY(string_buffer_check(out));
    return STATUS_OK;
}
