/*
 * The gate: which request heads reach a handler.
 *
 * Refuses what two programs in a row might read differently (two lengths, a blank before a colon, a bare line
 * feed), so that nobody can hide one request in another. Pure functions, any thread.
 */
#ifndef SLUICE_LIB_HTTP_GATE_H
#define SLUICE_LIB_HTTP_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_FIELDS_MAX = 200 };

/* A header as it stands in the buffer of the head. */
struct http_field {
    const char *name;
    size_t name_length;
    const char *value;
    size_t value_length;
};

struct http_head {
    const char *method;
    const char *version; /* "HTTP/1.1" */
    const char *target;  /* as it was sent */
    size_t target_length;
    const struct http_field *fields; /* in their order */
    size_t field_count;
    size_t byte_count; /* of the whole head, from the method on; both line ends included */
};

struct http_verdict {
    int status;      /* 0: let in; otherwise that of the refusal */
    const char *why; /* a sentence; static */
    bool has_body;
    uint64_t body_bytes; /* Content-Length; 0 if the body is chunked */
};

/* Judges method, version and fields. */
struct http_verdict http_gate_judge(const struct http_head *head);

/*
 * Whether the head is, byte by byte, "METHOD TARGET VERSION", then "name: value" for each field, then an
 * empty line, all ended by CR LF. The library has put a NUL for each separator and two for each line end, in
 * place, by the time it shows the head: what it passed over without a word, such as a folded line or a bare
 * line feed, leaves a gap between what it shows. A NUL beside a line feed leaves none: it passes for a line
 * end.
 */
bool http_gate_is_whole(const struct http_head *head);

#endif
