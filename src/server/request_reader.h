/*
 * Reads the fields of a JSON request: types and bounds, errors that name the field, and a count of fields
 * that nobody asked for.
 *
 * Absent and null are the same: the result stays as it was. One thread at a time.
 */
#ifndef SLUICE_SERVER_REQUEST_READER_H
#define SLUICE_SERVER_REQUEST_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "lib/json.h"

enum { READER_FIELDS_MAX = 96, READER_PARAMETER_BYTES = 64 };

struct request_reader {
    const struct json *object; /* borrowed */
    const char *place;         /* in front of field names in errors: "" or "stream_options." */
    const char *asked[READER_FIELDS_MAX];
    size_t asked_count;
    char parameter[READER_PARAMETER_BYTES]; /* the field at fault, after an error; "" if none is */
};

/* BAD_FORMAT if `object` is no object. */
enum status request_reader_init(struct request_reader *reader, const struct json *object, const char *place);

/* The value; NULL if it is absent or null. `name` is a literal. */
const struct json *request_reader_get(struct request_reader *reader, const char *name);

enum status request_reader_bool(struct request_reader *reader, const char *name, bool *out);
enum status request_reader_integer(struct request_reader *reader, const char *name, int64_t least,
                                   int64_t most, int64_t *out);
enum status request_reader_number(struct request_reader *reader, const char *name, double least, double most,
                                  double *out);

/* Above 0. */
enum status request_reader_positive(struct request_reader *reader, const char *name, double most,
                                    double *out);

/* `length` may be NULL if the text must not hold NULs. Borrowed from the document. */
enum status request_reader_text(struct request_reader *reader, const char *name, const char **out,
                                size_t *length);

/* One of the words, of which the last is followed by NULL. `*out` may be NULL before: then it must be there.
 */
enum status request_reader_word(struct request_reader *reader, const char *name, const char *const *words,
                                const char **out);
enum status request_reader_object(struct request_reader *reader, const char *name, const struct json **out);
enum status request_reader_array(struct request_reader *reader, const char *name, const struct json **out);

/* UNSUPPORTED if the field is set to anything but null, false, "", [] or {}. `why` ends the sentence. */
enum status request_reader_refuse(struct request_reader *reader, const char *name, const char *why);

/* UNSUPPORTED if a field that nobody asked for is set to anything but null. `expected` ends the sentence. */
enum status request_reader_refuse_unknown(struct request_reader *reader, const char *expected);

/* Hands on what reading an object within this one has come to, and the field at fault. */
enum status request_reader_forward(struct request_reader *reader, const struct request_reader *inner,
                                   enum status status);

/* Names the field at fault and raises the error. */
enum status request_reader_fail(struct request_reader *reader, const char *name, enum status status,
                                const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Fields of the request that were not asked for. */
size_t request_reader_unknown_count(const struct request_reader *reader);

#endif
