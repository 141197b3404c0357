/*
 * JSON values, behind the JSON library (jansson).
 *
 * Parsing is strict: UTF-8, no duplicate keys, no NaN, nothing after the value, depth at most 512.
 * Object keys keep their order. A `const struct json *` borrows from the document that json_parse returned
 * and lives as long as it. Reading is safe from any thread, building is not.
 */
#ifndef SLUICE_LIB_JSON_H
#define SLUICE_LIB_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/string_buffer.h"

struct json;

enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_INTEGER,
    JSON_KIND_REAL,
    JSON_KIND_STRING,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT
};

/* Parses `length` bytes. `what` names the input in the error ("config.json"). Owned: json_free. */
enum status json_parse(const char *bytes, size_t length, const char *what, struct json **out);

/* Reads and parses a file of at most `byte_limit` bytes. Owned: json_free. */
enum status json_parse_file(const char *path, size_t byte_limit, struct json **out);

/* Frees a document and nulls the pointer. Only what json_parse or json_new_* returned. */
void json_free(struct json **document);

enum json_kind json_kind(const struct json *value);
bool json_bool(const struct json *value);     /* false if it is no boolean */
int64_t json_int64(const struct json *value); /* 0 if it is no integer */
double json_number(const struct json *value); /* integer or real; 0 otherwise */

/* NULL if it is no string; may hold NULs; `length` may be NULL. */
const char *json_text(const struct json *value, size_t *length);

size_t json_length(const struct json *value);                       /* of an array or object; 0 otherwise */
const struct json *json_at(const struct json *array, size_t index); /* NULL if there is none */
const struct json *json_get(const struct json *object, const char *key); /* NULL if absent or no object */

/* Object members in file order: for (c = json_first(o); c; c = json_next(o, c)). */
struct json_member;
const struct json_member *json_first(const struct json *object);
const struct json_member *json_next(const struct json *object, const struct json_member *member);
const char *json_member_key(const struct json_member *member, size_t *length);
const struct json *json_member_value(const struct json_member *member);

/* Building. Setting and appending take over `value`; a NULL value (memory was out) makes them fail. */
struct json *json_new_object(void);
struct json *json_new_array(void);
struct json *json_new_string(const char *bytes, size_t length); /* NULL if the bytes are not UTF-8 */
struct json *json_new_integer(int64_t value);
struct json *json_new_real(double value);
struct json *json_new_bool(bool value);
struct json *json_new_null(void);
bool json_set(struct json *object, const char *key, struct json *value);
bool json_append(struct json *array, struct json *value);

/* Appends compact JSON: non-ASCII raw, reals in their shortest exact form, keys in order. */
enum status json_write(const struct json *value, struct string_buffer *out);

/*
 * Appends as Python's json.dumps(value, ensure_ascii=False) does: ", " and ": " between items
 * (spec deepseek-v4 8.3).
 */
enum status json_write_spaced(const struct json *value, struct string_buffer *out);

#endif
