/*
 * JSON over jansson: struct json is jansson's json_t under our name.
 *
 * Parsing and values are the library's. Writing is ours, because prompts need Python's number and separator
 * style to the byte and jansson prints reals with 17 digits. Numbers are read and printed in the C locale.
 */
#include "lib/json.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_map.h"

/* Far above what a configuration or request needs, far below what our recursion could not stand. */
enum { JSON_DEPTH_MAX = 512 };

static json_t *library_value(const struct json *value) {
    return (json_t *)(uintptr_t)value;
}

static struct json *own_value(json_t *value) {
    return (struct json *)value;
}

/* Whether brackets nest deeper than we allow; jansson's own limit is 2048 and not adjustable. */
static bool is_too_deep(const char *bytes, size_t length) {
    size_t depth = 0;
    bool is_in_string = false;
    for (size_t i = 0; i < length; i++) {
        char byte = bytes[i];
        if (is_in_string) {
            if (byte == '\\') {
                i++;
            } else if (byte == '"') {
                is_in_string = false;
            }
        } else if (byte == '"') {
            is_in_string = true;
        } else if (byte == '[' || byte == '{') {
            if (++depth > JSON_DEPTH_MAX) {
                return true;
            }
        } else if ((byte == ']' || byte == '}') && depth > 0) {
            depth--;
        }
    }
    return false;
}

/* The library quotes the input in its messages; a terminal must not obey what it finds there. */
static void make_printable(char *text) {
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7F) {
            *text = '?';
        }
    }
}

enum status json_parse(const char *bytes, size_t length, const char *what, struct json **out) {
    *out = NULL;
    CHECK(length > 0, STATUS_BAD_FORMAT, "%s is empty; expected a JSON value", what);
    CHECK(!is_too_deep(bytes, length), STATUS_BAD_FORMAT,
          "%s is not accepted: it nests deeper than %d levels", what, JSON_DEPTH_MAX);
    json_error_t error;
    json_t *value =
        json_loadb(bytes, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (value == NULL) {
        make_printable(error.text);
        CHECK(json_error_code(&error) != json_error_out_of_memory, STATUS_OUT_OF_MEMORY,
              "out of memory while reading %s", what);
        CHECK(json_error_code(&error) != json_error_numeric_overflow, STATUS_BAD_FORMAT,
              "%s has a number that is too large: line %d, column %d: %s; whole numbers end at 2^63 - 1, "
              "others at 1.8e308",
              what, error.line, error.column, error.text);
        FAIL(STATUS_BAD_FORMAT, "%s is not valid JSON: line %d, column %d: %s", what, error.line,
             error.column, error.text);
    }
    *out = own_value(value);
    return STATUS_OK;
}

enum status json_parse_file(const char *path, size_t byte_limit, struct json **out) {
    *out = NULL;
    struct file_map map = {0};
    TRY(file_map_open(path, &map));
    enum status status = STATUS_OK;
    CHECK_GOTO(map.length <= byte_limit, STATUS_BAD_FORMAT,
               "%s has %zu bytes, at most %zu are read; is it the right file?", path, map.length, byte_limit);
    TRY_GOTO(json_parse((const char *)map.bytes, map.length, path, out));
fail:
    file_map_close(&map);
    return status;
}

void json_free(struct json **document) {
    json_decref(library_value(*document));
    *document = NULL;
}

enum json_kind json_kind(const struct json *value) {
    switch (json_typeof(library_value(value))) {
    case JSON_TRUE:
    case JSON_FALSE:
        return JSON_KIND_BOOL;
    case JSON_INTEGER:
        return JSON_KIND_INTEGER;
    case JSON_REAL:
        return JSON_KIND_REAL;
    case JSON_STRING:
        return JSON_KIND_STRING;
    case JSON_ARRAY:
        return JSON_KIND_ARRAY;
    case JSON_OBJECT:
        return JSON_KIND_OBJECT;
    default:
        return JSON_KIND_NULL;
    }
}

bool json_bool(const struct json *value) {
    return json_is_true(library_value(value));
}

int64_t json_int64(const struct json *value) {
    return json_integer_value(library_value(value));
}

double json_number(const struct json *value) {
    return json_number_value(library_value(value));
}

const char *json_text(const struct json *value, size_t *length) {
    const char *text = json_string_value(library_value(value));
    if (length != NULL) {
        *length = json_string_length(library_value(value));
    }
    return text;
}

size_t json_length(const struct json *value) {
    json_t *wrapped = library_value(value);
    return json_is_array(wrapped) ? json_array_size(wrapped) : json_object_size(wrapped);
}

const struct json *json_at(const struct json *array, size_t index) {
    return own_value(json_array_get(library_value(array), index));
}

const struct json *json_get(const struct json *object, const char *key) {
    return own_value(json_object_get(library_value(object), key));
}

/* A member is jansson's iterator. */
static void *library_member(const struct json_member *member) {
    return (void *)(uintptr_t)member;
}

const struct json_member *json_first(const struct json *object) {
    return json_object_iter(library_value(object));
}

const struct json_member *json_next(const struct json *object, const struct json_member *member) {
    return json_object_iter_next(library_value(object), library_member(member));
}

const char *json_member_key(const struct json_member *member, size_t *length) {
    if (length != NULL) {
        *length = json_object_iter_key_len(library_member(member));
    }
    return json_object_iter_key(library_member(member));
}

const struct json *json_member_value(const struct json_member *member) {
    return own_value(json_object_iter_value(library_member(member)));
}

struct json *json_new_object(void) {
    return own_value(json_object());
}

struct json *json_new_array(void) {
    return own_value(json_array());
}

struct json *json_new_string(const char *bytes, size_t length) {
    return own_value(json_stringn(bytes, length));
}

struct json *json_new_integer(int64_t value) {
    return own_value(json_pack("I", (json_int_t)value));
}

struct json *json_new_real(double value) {
    return own_value(json_real(value));
}

struct json *json_new_bool(bool value) {
    return own_value(value ? json_true() : json_false());
}

struct json *json_new_null(void) {
    return own_value(json_null());
}

bool json_set(struct json *object, const char *key, struct json *value) {
    return json_object_set_new(library_value(object), key, library_value(value)) == 0;
}

bool json_append(struct json *array, struct json *value) {
    return json_array_append_new(library_value(array), library_value(value)) == 0;
}

/* How a text separates items: after a comma, after a colon. */
struct separators {
    const char *item;
    const char *key;
};

/* The letter of the two-character escape of a byte, 0 if it has none. */
static char short_escape(unsigned char byte) {
    switch (byte) {
    case '"':
    case '\\':
        return (char)byte;
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    default:
        return 0;
    }
}

static void append_string(const char *bytes, size_t length, struct string_buffer *out) {
    string_buffer_append_char(out, '"');
    size_t plain_start = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        char letter = short_escape(byte);
        if (letter == 0 && byte >= 0x20) {
            continue;
        }
        string_buffer_append(out, bytes + plain_start, i - plain_start);
        plain_start = i + 1;
        if (letter != 0) {
            string_buffer_append_char(out, '\\');
            string_buffer_append_char(out, letter);
        } else {
            string_buffer_append_format(out, "\\u%04x", byte);
        }
    }
    string_buffer_append(out, bytes + plain_start, length - plain_start);
    string_buffer_append_char(out, '"');
}

