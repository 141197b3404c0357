/* From an exchange's reply to the library's response, which asks for bytes when the client takes them. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "lib/http_server_impl.h"

enum { WHOLE_BLOCK_BYTES = 16384, STREAM_BLOCK_BYTES = 1024, COMPACT_BYTES = 65536 };

/* The library wants up to `limit` bytes; without any it is suspended and asks again. */
static ssize_t read_reply(void *context, uint64_t position, char *out, size_t limit) {
    (void)position;
    struct http_exchange *exchange = context;
    pthread_mutex_lock(&exchange->mutex);
    size_t waiting = exchange->out.length - exchange->out_taken;
    ssize_t result = (ssize_t)(waiting < limit ? waiting : limit);
    if (exchange->is_cut) {
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (waiting > 0) {
        memcpy(out, exchange->out.data + exchange->out_taken, (size_t)result);
        exchange->out_taken += (size_t)result;
    } else if (exchange->is_ended) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        http_exchange_suspend(exchange);
    }
    if (exchange->out_taken == exchange->out.length) {
        string_buffer_clear(&exchange->out);
        exchange->out_taken = 0;
    } else if (exchange->out_taken >= COMPACT_BYTES) {
        string_buffer_drop_front(&exchange->out, exchange->out_taken);
        exchange->out_taken = 0;
    }
    exchange->last_taken = clock_seconds();
    pthread_mutex_unlock(&exchange->mutex);
    return result;
}

static void release_reply(void *context) {
    http_exchange_drop(context);
}

/* A header that the library refuses (a line break in it) is left out: it could only do harm. */
static void add_header(struct MHD_Response *response, const char *name, const char *value) {
    if (MHD_add_response_header(response, name, value) != MHD_YES) {
        log_write(LOG_WARNING, "http", "a reply's header %s cannot be sent", name);
    }
}

struct MHD_Response *http_reply_make_response(struct http_exchange *exchange) {
    size_t waiting = exchange->out.length - exchange->out_taken;
    uint64_t total = exchange->is_whole ? waiting : MHD_SIZE_UNKNOWN;
    size_t block = exchange->is_whole ? WHOLE_BLOCK_BYTES : STREAM_BLOCK_BYTES;
    struct MHD_Response *response =
        exchange->is_whole && waiting == 0
            ? MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT)
            : MHD_create_response_from_callback(total, block, read_reply, exchange, release_reply);
    if (response == NULL) {
        return NULL;
    }
    if (!exchange->is_whole || waiting > 0) {
        http_exchange_hold(exchange);
    }
    const char *end = exchange->head_fields.data + exchange->head_fields.length;
    for (const char *name = exchange->head_fields.data; name < end;) {
        const char *value = name + strlen(name) + 1;
        add_header(response, name, value);
        name = value + strlen(value) + 1;
    }
    if (atomic_load(&exchange->server->is_draining)) {
        add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    return response;
}

const char *http_reply_describe_refusal(struct http_server *server, const struct http_refusal *refusal,
                                        struct string_buffer *body) {
    const struct http_server_options *options = &server->options;
    if (options->refuse != NULL) {
        return options->refuse(options->context, refusal, body);
    }
    string_buffer_append_text(body, refusal->why);
    string_buffer_append_char(body, '\n');
    return "text/plain; charset=utf-8";
}

enum MHD_Result http_reply_refuse(struct http_exchange *exchange, int status, const char *why) {
    struct string_buffer body = {0};
    const struct http_refusal refusal = {
        .status = status,
        .why = why,
        .method = exchange->method,
        .path = exchange->target.path == NULL ? "" : exchange->target.path,
        .peer = exchange->peer,
    };
    const char *content_type = http_reply_describe_refusal(exchange->server, &refusal, &body);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body.length, body.data, MHD_RESPMEM_MUST_COPY);
    string_buffer_deinit(&body);
    if (response == NULL) {
        return MHD_NO;
    }
    add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE) {
        add_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    }
    enum MHD_Result result = MHD_queue_response(exchange->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}
