/*
 * A server for test_http_server.py: http_probe_server NAME=VALUE... prints its port and runs until stdin
 * ends.
 *
 * GET|POST /echo answers with what arrived; /stream?count=N&ms=M sends N numbered lines, one every M
 * milliseconds; /late?ms=M one reply after M milliseconds; /big?bytes=N one reply of N bytes; /flood writes
 * as fast as it is let; /stats says how many streams run and how many clients left; /drain drains.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/string_buffer.h"
#include "lib/http_server.h"

enum { FLOOD_PIECE_BYTES = 65536 };

struct stream {
    struct http_exchange *exchange;
    struct stream *next;
    long count;
    long sent;
    double period_seconds;
    double next_time;
    bool is_late; /* no stream but one reply, at next_time */
    atomic_bool has_left, may_have_left;
};

struct probe {
    struct http_server *server;
    pthread_mutex_t mutex;
    struct stream *streams;
    atomic_int stream_count;
    atomic_int left_count;
    atomic_int refused_count;
    atomic_bool is_over;
};

static long query_number(const struct http_exchange *exchange, const char *name, long otherwise) {
    const char *text = http_exchange_query(exchange, name);
    return text == NULL ? otherwise : strtol(text, NULL, 10);
}

static void echo(struct http_exchange *exchange) {
    struct string_buffer text = {0};
    size_t length;
    const char *body = http_exchange_body(exchange, &length);
    const char *query = http_exchange_query(exchange, "q");
    const char *header = http_exchange_header(exchange, "X-Probe");
    string_buffer_append_format(
        &text, "method=%s\npath=%s\nq=%s\nheader=%s\npeer=%s\nbody=", http_exchange_method(exchange),
        http_exchange_path(exchange), query == NULL ? "(none)" : query, header == NULL ? "(none)" : header,
        http_exchange_peer(exchange));
    string_buffer_append(&text, body, length);
    http_exchange_add_header(exchange, "X-Answer", "yes");
    http_exchange_reply(exchange, 200, "text/plain", text.data, text.length);
    string_buffer_deinit(&text);
}

static void send_big(struct http_exchange *exchange) {
    size_t length = (size_t)query_number(exchange, "bytes", 1000);
    char *bytes = malloc(length);
    for (size_t i = 0; i < length; i++) {
        bytes[i] = (char)('a' + i % 26);
    }
    http_exchange_reply(exchange, 200, "text/plain", bytes, length);
    free(bytes);
}

static void remember_leaving(void *context, bool is_certain) {
    struct stream *stream = context;
    atomic_store(is_certain ? &stream->has_left : &stream->may_have_left, true);
}

static void start_stream(struct probe *probe, struct http_exchange *exchange, bool is_late) {
    struct stream *stream = calloc(1, sizeof *stream);
    stream->exchange = exchange;
    stream->is_late = is_late;
    stream->count = query_number(exchange, "count", 10);
    stream->period_seconds = (double)query_number(exchange, "ms", 10) / 1000.0;
    atomic_fetch_add(&probe->stream_count, 1);
    if (is_late) {
        stream->next_time = clock_seconds() + (double)query_number(exchange, "ms", 10) / 1000.0;
    } else {
        http_exchange_start(exchange, 200, "text/event-stream");
    }
    http_exchange_on_leave(exchange, remember_leaving, stream);
    pthread_mutex_lock(&probe->mutex);
    stream->next = probe->streams;
    probe->streams = stream;
    pthread_mutex_unlock(&probe->mutex);
}

/* Writes until it is told to stop. */
static void flood(struct probe *probe, struct http_exchange *exchange) {
    char piece[FLOOD_PIECE_BYTES];
    memset(piece, 'x', sizeof piece);
    http_exchange_start(exchange, 200, "text/plain");
    while (http_exchange_write(exchange, piece, sizeof piece)) {
    }
    atomic_fetch_add(&probe->left_count, 1);
    http_exchange_end(exchange);
}

static void handle(void *context, struct http_exchange *exchange) {
    struct probe *probe = context;
    const char *path = http_exchange_path(exchange);
    if (strcmp(path, "/stream") == 0) {
        start_stream(probe, exchange, false);
    } else if (strcmp(path, "/late") == 0) {
        start_stream(probe, exchange, true);
    } else if (strcmp(path, "/big") == 0) {
        send_big(exchange);
    } else if (strcmp(path, "/flood") == 0) {
        flood(probe, exchange);
    } else if (strcmp(path, "/stats") == 0) {
        char text[128];
        int length = snprintf(text, sizeof text, "%d %d %d %zu", atomic_load(&probe->stream_count),
                              atomic_load(&probe->left_count), atomic_load(&probe->refused_count),
                              http_server_exchange_count(probe->server));
        http_exchange_reply(exchange, 200, "text/plain", text, (size_t)length);
    } else if (strcmp(path, "/drain") == 0) {
        http_server_drain(probe->server);
        http_exchange_reply(exchange, 200, "text/plain", "draining", 8);
    } else {
        echo(exchange);
    }
}

