/*
 * A server that speaks OpenAI's API, seen from a client.
 */
#ifndef SLUICE_TOOLS_API_CLIENT_H
#define SLUICE_TOOLS_API_CLIENT_H

#include "base/status.h"
#include "base/string_buffer.h"
#include "lib/http_client.h"
#include "lib/json.h"

struct api_client_options {
    const char *base_url; /* with or without "/v1" at its end */
    const char *model;    /* NULL: the first one that the server lists */
    const char *api_key;  /* NULL: none */
    double timeout_seconds;
};

struct api_client {
    struct http_client *http;
    struct string_buffer base_url, model;
};

/* Asks for the models if none is named. Owned: api_client_close. */
enum status api_client_open(const struct api_client_options *options, struct api_client *out);

/* Drops what is under way. Nothing to do for a zeroed struct. */
void api_client_close(struct api_client *client);

/* Starts a POST of JSON to a path such as "/v1/completions". */
enum status api_client_start(struct api_client *client, const char *path, const struct string_buffer *body,
                             const struct http_client_request *callbacks);

/*
 * Asks and waits: GET if there is no body. IO with the server's own words if the answer is no success.
 * Nothing else may be under way. Owned: json_free.
 */
enum status api_client_ask(struct api_client *client, const char *path, const struct json *body,
                           struct json **answer);

/* Appends what went wrong with a request, in the server's words if there are any: "429: try again later". */
void api_client_describe(const struct http_client_result *result, struct string_buffer *out);

#endif
