/* A parameter's name may hold quotes: the official grammar ends it at the last attribute, not at a quote. */
#include "text/dsml_tag.h"

#include <string.h>

static const char name_opening[] = " name=\"";
static const char string_true[] = "\" string=\"true\"";
static const char string_false[] = "\" string=\"false\"";

static bool ends_with(const char *text, size_t length, const char *ending) {
    size_t ending_length = strlen(ending);
    return length >= ending_length && memcmp(text + length - ending_length, ending, ending_length) == 0;
}

enum dsml_tag_kind dsml_tag_kind_of(const char *name, size_t length) {
    static const struct {
        const char *name;
        enum dsml_tag_kind kind;
    } tags[] = {{"tool_calls", DSML_TAG_TOOL_CALLS},
                {"function_calls", DSML_TAG_TOOL_CALLS},
                {"invoke", DSML_TAG_INVOKE},
                {"parameter", DSML_TAG_PARAMETER}};
    while (length > 0 && *name == ' ') {
        name++;
        length--;
    }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (strlen(tags[i].name) == length && memcmp(tags[i].name, name, length) == 0) {
            return tags[i].kind;
        }
    }
    return DSML_TAG_UNKNOWN;
}

bool dsml_is_parameter_attributes(const char *text, size_t length) {
    const size_t opening_length = sizeof name_opening - 1;
    return length >= opening_length && memcmp(text, name_opening, opening_length) == 0 &&
           (ends_with(text + opening_length, length - opening_length, string_true) ||
            ends_with(text + opening_length, length - opening_length, string_false));
}

/* A piece of the attribute text. */
struct word {
    const char *bytes;
    size_t length;
};

static bool is_blank(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static void skip_blanks(const char **at, const char *end) {
    while (*at < end && is_blank(**at)) {
        ++*at;
    }
}

/* A quoted value up to its closing quote, or a bare one up to a blank. An unclosed quote ends at '>' too. */
static struct word take_value(const char **at, const char *end) {
    char quote = *at < end && (**at == '"' || **at == '\'') ? *(*at)++ : '\0';
    const char *start = *at;
    const char *closing = quote == '\0' ? NULL : memchr(start, quote, (size_t)(end - start));
    if (closing != NULL) {
        *at = closing + 1;
        return (struct word){start, (size_t)(closing - start)};
    }
    while (*at < end && **at != '>' && **at != '\n' && (quote != '\0' || !is_blank(**at))) {
        ++*at;
    }
    return (struct word){start, (size_t)(*at - start)};
}

static struct word take_key(const char **at, const char *end) {
    const char *start = *at;
    while (*at < end && !is_blank(**at) && **at != '=') {
        ++*at;
    }
    return (struct word){start, (size_t)(*at - start)};
}

static bool is_word(struct word word, const char *text) {
    return word.length == strlen(text) && memcmp(word.bytes, text, word.length) == 0;
}

struct dsml_attributes dsml_attributes_parse(const char *text, size_t length) {
    struct dsml_attributes attributes = {.is_string = true};
    if (dsml_is_parameter_attributes(text, length)) {
        attributes.is_string = ends_with(text, length, string_true);
        const size_t around =
            sizeof name_opening + (attributes.is_string ? sizeof string_true : sizeof string_false) - 2;
        attributes.name = text + sizeof name_opening - 1;
        attributes.name_length = length - around;
        return attributes;
    }
    const char *at = text;
    const char *end = text + length;
    for (;;) {
        skip_blanks(&at, end);
        if (at == end) {
            return attributes;
        }
        struct word key = take_key(&at, end);
        skip_blanks(&at, end);
        struct word value = {NULL, 0};
        if (at < end && *at == '=') {
            at++;
            skip_blanks(&at, end);
            value = take_value(&at, end);
        }
        if (is_word(key, "name") && attributes.name == NULL) {
            attributes.name = value.bytes;
            attributes.name_length = value.length;
        } else if (is_word(key, "string")) {
            attributes.is_string = !is_word(value, "false");
        }
    }
}
