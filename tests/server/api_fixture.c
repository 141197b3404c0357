#include "server/api_fixture.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const model_names[] = {"tiny", "tiny-2"};

struct api_options api_fixture_options(const struct api_fixture *fixture) {
    return (struct api_options){.service = fixture->service,
                                .tokenizer = fixture->tokenizer,
                                .model_directory = SLUICE_SOURCE_DIR "/models/mini-v4",
                                .model_names = model_names,
                                .model_name_count = 2,
                                .log_probability_limit = 20,
                                .stored_response_bytes = 1 << 20,
                                .stored_response_seconds = 3600.0,
                                .keep_alive_seconds = 10.0,
                                .prints_tokens_details = true,
                                .has_tokenizer_info = true,
                                .running_limit = 256,
                                .thread_count = 2};
}

int api_fixture_open(void **state) {
    struct api_fixture *fixture = calloc(1, sizeof *fixture);
    assert_int_equal(tokenizer_load(SLUICE_SOURCE_DIR "/models/mini-v4/tokenizer.json", &fixture->tokenizer),
                     STATUS_OK);
    struct script_options script = {.tokenizer = fixture->tokenizer,
                                    .context_tokens = 4096,
                                    .cached_prompt_tokens = 2,
                                    .verified_drafts = 5,
                                    .accepted_drafts = 3};
    fixture->service = script_service_create(&script);
    struct api_options options = api_fixture_options(fixture);
    assert_int_equal(api_open(&options, &fixture->api), STATUS_OK);
    *state = fixture;
    return 0;
}

static void forget_reply(struct api_fixture *fixture) {
    if (fixture->has_reply) {
        memory_reply_deinit(&fixture->reply);
    }
    fixture->has_reply = false;
    json_free(&fixture->body);
    for (size_t i = 0; i < fixture->event_count; i++) {
        json_free(&fixture->events[i].data);
    }
    free(fixture->events);
    fixture->events = NULL;
    fixture->event_count = 0;
    fixture->comment_count = 0;
    fixture->is_done = false;
}

int api_fixture_close(void **state) {
    struct api_fixture *fixture = *state;
    forget_reply(fixture);
    api_close(&fixture->api);
    fixture->service->kind->close(&fixture->service);
    tokenizer_destroy(&fixture->tokenizer);
    free(fixture);
    return 0;
}

void api_fixture_reset(struct api_fixture *fixture) {
    forget_reply(fixture);
    while (script_service_live_count(fixture->service) > 0) {
        script_service_step(fixture->service);
    }
    script_service_reset(fixture->service);
}

struct token_list api_fixture_ids(const struct api_fixture *fixture, const char *text) {
    struct token_list ids = {0};
    struct tokenizer_encode_options options = {.match_added_tokens = true};
    assert_int_equal(tokenizer_encode(fixture->tokenizer, text, strlen(text), &options, &ids), STATUS_OK);
    return ids;
}

/* Whether the path is the route's; `id` gets what stands for {id}. */
static bool matches(const char *route, const char *path, char *id) {
    const char *brace = strstr(route, "{id}");
    *id = '\0';
    if (brace == NULL) {
        return strcmp(route, path) == 0;
    }
    size_t before = (size_t)(brace - route);
    const char *after = brace + strlen("{id}");
    if (strncmp(route, path, before) != 0) {
        return false;
    }
    size_t length = strcspn(path + before, "/");
    memcpy(id, path + before, length);
    id[length] = '\0';
    return length > 0 && strcmp(path + before + length, after) == 0;
}

static const char *find_header(const struct api_request *request, const char *name) {
    (void)request;
    return strcmp(name, "content-type") == 0 ? "application/json" : NULL;
}

static const char *find_query(const struct api_request *request, const char *name) {
    (void)request;
    (void)name;
    return NULL;
}

void api_fixture_send(struct api_fixture *fixture, const char *method, const char *path, const char *body,
                      size_t length) {
    size_t count;
    const struct api_route *routes = api_routes(&count);
    char id[256];
    forget_reply(fixture);
    memory_reply_init(&fixture->reply);
    fixture->has_reply = true;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(routes[i].method, method) == 0 && matches(routes[i].path, path, id)) {
            struct api_request request = {.method = method,
                                          .path = path,
                                          .path_id = *id != '\0' ? id : NULL,
                                          .request_id = "request-1",
                                          .body = body,
                                          .body_length = length,
                                          .header = find_header,
                                          .query = find_query};
            routes[i].handle(fixture->api, &request, &fixture->reply.reply);
            return;
        }
    }
    fail_msg("no route for %s %s", method, path);
}

