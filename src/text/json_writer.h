/*
 * Writes JSON as text, member by member, for replies that are sent as soon as they are made.
 *
 * A `key` is NULL inside an array. Nothing reports: a failed allocation shows in the buffer. What is written
 * is well-formed as long as brackets are: ill-formed UTF-8 becomes U+FFFD, numbers that JSON does not have
 * become the nearest that it has. One thread at a time.
 */
#ifndef SLUICE_TEXT_JSON_WRITER_H
#define SLUICE_TEXT_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/string_buffer.h"

struct json_writer {
    struct string_buffer *out; /* borrowed */
    bool has_item;             /* the open bracket holds one already */
};

/* Appends to `out`; nothing is open. */
struct json_writer json_writer_on(struct string_buffer *out);

/* '{' or '[', and '}' or ']'. */
void json_writer_begin(struct json_writer *writer, const char *key, char bracket);
void json_writer_end(struct json_writer *writer, char bracket);

void json_writer_text(struct json_writer *writer, const char *key, const char *text);
void json_writer_bytes(struct json_writer *writer, const char *key, const char *bytes, size_t length);
void json_writer_integer(struct json_writer *writer, const char *key, int64_t value);
void json_writer_real(struct json_writer *writer, const char *key, double value);
void json_writer_bool(struct json_writer *writer, const char *key, bool value);
void json_writer_null(struct json_writer *writer, const char *key);

/* A value that is JSON already. */
void json_writer_raw(struct json_writer *writer, const char *key, const char *json, size_t length);

/* The same as an array of numbers. */
void json_writer_ids(struct json_writer *writer, const char *key, const int32_t *ids, size_t count);

#endif
