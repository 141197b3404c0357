/* The target of a request line, taken apart and percent-decoded. Any thread. */
#ifndef SLUICE_LIB_HTTP_TARGET_H
#define SLUICE_LIB_HTTP_TARGET_H

#include <stddef.h>

#include "base/status.h"

enum { HTTP_QUERY_MAX = 64 };

struct http_query {
    const char *name;
    const char *value; /* "" without a '=' */
};

/* A zeroed struct is an empty target. */
struct http_target {
    char *storage;
    const char *path;
    struct http_query queries[HTTP_QUERY_MAX];
    size_t query_count;
};

/*
 * Reads "/path?name=value&...", "http://host/path?..." or "*" (which becomes the path "*"). BAD_FORMAT for
 * bytes that no target has, broken escapes, escaped control characters, and more than HTTP_QUERY_MAX queries.
 * Owned: http_target_deinit.
 */
enum status http_target_parse(const char *raw, size_t length, struct http_target *out);
void http_target_deinit(struct http_target *target);

/* The value of the first query of that name; NULL if there is none. */
const char *http_target_query(const struct http_target *target, const char *name);

#endif