/*
 * Prints `value` as d.ddde+XX with the fewest digits that read back as it. Above a power of two lie more
 * numbers that read back than below it, so the next larger decimal is tried too.
 */
static void format_shortest(double value, char *out, size_t out_bytes) {
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, out_bytes, "%.*e", digits - 1, value);
        if (strtod(out, NULL) == value) {
            return;
        }
        char *last = strchr(out, 'e') - 1;
        /* A last digit of 9 would carry into a decimal that fewer digits have tried. */
        if (*last != '9') {
            ++*last;
            if (strtod(out, NULL) == value) {
                return;
            }
        }
    }
}

/*
 * Lays the shortest digits out as Python's repr does: an exponent below 1e-4 and from 1e16 on, and always a
 * point or an exponent.
 */
static void append_real(double value, struct string_buffer *out) {
    char scientific[40];
    format_shortest(value, scientific, sizeof scientific);
    const char *cursor = scientific;
    if (*cursor == '-') {
        string_buffer_append_char(out, '-');
        cursor++;
    }
    char digits[20] = {0};
    int count = 0;
    for (; *cursor != 'e'; cursor++) {
        if (*cursor != '.') {
            digits[count++] = *cursor;
        }
    }
    int exponent = atoi(cursor + 1);
    if (exponent < -4 || exponent >= 16) {
        string_buffer_append_char(out, digits[0]);
        if (count > 1) {
            string_buffer_append_char(out, '.');
            string_buffer_append(out, digits + 1, (size_t)count - 1);
        }
        string_buffer_append_format(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    for (int place = exponent < 0 ? 0 : exponent; place > exponent - count || place >= -1; place--) {
        int index = exponent - place;
        string_buffer_append_char(out, index >= 0 && index < count ? digits[index] : '0');
        if (place == 0) {
            string_buffer_append_char(out, '.');
        }
    }
}

static void append_value(json_t *value, const struct separators *separators, struct string_buffer *out) {
    switch (json_typeof(value)) {
    case JSON_NULL:
        string_buffer_append_text(out, "null");
        break;
    case JSON_TRUE:
        string_buffer_append_text(out, "true");
        break;
    case JSON_FALSE:
        string_buffer_append_text(out, "false");
        break;
    case JSON_INTEGER:
        string_buffer_append_format(out, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        append_real(json_real_value(value), out);
        break;
    case JSON_STRING:
        append_string(json_string_value(value), json_string_length(value), out);
        break;
    case JSON_ARRAY:
        string_buffer_append_char(out, '[');
        for (size_t i = 0; i < json_array_size(value); i++) {
            string_buffer_append_text(out, i > 0 ? separators->item : "");
            append_value(json_array_get(value, i), separators, out);
        }
        string_buffer_append_char(out, ']');
        break;
    case JSON_OBJECT:
        string_buffer_append_char(out, '{');
        for (void *first = json_object_iter(value), *member = first; member != NULL;
             member = json_object_iter_next(value, member)) {
            string_buffer_append_text(out, member != first ? separators->item : "");
            append_string(json_object_iter_key(member), json_object_iter_key_len(member), out);
            string_buffer_append_text(out, separators->key);
            append_value(json_object_iter_value(member), separators, out);
        }
        string_buffer_append_char(out, '}');
        break;
    }
}

enum status json_write(const struct json *value, struct string_buffer *out) {
    append_value(library_value(value), &(struct separators){",", ":"}, out);
    return string_buffer_check(out);
}

enum status json_write_spaced(const struct json *value, struct string_buffer *out) {
    append_value(library_value(value), &(struct separators){", ", ": "}, out);
    return string_buffer_check(out);
}
