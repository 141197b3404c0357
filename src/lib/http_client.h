/*
 * Requests to HTTP servers, many at once from one thread, behind the HTTP client library (libcurl).
 *
 * http_client_run waits for the network and calls back what has come. Connections are kept and used again.
 * Certificates of TLS are checked; proxies are taken from the environment as by curl. One thread at a time.
 */
#ifndef SLUICE_LIB_HTTP_CLIENT_H
#define SLUICE_LIB_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/string_buffer.h"

struct http_client;

struct http_client_options {
    const char *bearer_token;       /* sent with every request; NULL: none; copied */
    double connect_timeout_seconds; /* 0: the library's */
    double timeout_seconds;         /* of a whole request; 0: none */
};

/* How a request ended. Valid during the call. */
struct http_client_result {
    long status_code;           /* 0: no answer */
    bool is_complete;           /* the answer came to its end */
    const char *message;        /* why it did not, or ""; names no request */
    const char *body;           /* what was not handed to on_data, "" if nothing; NUL-terminated */
    size_t body_length;         /* cut at HTTP_CLIENT_BODY_MAX */
    double retry_after_seconds; /* what the server asks for; 0: nothing */
};

enum { HTTP_CLIENT_BODY_MAX = 1 << 26 };

struct http_client_request {
    const char *url;
    const char *body; /* POST of JSON; NULL: GET; copied */
    size_t body_length;
    /* A piece of an answer with status 200; must not start requests. NULL: it is kept for the result. */
    void (*on_data)(void *context, const char *bytes, size_t length);
    /* The end, exactly once unless the client is destroyed first; may start requests. */
    void (*on_done)(void *context, const struct http_client_result *result);
    void *context;
};

/* Owned: http_client_destroy. */
enum status http_client_create(const struct http_client_options *options, struct http_client **out);

/* Drops what is under way without calling back. Nulls the pointer. */
void http_client_destroy(struct http_client **client);

/* Starts a request; its callbacks come from http_client_run. BAD_ARGUMENT for what is no http or https URL.
 */
enum status http_client_start(struct http_client *client, const struct http_client_request *request);

/* Waits until something comes, at most so long, and calls back all that has come. */
enum status http_client_run(struct http_client *client, double wait_seconds);

/* Requests under way. */
size_t http_client_active(const struct http_client *client);

#endif