/* One block of a stream, between blank lines. */
static void read_block(struct api_fixture *fixture, char *block) {
    struct stream_event *event = &fixture->events[fixture->event_count];
    bool has_data = false;
    for (char *line = strtok(block, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (line[0] == ':') {
            fixture->comment_count++;
        } else if (strncmp(line, "event: ", 7) == 0) {
            strncpy(event->name, line + 7, sizeof event->name - 1);
        } else {
            assert_int_equal(strncmp(line, "data: ", 6), 0);
            assert_false(fixture->is_done);
            has_data = true;
            fixture->is_done = strcmp(line + 6, "[DONE]") == 0;
            if (!fixture->is_done) {
                assert_int_equal(json_parse(line + 6, strlen(line + 6), "an event", &event->data), STATUS_OK);
            }
        }
    }
    fixture->event_count += has_data && event->data != NULL;
    assert_true(fixture->event_count < STREAM_EVENTS_MAX);
}

static void read_stream(struct api_fixture *fixture) {
    fixture->events = calloc(STREAM_EVENTS_MAX, sizeof *fixture->events);
    char *copy = strdup(string_buffer_text(&fixture->reply.body)); /* reading cuts it up */
    assert_non_null(copy);
    char *text = copy;
    while (*text != '\0') {
        char *end = strstr(text, "\n\n");
        assert_non_null(end);
        *end = '\0';
        read_block(fixture, text);
        text = end + 2;
    }
    free(copy);
}

void api_fixture_receive(struct api_fixture *fixture) {
    while (!memory_reply_is_ended(&fixture->reply) && script_service_step(fixture->service)) {
    }
    memory_reply_wait_for_end(&fixture->reply);
    if (strncmp(fixture->reply.content_type, "text/event-stream", strlen("text/event-stream")) == 0) {
        read_stream(fixture);
    } else {
        assert_string_equal(fixture->reply.content_type, "application/json");
        assert_int_equal(json_parse(string_buffer_text(&fixture->reply.body), fixture->reply.body.length,
                                    "the reply", &fixture->body),
                         STATUS_OK);
    }
}

/* Waits until the handler's work has reached the service or the reply, then lets it run. */
int api_fixture_exchange(struct api_fixture *fixture, const char *method, const char *path, const char *body,
                         size_t length) {
    size_t before = script_service_request_count(fixture->service);
    api_fixture_send(fixture, method, path, body, length);
    while (!memory_reply_is_ended(&fixture->reply) &&
           script_service_request_count(fixture->service) == before) {
        sched_yield();
    }
    api_fixture_receive(fixture);
    return fixture->reply.status;
}

int api_fixture_post(struct api_fixture *fixture, const char *path, const char *body) {
    return api_fixture_exchange(fixture, "POST", path, body, strlen(body));
}

int api_fixture_get(struct api_fixture *fixture, const char *path) {
    return api_fixture_exchange(fixture, "GET", path, "", 0);
}

const struct json *json_find(const struct json *root, const char *path) {
    char key[64];
    while (root != NULL && *path != '\0') {
        size_t length = strcspn(path, ".");
        assert_true(length < sizeof key);
        memcpy(key, path, length);
        key[length] = '\0';
        root =
            json_kind(root) == JSON_KIND_ARRAY ? json_at(root, strtoul(key, NULL, 10)) : json_get(root, key);
        path += length + (path[length] == '.');
    }
    return root;
}

void assert_json_text(const struct json *root, const char *path, const char *expected) {
    const struct json *value = json_find(root, path);
    if (value == NULL || json_text(value, NULL) == NULL) {
        fail_msg("%s is no text; expected \"%s\"", path, expected);
    }
    assert_string_equal(json_text(value, NULL), expected);
}

void assert_json_integer(const struct json *root, const char *path, int64_t expected) {
    const struct json *value = json_find(root, path);
    if (value == NULL || json_kind(value) != JSON_KIND_INTEGER) {
        fail_msg("%s is no integer; expected %lld", path, (long long)expected);
    }
    assert_int_equal(json_int64(value), expected);
}

void assert_json_null(const struct json *root, const char *path) {
    const struct json *value = json_find(root, path);
    if (value != NULL && json_kind(value) != JSON_KIND_NULL) {
        fail_msg("%s is not null", path);
    }
}

static bool is_of_choice(const struct json *data, int64_t choice) {
    const struct json *index = json_find(data, "choices.0.index");
    return choice < 0 || (index != NULL && json_int64(index) == choice);
}

struct string_buffer stream_text(const struct api_fixture *fixture, const char *path, int64_t choice) {
    struct string_buffer text = {0};
    for (size_t i = 0; i < fixture->event_count; i++) {
        const struct json *value = json_find(fixture->events[i].data, path);
        size_t length = 0;
        if (value != NULL && is_of_choice(fixture->events[i].data, choice)) {
            const char *bytes = json_text(value, &length);
            string_buffer_append(&text, bytes == NULL ? "" : bytes, bytes == NULL ? 0 : length);
        }
    }
    return text;
}

void assert_stream_text(const struct api_fixture *fixture, const char *path, int64_t choice,
                        const char *expected) {
    struct string_buffer text = stream_text(fixture, path, choice);
    assert_string_equal(string_buffer_text(&text), expected);
    string_buffer_deinit(&text);
}

size_t stream_count(const struct api_fixture *fixture, const char *path, int64_t choice) {
    size_t count = 0;
    for (size_t i = 0; i < fixture->event_count; i++) {
        const struct json *value = json_find(fixture->events[i].data, path);
        count += value != NULL && json_kind(value) == JSON_KIND_STRING &&
                 is_of_choice(fixture->events[i].data, choice);
    }
    return count;
}
