/*
 * What the files of the HTTP server share; nobody else includes this.
 *
 * Locks: `server.mutex` guards the table of connections, `exchange.mutex` the reply; whoever holds the first
 * may take the second, never the other way round. The library's own lock is below both.
 */
#ifndef SLUICE_LIB_HTTP_SERVER_IMPL_H
#define SLUICE_LIB_HTTP_SERVER_IMPL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/string_buffer.h"
#include "lib/http_gate.h"
#include "lib/http_listen.h"
#include "lib/http_server.h"
#include "lib/http_target.h"

enum http_phase {
    HTTP_PHASE_IDLE, /* between requests */
    HTTP_PHASE_HEAD,
    HTTP_PHASE_BODY,
    HTTP_PHASE_HANDLED, /* a handler has it, or whoever the handler passed it to */
    HTTP_PHASE_REPLY,
};

/* A connection: an entry of the server's table, used again once it is closed. */
struct http_connection {
    bool is_used;
    bool is_over_limit;  /* its requests are refused */
    uint32_t generation; /* how often the entry was used: a late event is told by it */
    int socket;
    enum http_phase phase;
    double deadline;                /* in clock_seconds; of IDLE, HEAD and BODY */
    struct http_exchange *exchange; /* the request under way; NULL if there is none */
    char peer[48];
};

/*
 * A request and its reply. Held by the connection until the library is done with the request, by the handler
 * until the reply is ended, and by the library's response object: the last one frees.
 */
struct http_exchange {
    struct http_server *server;
    struct http_io *io;
    struct MHD_Connection *connection; /* valid while is_attached */
    size_t connection_index;
    _Atomic int holder_count;
    struct http_exchange *next_waiting; /* in the queue of handlers */

    /* The request; written by the library's thread before a handler sees it. */
    bool has_head;
    bool is_handed; /* to the handlers */
    bool is_too_large;
    bool knows_interim_replies; /* HTTP/1.1 */
    char method[32];
    const char *raw_target; /* in the library's buffer; until the head is judged */
    size_t raw_target_length;
    bool has_bad_target; /* and nothing in `target` */
    struct http_target target;
    char *field_storage; /* names and values of the headers, each ended by a NUL */
    size_t field_count;
    struct string_buffer body;
    char peer[48];

    /* The reply. */
    pthread_mutex_t mutex;
    bool is_attached;  /* the library still knows the request */
    bool is_suspended; /* the library waits for a word from us */
    bool is_started;   /* the head of the reply is known */
    bool is_ended;
    bool is_whole;       /* the length is known with the head */
    bool has_left;       /* the client */
    bool is_half_closed; /* the client sends nothing any more: it may have left */
    bool is_cut;         /* nothing more is sent */
    int status;
    struct string_buffer head_fields; /* added headers: names and values, each ended by a NUL */
    struct string_buffer out;         /* what waits for the client, from out_taken on */
    size_t out_taken;
    size_t out_total;  /* all bytes of the body so far */
    double last_taken; /* when the library last took bytes */
    void (*left)(void *context, bool is_certain);
    void *left_context;
};

/* A thread that runs the library. */
struct http_io {
    struct http_server *server;
    struct MHD_Daemon *daemon;
    pthread_t thread;
    bool has_thread;
    bool is_quiet;  /* takes no more connections */
    int wake_event; /* readable when there is something besides sockets to look at */
};

struct http_server {
    struct http_server_options options;
    struct http_io *ios;
    size_t io_count;
    struct http_listener listener;
    int port;
    bool has_tls;
    int watch_set;  /* epoll */
    int wake_event; /* ends the watcher's wait */
    pthread_t watcher;
    bool has_watcher;
    pthread_t *handlers;
    int handler_count;
    _Atomic size_t exchange_count;
    _Atomic size_t body_bytes; /* of all exchanges */
    _Atomic bool is_draining;
    _Atomic bool is_stopping;

