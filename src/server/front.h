/*
 * The front: everything between the socket and the APIs.
 *
 * Finds the route of a request, asks for its key, gives it an id, writes a line to the access log, and
 * answers what concerns the server itself. Errors have the shape of the API that was asked.
 *
 * Paths of its own, besides those of the APIs (server/api.h):
 *   GET /                    the page (server/page.h)
 *   GET /health              200 without a body while the model can answer, else 503 and why
 *   GET|POST /ping           the same
 *   GET /version             {"version"}
 *   GET /load                {"server_load"}: generations under way
 *   GET /server_info         what was loaded and planned
 *   GET /openapi.json        what all paths take and give
 *   GET /metrics             counters for Prometheus (server/metrics.h)
 *   GET /live                what goes on now (server/live_view.h)
 *   POST /reset_prefix_cache forgets cached beginnings
 * With keys, all but /, /health and /ping ask for one: "Authorization: Bearer KEY", or "x-api-key: KEY".
 */
#ifndef SLUICE_SERVER_FRONT_H
#define SLUICE_SERVER_FRONT_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/http_server.h"
#include "server/api.h"

struct front;

/* Borrowed as long as the front lives. */
struct front_options {
    struct http_server_options http; /* `handle`, `refuse` and `context` are the front's */
    struct api_options api;
    const char *version;
    const char *root_path;   /* what paths may begin with besides; NULL: nothing */
    const char *const *keys; /* any of them lets in; none: everybody may ask */
    size_t key_count;
    const char *const
        *allowed_origins; /* of pages that may ask from a browser; "*": all; none: CORS is off */
    size_t allowed_origin_count;
    bool has_prefix_cache; /* as the service was told, both */
    bool has_prefix_disk;
    bool logs_access; /* a line on stdout for every request */
};

/* Takes requests from now on. Owned: front_close. */
enum status front_open(const struct front_options *options, struct front **out);

/* The port that it listens on; 0 on a socket in the file system. */
int front_port(const struct front *front);

/* Whether the model can answer; if not, `why` gets a sentence. */
bool front_is_ready(struct front *front, char *why, size_t why_bytes);

/* Takes no new connections or requests; what is under way goes on. */
void front_drain(struct front *front);
size_t front_running_count(const struct front *front); /* requests under way */

/* Ends what is still under way with an error; frees and nulls. NULL inside is allowed. */
void front_close(struct front **front);

#endif
