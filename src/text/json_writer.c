/* Commas and escapes; the rest is the caller's. */
#include "text/json_writer.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/json_text.h"
#include "text/utf8.h"

struct json_writer json_writer_on(struct string_buffer *out) {
    return (struct json_writer){.out = out};
}

static void append_quoted(struct string_buffer *out, const char *bytes, size_t length) {
    string_buffer_append_char(out, '"');
    if (utf8_valid_length(bytes, length) == length) {
        json_text_append_escaped(out, bytes, length);
    } else {
        struct string_buffer lossy = {0};
        utf8_append_lossy(&lossy, bytes, length);
        json_text_append_escaped(out, string_buffer_text(&lossy), lossy.length);
        out->is_failed = out->is_failed || lossy.is_failed;
        string_buffer_deinit(&lossy);
    }
    string_buffer_append_char(out, '"');
}

/* What stands before a value. */
static void begin_item(struct json_writer *writer, const char *key) {
    if (writer->has_item) {
        string_buffer_append_char(writer->out, ',');
    }
    writer->has_item = true;
    if (key != NULL) {
        append_quoted(writer->out, key, strlen(key));
        string_buffer_append_char(writer->out, ':');
    }
}

void json_writer_begin(struct json_writer *writer, const char *key, char bracket) {
    begin_item(writer, key);
    string_buffer_append_char(writer->out, bracket);
    writer->has_item = false;
}

void json_writer_end(struct json_writer *writer, char bracket) {
    string_buffer_append_char(writer->out, bracket);
    writer->has_item = true;
}

void json_writer_text(struct json_writer *writer, const char *key, const char *text) {
    json_writer_bytes(writer, key, text, strlen(text));
}

void json_writer_bytes(struct json_writer *writer, const char *key, const char *bytes, size_t length) {
    begin_item(writer, key);
    append_quoted(writer->out, bytes, length);
}

void json_writer_integer(struct json_writer *writer, const char *key, int64_t value) {
    begin_item(writer, key);
    string_buffer_append_format(writer->out, "%lld", (long long)value);
}

/* The fewest digits from 15 up that read back as the value. */
void json_writer_real(struct json_writer *writer, const char *key, double value) {
    char text[32];
    if (isnan(value)) {
        json_writer_null(writer, key);
        return;
    }
    value = value > DBL_MAX ? DBL_MAX : value < -DBL_MAX ? -DBL_MAX : value;
    int digits = 15;
    do {
        snprintf(text, sizeof text, "%.*g", digits, value);
    } while (strtod(text, NULL) != value && ++digits <= 17);
    begin_item(writer, key);
    string_buffer_append_text(writer->out, text);
    if (strpbrk(text, ".e") == NULL) {
        string_buffer_append_text(writer->out, ".0");
    }
}

void json_writer_bool(struct json_writer *writer, const char *key, bool value) {
    begin_item(writer, key);
    string_buffer_append_text(writer->out, value ? "true" : "false");
}

void json_writer_null(struct json_writer *writer, const char *key) {
    begin_item(writer, key);
    string_buffer_append_text(writer->out, "null");
}

void json_writer_raw(struct json_writer *writer, const char *key, const char *json, size_t length) {
    begin_item(writer, key);
    string_buffer_append(writer->out, json, length);
}

void json_writer_ids(struct json_writer *writer, const char *key, const int32_t *ids, size_t count) {
    json_writer_begin(writer, key, '[');
    for (size_t i = 0; i < count; i++) {
        json_writer_integer(writer, NULL, ids[i]);
    }
    json_writer_end(writer, ']');
}
