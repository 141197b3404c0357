/* A checker by recursive-descent rules without recursion: open brackets are remembered in an array. */
#include "text/json_text.h"

#include <string.h>

enum { JSON_TEXT_DEPTH_MAX = 512 };

struct scanner {
    const char *at, *end;
};

static void skip_blanks(struct scanner *scanner) {
    while (scanner->at < scanner->end && memchr(" \t\r\n", *scanner->at, 4) != NULL) {
        scanner->at++;
    }
}

static bool take(struct scanner *scanner, char byte) {
    if (scanner->at == scanner->end || *scanner->at != byte) {
        return false;
    }
    scanner->at++;
    return true;
}

static bool take_word(struct scanner *scanner, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(scanner->end - scanner->at) < length || memcmp(scanner->at, word, length) != 0) {
        return false;
    }
    scanner->at += length;
    return true;
}

static bool take_digits(struct scanner *scanner) {
    const char *start = scanner->at;
    while (scanner->at < scanner->end && *scanner->at >= '0' && *scanner->at <= '9') {
        scanner->at++;
    }
    return scanner->at > start;
}

static bool take_number(struct scanner *scanner) {
    take(scanner, '-');
    if (!take(scanner, '0') && !take_digits(scanner)) {
        return false;
    }
    if (take(scanner, '.') && !take_digits(scanner)) {
        return false;
    }
    if (take(scanner, 'e') || take(scanner, 'E')) {
        if (!take(scanner, '+')) {
            take(scanner, '-');
        }
        return take_digits(scanner);
    }
    return true;
}

static bool take_escape(struct scanner *scanner) {
    if (take(scanner, 'u')) {
        for (int i = 0; i < 4; i++) {
            if (scanner->at == scanner->end || *scanner->at == '\0' ||
                strchr("0123456789abcdefABCDEF", *scanner->at) == NULL) {
                return false;
            }
            scanner->at++;
        }
        return true;
    }
    if (scanner->at == scanner->end || memchr("\"\\/bfnrt", *scanner->at, 8) == NULL) {
        return false;
    }
    scanner->at++;
    return true;
}

static bool take_string(struct scanner *scanner) {
    if (!take(scanner, '"')) {
        return false;
    }
    while (scanner->at < scanner->end && *scanner->at != '"') {
        char byte = *scanner->at++;
        if ((unsigned char)byte < 0x20 || (byte == '\\' && !take_escape(scanner))) {
            return false;
        }
    }
    return take(scanner, '"');
}

static bool take_scalar(struct scanner *scanner) {
    if (scanner->at == scanner->end) {
        return false;
    }
    switch (*scanner->at) {
    case '"':
        return take_string(scanner);
    case 't':
        return take_word(scanner, "true");
    case 'f':
        return take_word(scanner, "false");
    case 'n':
        return take_word(scanner, "null");
    default:
        return take_number(scanner);
    }
}

/* `"key" :` and the blanks after it. */
static bool take_key(struct scanner *scanner) {
    skip_blanks(scanner);
    if (!take_string(scanner)) {
        return false;
    }
    skip_blanks(scanner);
    if (!take(scanner, ':')) {
        return false;
    }
    skip_blanks(scanner);
    return true;
}

/* After a value: closes brackets and takes the comma that leads to the next value. */
static bool take_after_value(struct scanner *scanner, const char *closers, size_t *depth) {
    for (;;) {
        skip_blanks(scanner);
        if (*depth == 0) {
            return true;
        }
        if (take(scanner, closers[*depth - 1])) {
            (*depth)--;
            continue;
        }
        return take(scanner, ',') && (closers[*depth - 1] == ']' || take_key(scanner));
    }
}

bool json_text_is_valid(const char *bytes, size_t length) {
    struct scanner scanner = {bytes, bytes + length};
    char closers[JSON_TEXT_DEPTH_MAX];
    size_t depth = 0;
    do {
        skip_blanks(&scanner);
        bool is_array = take(&scanner, '[');
        if (is_array || take(&scanner, '{')) {
            if (depth == JSON_TEXT_DEPTH_MAX) {
                return false;
            }
            closers[depth++] = is_array ? ']' : '}';
            skip_blanks(&scanner);
            bool is_empty = take(&scanner, closers[depth - 1]);
            if (!is_empty) {
                if (!is_array && !take_key(&scanner)) {
                    return false;
                }
                continue;
            }
            depth--;
        } else if (!take_scalar(&scanner)) {
            return false;
        }
        if (!take_after_value(&scanner, closers, &depth)) {
            return false;
        }
    } while (depth > 0);
    return scanner.at == scanner.end;
}

void json_text_append_escaped(struct string_buffer *out, const char *bytes, size_t length) {
    static const char letters[] = "\"\\\n\r\t\b\f";
    static const char escapes[] = "\"\\nrtbf";
    size_t plain_start = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        const char *letter = byte == 0 ? NULL : strchr(letters, byte);
        if (letter == NULL && byte >= 0x20) {
            continue;
        }
        string_buffer_append(out, bytes + plain_start, i - plain_start);
        plain_start = i + 1;
        if (letter != NULL) {
            string_buffer_append_char(out, '\\');
            string_buffer_append_char(out, escapes[letter - letters]);
        } else {
            string_buffer_append_format(out, "\\u%04x", byte);
        }
    }
    string_buffer_append(out, bytes + plain_start, length - plain_start);
}
