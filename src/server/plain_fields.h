/*
 * Fields of requests that change nothing here. They are read all the same: a client whose request another
 * server would refuse gets to know it from this one too.
 */
#ifndef SLUICE_SERVER_PLAIN_FIELDS_H
#define SLUICE_SERVER_PLAIN_FIELDS_H

#include "server/request_reader.h"

enum plain_kind {
    PLAIN_ANY,
    PLAIN_TEXT,
    PLAIN_BOOL,
    PLAIN_NUMBER,
    PLAIN_OBJECT,
    PLAIN_PAIRS, /* OpenAI's metadata: up to 16 strings of up to 512 characters, by keys of up to 64 */
    PLAIN_TIER   /* OpenAI's service_tier */
};

struct plain_field {
    const char *name; /* a literal */
    enum plain_kind kind;
};

/* BAD_FORMAT, OUT_OF_RANGE and UNSUPPORTED name the field. */
enum status plain_fields_read(struct request_reader *reader, const struct plain_field *fields, size_t count);

/* How much is to be said: it is the model's to decide. */
enum status plain_fields_read_verbosity(struct request_reader *reader);

#endif
