#include "server/route.h"

#include <string.h>

static const char ID[] = "{id}";

enum route_fit route_match(const char *pattern, const char *path, struct route_id *id) {
    const char *place = strstr(pattern, ID);
    *id = (struct route_id){0};
    if (place == NULL) {
        return strcmp(pattern, path) == 0 ? ROUTE_FIT_EXACT : ROUTE_FIT_NONE;
    }
    size_t before = (size_t)(place - pattern);
    const char *after = place + strlen(ID);
    size_t after_length = strlen(after);
    size_t length = strlen(path);
    if (length <= before + after_length || strncmp(path, pattern, before) != 0 ||
        strcmp(path + length - after_length, after) != 0) {
        return ROUTE_FIT_NONE;
    }
    *id = (struct route_id){path + before, length - before - after_length};
    if (memchr(id->start, '/', id->length) == NULL) {
        return ROUTE_FIT_EXACT;
    }
    return after_length == 0 ? ROUTE_FIT_LOOSE : ROUTE_FIT_NONE;
}
