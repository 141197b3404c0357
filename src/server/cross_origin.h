/* CORS: what pages from elsewhere may do in a browser. Any thread. */
#ifndef SLUICE_SERVER_CROSS_ORIGIN_H
#define SLUICE_SERVER_CROSS_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/http_server.h"

struct cross_origin {
    const char *const *origins; /* "*": all */
    size_t origin_count;        /* 0: none may */
};

/* Adds what every reply to an allowed origin carries. */
void cross_origin_add_headers(const struct cross_origin *rules, struct http_exchange *exchange);

/* Whether the request is a preflight that is to be answered with cross_origin_add_preflight's headers. */
bool cross_origin_is_preflight(const struct cross_origin *rules, const struct http_exchange *exchange);

/* Allows the headers that were asked for. */
void cross_origin_add_preflight(struct http_exchange *exchange);

#endif
