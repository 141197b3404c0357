/* Which pattern a path fits. Pure functions, any thread. */
#ifndef SLUICE_SERVER_ROUTE_H
#define SLUICE_SERVER_ROUTE_H

#include <stddef.h>

enum route_fit {
    ROUTE_FIT_NONE,
    ROUTE_FIT_LOOSE, /* an {id} at the end took several segments, as in names of models ("maker/model") */
    ROUTE_FIT_EXACT,
};

/* The part of a path that stands for {id}. */
struct route_id {
    const char *start;
    size_t length; /* 0: the pattern has none */
};

/* Compares a path with a pattern such as "/v1/responses/{id}/cancel"; an id has one byte at least. */
enum route_fit route_match(const char *pattern, const char *path, struct route_id *id);

#endif
