/* Each request is an easy handle of one multi handle. Answers with a status other than 200 are kept whole. */
#include "lib/http_client.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct http_client {
    CURLM *multi;
    struct curl_slist *headers;
    struct http_client_options options;
    struct exchange *first; /* all that are under way */
    size_t active;
};

/* A request under way. */
struct exchange {
    struct http_client *client;
    struct exchange *next, *previous;
    CURL *easy;
    struct http_client_request request; /* url and body are not kept */
    struct string_buffer body;
    char message[CURL_ERROR_SIZE];
};

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void start_library(void) {
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool append_header(struct http_client *client, const char *line) {
    struct curl_slist *headers = curl_slist_append(client->headers, line);
    client->headers = headers == NULL ? client->headers : headers;
    return headers != NULL;
}

enum status http_client_create(const struct http_client_options *options, struct http_client **out) {
    enum status status = STATUS_OK;
    struct string_buffer line = {0};
    pthread_once(&library_once, start_library);
    struct http_client *client = calloc(1, sizeof *client);
    CHECK_MEMORY_GOTO(client);
    client->options = *options;
    client->multi = curl_multi_init();
    CHECK_MEMORY_GOTO(client->multi);
    /* "Expect" would make servers wait for the body of long prompts. */
    bool has_headers =
        append_header(client, "Content-Type: application/json") && append_header(client, "Expect:");
    if (options->bearer_token != NULL) {
        string_buffer_append_format(&line, "Authorization: Bearer %s", options->bearer_token);
        has_headers = has_headers && !line.is_failed && append_header(client, string_buffer_text(&line));
    }
    CHECK_GOTO(has_headers, STATUS_OUT_OF_MEMORY, "out of memory");
    string_buffer_deinit(&line);
    *out = client;
    return STATUS_OK;
fail:
    string_buffer_deinit(&line);
    http_client_destroy(&client);
    return status;
}

static void free_exchange(struct exchange *exchange) {
    struct http_client *client = exchange->client;
    if (exchange->easy != NULL) {
        curl_multi_remove_handle(client->multi, exchange->easy);
        curl_easy_cleanup(exchange->easy);
    }
    string_buffer_deinit(&exchange->body);
    free(exchange);
}

static void unlink_exchange(struct exchange *exchange) {
    struct http_client *client = exchange->client;
    if (exchange->previous != NULL) {
        exchange->previous->next = exchange->next;
    } else {
        client->first = exchange->next;
    }
    if (exchange->next != NULL) {
        exchange->next->previous = exchange->previous;
    }
    client->active--;
}

void http_client_destroy(struct http_client **client) {
    if (*client == NULL) {
        return;
    }
    while ((*client)->first != NULL) {
        struct exchange *exchange = (*client)->first;
        unlink_exchange(exchange);
        free_exchange(exchange);
    }
    curl_multi_cleanup((*client)->multi);
    curl_slist_free_all((*client)->headers);
    free(*client);
    *client = NULL;
}

static size_t take_bytes(char *bytes, size_t size, size_t count, void *context) {
    struct exchange *exchange = context;
    size_t length = size * count;
    long status_code = 0;
    curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &status_code);
    if (exchange->request.on_data != NULL && status_code == 200) {
        exchange->request.on_data(exchange->request.context, bytes, length);
    } else if (exchange->body.length + length <= HTTP_CLIENT_BODY_MAX) {
        string_buffer_append(&exchange->body, bytes, length);
    }
    return length;
}

static bool set_options(struct exchange *exchange, const struct http_client_request *request) {
    const struct http_client_options *options = &exchange->client->options;
    CURL *easy = exchange->easy;
    bool is_set =
        curl_easy_setopt(easy, CURLOPT_URL, request->url) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->client->headers) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->message) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_bytes) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_PRIVATE, exchange) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(1e3 * options->connect_timeout_seconds)) ==
            CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(1e3 * options->timeout_seconds)) == CURLE_OK;
    if (request->body != NULL) {
        is_set = is_set &&
                 curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_length) ==
                     CURLE_OK &&
                 curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, request->body) == CURLE_OK;
    }
    return is_set;
}

static bool is_url(const char *url) {
    return strncmp(url, "http://", strlen("http://")) == 0 ||
           strncmp(url, "https://", strlen("https://")) == 0;
}

enum status http_client_start(struct http_client *client, const struct http_client_request *request) {
    CHECK(is_url(request->url), STATUS_BAD_ARGUMENT, "%s is no address that begins with http:// or https://",
          request->url);
    struct exchange *exchange = calloc(1, sizeof *exchange);
    CHECK_MEMORY(exchange);
    exchange->client = client;
    exchange->request = *request;
    exchange->easy = curl_easy_init();
    if (exchange->easy == NULL || !set_options(exchange, request) ||
        curl_multi_add_handle(client->multi, exchange->easy) != CURLM_OK) {
        free_exchange(exchange);
        FAIL(STATUS_OUT_OF_MEMORY, "a request to %s could not be made", request->url);
    }
    exchange->next = client->first;
    if (client->first != NULL) {
        client->first->previous = exchange;
    }
    client->first = exchange;
    client->active++;
    return STATUS_OK;
}

static void finish(struct exchange *exchange, CURLcode code) {
    struct http_client_result result = {.is_complete = code == CURLE_OK && !exchange->body.is_failed};
    curl_off_t retry_after = 0;
    curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &result.status_code);
    curl_easy_getinfo(exchange->easy, CURLINFO_RETRY_AFTER, &retry_after);
    result.retry_after_seconds = (double)retry_after;
    result.body = string_buffer_text(&exchange->body);
    result.body_length = exchange->body.length;
    const char *why = exchange->message[0] != '\0' ? exchange->message : curl_easy_strerror(code);
    result.message = code == CURLE_OK ? "" : why;
    unlink_exchange(exchange);
    exchange->request.on_done(exchange->request.context, &result);
    free_exchange(exchange);
}

enum status http_client_run(struct http_client *client, double wait_seconds) {
    int running;
    int queued;
    CURLMcode code = curl_multi_perform(client->multi, &running);
    if (code == CURLM_OK && (size_t)running == client->active) {
        code = curl_multi_poll(client->multi, NULL, 0, (int)(1e3 * wait_seconds), NULL);
        code = code == CURLM_OK ? curl_multi_perform(client->multi, &running) : code;
    }
    CHECK(code == CURLM_OK, STATUS_IO, "the HTTP client library failed: %s", curl_multi_strerror(code));
    for (CURLMsg *message; (message = curl_multi_info_read(client->multi, &queued)) != NULL;) {
        if (message->msg == CURLMSG_DONE) {
            char *exchange;
            CURLcode result = message->data.result;
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &exchange);
            finish((struct exchange *)(void *)exchange, result);
        }
    }
    return STATUS_OK;
}

size_t http_client_active(const struct http_client *client) {
    return client->active;
}
