/*
 * An HTTP server, behind the HTTP library (libmicrohttpd): requests that are well-formed, whole and within
 * limits reach a handler; replies go out as fast as clients read.
 *
 * Refused before a handler sees them: ambiguous framing and bad header names (400), bodies and headers over
 * their limits (413, 431), connections over theirs (503), heads and bodies that do not come in time (408). A
 * client that leaves is noticed at once, also while nothing is sent. One that only closes its half of the
 * connection gets its reply: where a connection ends like that, what is sent next tells the two apart, and
 * before a reply begins that is an interim one ("100 Continue"), which clients pass over. Over TLS, and for
 * clients of HTTP/1.0, which know no interim replies, a half-closed connection counts as left until the reply
 * has begun.
 */
#ifndef SLUICE_LIB_HTTP_SERVER_H
#define SLUICE_LIB_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/string_buffer.h"

struct http_server;
struct http_exchange;

/* A request that is refused before a handler sees it. */
struct http_refusal {
    int status;
    const char *why;    /* a sentence */
    const char *method; /* "" as far as nothing was understood */
    const char *path;
    const char *peer;
};

struct http_server_options {
    const char *host;             /* address to listen on; borrowed, as all texts, until start returns */
    int port;                     /* 0: a free one */
    const char *unix_path;        /* a socket in the file system instead; NULL: none */
    int listen_socket;            /* one that listens already (socket activation); -1: none */
    const char *certificate_file; /* TLS: PEM files; NULL: plain */
    const char *key_file;
    size_t body_limit;
    size_t header_limit;
    int connection_limit;
    int connections_per_address; /* 0: no limit of their own */
    double head_seconds;         /* from accept to the end of the head */
    double body_seconds;         /* from there to the end of the body */
    double idle_seconds;         /* of a connection between requests */
    double write_seconds;        /* a client that takes no byte for so long while some wait is cut off */
    size_t write_limit;          /* most bytes that wait for a client; beyond it is cut off */
    int io_thread_count;
    int handler_thread_count;
    /* Runs on a handler thread with the whole body; must lead to a reply, now or later. */
    void (*handle)(void *context, struct http_exchange *exchange);
    /*
     * Tells of a request that no handler sees, on any thread; fills the body of the refusal and names its
     * content type. NULL: the sentence as plain text.
     */
    const char *(*refuse)(void *context, const struct http_refusal *refusal, struct string_buffer *body);
    void *context;
};

/* The defaults: 127.0.0.1:8000, 32 MiB bodies, 64 KiB heads, 4096 connections, one I/O thread, two handlers.
 */
struct http_server_options http_server_options_default(void);

/* Requests are taken from now on: a handler may run, and see *out, before this returns. Owned: stop. */
enum status http_server_start(const struct http_server_options *options, struct http_server **out);
/* The port that it listens on; 0 on a socket in the file system. */
int http_server_port(const struct http_server *server);

/* Takes no new connections or requests; exchanges under way go on. */
void http_server_drain(struct http_server *server);
size_t http_server_exchange_count(const struct http_server *server);

/* Cuts off what is still under way, ends all threads, frees and nulls. Every exchange must have been ended.
 */
void http_server_stop(struct http_server **server);

/* The request; valid until the reply is ended. */
const char *http_exchange_method(const struct http_exchange *exchange);
const char *http_exchange_path(const struct http_exchange *exchange); /* percent-decoded, without query */
const char *http_exchange_query(const struct http_exchange *exchange, const char *name); /* NULL if absent */
const char *http_exchange_header(const struct http_exchange *exchange, const char *name);
const char *http_exchange_body(const struct http_exchange *exchange, size_t *length);
const char *http_exchange_peer(const struct http_exchange *exchange); /* address, for logs */

/* How many bytes of the reply's body were handed over so far. */
size_t http_exchange_reply_bytes(const struct http_exchange *exchange);

/*
 * The reply; contracts as in server/reply.h, which a front builds on these. `left` is called with the
 * exchange's lock held: what it locks must never be held around a call of the exchange.
 */
void http_exchange_add_header(struct http_exchange *exchange, const char *name, const char *value);
void http_exchange_reply(struct http_exchange *exchange, int status, const char *content_type,
                         const char *body, size_t length);
void http_exchange_start(struct http_exchange *exchange, int status, const char *content_type);
bool http_exchange_write(struct http_exchange *exchange, const char *bytes, size_t length);
void http_exchange_end(struct http_exchange *exchange);
void http_exchange_on_leave(struct http_exchange *exchange, void (*left)(void *context, bool is_certain),
                            void *context);

#endif
