/*
 * The APIs over a scripted service: a request in, the reply as JSON or as a stream's events. mini-v4's
 * tokenizer, 4096 positions of context, models "tiny" and "tiny-2". Every function asserts.
 */
#ifndef SLUICE_TESTS_SERVER_API_FIXTURE_H
#define SLUICE_TESTS_SERVER_API_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/json.h"
#include "server/api.h"
#include "support/memory_reply.h"
#include "support/script_service.h"
#include "text/tokenizer.h"

#define EOS "<｜end▁of▁sentence｜>"
#define DSML "｜DSML｜"
#define CHAT "/v1/chat/completions"
#define COMPLETIONS "/v1/completions"

enum { STREAM_EVENTS_MAX = 4096 };

/* An event of a stream. */
struct stream_event {
    char name[64];     /* "" without an event line */
    struct json *data; /* NULL for [DONE] */
};

struct api_fixture {
    struct tokenizer *tokenizer;
    struct service *service;
    struct api *api;
    struct memory_reply reply; /* of the last request */
    bool has_reply;
    struct json *body; /* its JSON, if it was whole */
    struct stream_event *events;
    size_t event_count;
    size_t comment_count;
    bool is_done; /* the stream ended with [DONE] */
};

/* Setup and teardown of a cmocka group: `*state` is the fixture. */
int api_fixture_open(void **state);
int api_fixture_close(void **state);

/* The options that open uses, to be changed for an api of one's own. */
struct api_options api_fixture_options(const struct api_fixture *fixture);

/* Before each case: no scripts, no requests. */
void api_fixture_reset(struct api_fixture *fixture);

/* The ids of a text, control tokens matched. Owned: token_list_deinit. */
struct token_list api_fixture_ids(const struct api_fixture *fixture, const char *text);

/* Hands a request to its route; the reply may be still to come. */
void api_fixture_send(struct api_fixture *fixture, const char *method, const char *path, const char *body,
                      size_t length);

/* Sends, steps the service until the reply has ended, and reads it. Returns the status. */
int api_fixture_exchange(struct api_fixture *fixture, const char *method, const char *path, const char *body,
                         size_t length);

/* Steps the service until the reply has ended, and reads it. */
void api_fixture_receive(struct api_fixture *fixture);

/* An exchange with a body that is a string, and one without. */
int api_fixture_post(struct api_fixture *fixture, const char *path, const char *body);
int api_fixture_get(struct api_fixture *fixture, const char *path);

/* The value at "choices.0.message.content"; NULL if there is none. */
const struct json *json_find(const struct json *root, const char *path);

void assert_json_text(const struct json *root, const char *path, const char *expected);
void assert_json_integer(const struct json *root, const char *path, int64_t expected);
void assert_json_null(const struct json *root, const char *path); /* null or absent */

/* All texts at `path` of a stream's events joined, of one choice (-1: whatever). Owned: string_buffer_deinit.
 */
struct string_buffer stream_text(const struct api_fixture *fixture, const char *path, int64_t choice);
void assert_stream_text(const struct api_fixture *fixture, const char *path, int64_t choice,
                        const char *expected);

/* Events of a stream whose value at `path` is a text. */
size_t stream_count(const struct api_fixture *fixture, const char *path, int64_t choice);

#endif