static const char *refuse(void *context, const struct http_refusal *refusal, struct string_buffer *body) {
    struct probe *probe = context;
    atomic_fetch_add(&probe->refused_count, 1);
    string_buffer_append_format(body, "refused: %s", refusal->why);
    return "text/plain";
}

static void count_end(struct probe *probe, bool is_open) {
    atomic_fetch_add(&probe->left_count, is_open ? 0 : 1);
    atomic_fetch_sub(&probe->stream_count, 1);
}

/* The one reply, once it is due or nobody waits for it. */
static bool advance_late(struct probe *probe, struct stream *stream, double now) {
    bool is_open = !atomic_load(&stream->has_left);
    if (is_open && now < stream->next_time) {
        return false;
    }
    count_end(probe, is_open);
    http_exchange_reply(stream->exchange, 200, "text/plain", "late", 4);
    return true;
}

/* Sends what is due; true once the stream is over. */
static bool advance(struct probe *probe, struct stream *stream, double now) {
    bool is_open = !atomic_load(&stream->has_left);
    if (stream->is_late) {
        return advance_late(probe, stream, now);
    }
    if (is_open && atomic_exchange(&stream->may_have_left, false)) {
        is_open = http_exchange_write(stream->exchange, ":\n\n", 3);
    }
    while (is_open && stream->sent < stream->count && now >= stream->next_time) {
        char line[64];
        int length = snprintf(line, sizeof line, "data: %ld\n\n", stream->sent++);
        is_open = http_exchange_write(stream->exchange, line, (size_t)length);
        stream->next_time = (stream->sent == 1 ? now : stream->next_time) + stream->period_seconds;
    }
    if (is_open && stream->sent < stream->count) {
        return false;
    }
    count_end(probe, is_open);
    http_exchange_end(stream->exchange);
    return true;
}

static void *tick(void *context) {
    struct probe *probe = context;
    while (!atomic_load(&probe->is_over)) {
        double now = clock_seconds();
        pthread_mutex_lock(&probe->mutex);
        for (struct stream **at = &probe->streams; *at != NULL;) {
            struct stream *stream = *at;
            if (advance(probe, stream, now)) {
                *at = stream->next;
                free(stream);
            } else {
                at = &stream->next;
            }
        }
        pthread_mutex_unlock(&probe->mutex);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return NULL;
}

/* The options that a test may set. */
static void set_option(struct http_server_options *options, const char *argument) {
    size_t length = strcspn(argument, "=");
    const char *value = argument[length] == '=' ? argument + length + 1 : "";
    const struct {
        const char *name;
        const char **text;
        double *number;
        int *count;
        size_t *bytes;
    } rows[] = {
        {"unix", &options->unix_path, NULL, NULL, NULL},
        {"certificate", &options->certificate_file, NULL, NULL, NULL},
        {"key", &options->key_file, NULL, NULL, NULL},
        {"head", NULL, &options->head_seconds, NULL, NULL},
        {"body", NULL, &options->body_seconds, NULL, NULL},
        {"idle", NULL, &options->idle_seconds, NULL, NULL},
        {"write", NULL, &options->write_seconds, NULL, NULL},
        {"socket", NULL, NULL, &options->listen_socket, NULL},
        {"connections", NULL, NULL, &options->connection_limit, NULL},
        {"io", NULL, NULL, &options->io_thread_count, NULL},
        {"body_limit", NULL, NULL, NULL, &options->body_limit},
        {"header_limit", NULL, NULL, NULL, &options->header_limit},
        {"write_limit", NULL, NULL, NULL, &options->write_limit},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strlen(rows[i].name) != length || strncmp(argument, rows[i].name, length) != 0) {
            continue;
        }
        if (rows[i].text != NULL) {
            *rows[i].text = value;
        } else if (rows[i].number != NULL) {
            *rows[i].number = strtod(value, NULL);
        } else if (rows[i].count != NULL) {
            *rows[i].count = (int)strtol(value, NULL, 10);
        } else {
            *rows[i].bytes = strtoul(value, NULL, 10);
        }
    }
}

int main(int argc, char **argv) {
    struct probe probe = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct http_server_options options = http_server_options_default();
    options.port = 0;
    options.handler_thread_count = 4;
    options.handle = handle;
    options.refuse = refuse;
    options.context = &probe;
    for (int i = 1; i < argc; i++) {
        set_option(&options, argv[i]);
    }
    if (http_server_start(&options, &probe.server) != STATUS_OK) {
        fprintf(stderr, "%s\n", error_last()->message);
        return 1;
    }
    pthread_t ticker;
    pthread_create(&ticker, NULL, tick, &probe);
    printf("%d\n", http_server_port(probe.server));
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    http_server_drain(probe.server);
    double deadline = clock_seconds() + 10.0;
    while (http_server_exchange_count(probe.server) > 0 && clock_seconds() < deadline) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    atomic_store(&probe.is_over, true);
    pthread_join(ticker, NULL);
    bool is_clean = http_server_exchange_count(probe.server) == 0;
    http_server_stop(&probe.server);
    return is_clean ? 0 : 3;
}