    pthread_mutex_t mutex;
    struct http_connection *connections; /* [connection_capacity] */
    size_t connection_capacity;
    size_t connection_count;
    size_t search_start; /* where the next free entry is looked for */
    size_t quiet_count;  /* of ios; with quiet_changed */
    pthread_cond_t quiet_changed;

    pthread_mutex_t queue_mutex;
    pthread_cond_t queue_changed;
    struct http_exchange *first_waiting;
    struct http_exchange *last_waiting;
    bool is_queue_closed;
};

/* Callbacks of the library, whose context is the struct http_io (http_connection.c). */
void http_connection_notify(void *context, struct MHD_Connection *connection, void **socket_context,
                            enum MHD_ConnectionNotificationCode code);
void *http_connection_open_request(void *context, const char *target, struct MHD_Connection *connection);
enum MHD_Result http_connection_take(void *context, struct MHD_Connection *connection, const char *url,
                                     const char *method, const char *version, const char *data,
                                     size_t *data_bytes, void **request_context);
void http_connection_complete(void *context, struct MHD_Connection *connection, void **request_context,
                              enum MHD_RequestTerminationCode code);

/* Reads and judges the head of a request (http_request.c); the verdict's status is 0 if it is let in. */
struct http_verdict http_request_read_head(struct http_exchange *exchange, const char *method,
                                           const char *version);

/* Exchanges (http_exchange.c). The caller of create is its first holder; NULL if memory is out. */
struct http_exchange *http_exchange_create(struct http_io *io, struct MHD_Connection *connection);
void http_exchange_hold(struct http_exchange *exchange);
void http_exchange_drop(struct http_exchange *exchange);
/* Has the library wait until the exchange is resumed. With the mutex held, on the library's thread. */
void http_exchange_suspend(struct http_exchange *exchange);
/* The client has gone: says so to whom it concerns. */
void http_exchange_mark_left(struct http_exchange *exchange);
/*
 * The client has closed its half of the connection, or all of it: finds out which. The server's mutex is
 * held, so that `socket` is the exchange's.
 */
void http_exchange_half_close(struct http_exchange *exchange, int socket);
/* On the library's thread, once the exchange is resumed with a reply. */
void http_exchange_reply_is_taken(struct http_exchange *exchange);
/* The library is done with the request. */
void http_exchange_detach(struct http_exchange *exchange);
/* Nothing more will be sent; wakes a suspended connection. The socket is the caller's to shut down. */
void http_exchange_cut(struct http_exchange *exchange);
/* Whether bytes have waited for the client since before `moment`. */
bool http_exchange_is_stalled(struct http_exchange *exchange, double moment);

/* The reply as the library wants it (http_reply.c). Called with the mutex held. */
struct MHD_Response *http_reply_make_response(struct http_exchange *exchange);

/* Queues a refusal in place of a handler's reply (http_reply.c). */
enum MHD_Result http_reply_refuse(struct http_exchange *exchange, int status, const char *why);

/* Fills `body` with what a refusal says; returns the content type. */
const char *http_reply_describe_refusal(struct http_server *server, const struct http_refusal *refusal,
                                        struct string_buffer *body);

/* Threads. */
enum status http_watcher_start(struct http_server *server);
void http_watcher_stop(struct http_server *server);
/* Makes an event's descriptor readable. */
void http_server_signal(int event);
/* Watches for the client's leaving, until http_watcher_forget. Called with the server's mutex held. */
void http_watcher_add(struct http_server *server, size_t connection_index);
void http_watcher_forget(struct http_server *server, size_t connection_index);
/* Each instance of the library with its thread; the texts of PEM files may be NULL. */
enum status http_io_start(struct http_server *server, char *certificate, char *key);
/* Returns once none of them takes connections any more. Not from one of their threads. */
void http_io_quiesce(struct http_server *server);
/* Ends the threads, then the instances. */
void http_io_join(struct http_server *server);
void http_io_destroy(struct http_server *server);
enum status http_handlers_start(struct http_server *server);
void http_handlers_stop(struct http_server *server);
void http_handlers_enqueue(struct http_exchange *exchange);

#endif
