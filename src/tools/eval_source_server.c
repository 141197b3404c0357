/* Chats go to /v1/chat/completions without streaming, scoring to /v1/completions with echo. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/eval_source.h"

enum { TRIES_MAX = 6 };

static const double WAIT_SECONDS = 0.25;
static const double RETRY_SECONDS_MAX = 30.0;

struct server {
    struct api_client client;
};

/* Answering some questions. */
struct round {
    struct server *server;
    const struct eval_questions *questions;
    struct question *all;
    size_t count, ended_count, active_count;
};

struct question {
    struct round *round;
    size_t index;
    int tries;
    bool is_ended;
    bool is_waiting; /* to be sent, not before due_seconds */
    double due_seconds;
};

static void report(struct question *question, const struct eval_answer *answer) {
    const struct eval_questions *questions = question->round->questions;
    question->is_ended = true;
    question->round->ended_count++;
    questions->on_answer(questions->context, question->index, answer);
}

static void take_success(struct question *question, const struct http_client_result *result) {
    struct eval_answer answer = {0};
    struct json *body = NULL;
    if (json_parse(result->body, result->body_length, "the answer", &body) != STATUS_OK) {
        answer.error = error_last()->message;
        report(question, &answer);
        return;
    }
    const struct json *choice = json_at(json_get(body, "choices"), 0);
    const struct json *message = json_get(choice, "message");
    const struct json *usage = json_get(body, "usage");
    const char *reason = json_text(json_get(choice, "finish_reason"), NULL);
    answer.text = json_text(json_get(message, "content"), &answer.length);
    if (message == NULL) {
        answer.error = "the answer has no message";
    }
    if (answer.text == NULL) { /* all reasoning */
        answer.text = "";
        answer.length = 0;
    }
    answer.is_cut = reason != NULL && strcmp(reason, "length") == 0;
    answer.prompt_tokens = usage == NULL ? 0 : json_int64(json_get(usage, "prompt_tokens"));
    answer.output_tokens = usage == NULL ? 0 : json_int64(json_get(usage, "completion_tokens"));
    report(question, &answer);
    json_free(&body);
}

static void take_end(void *context, const struct http_client_result *result) {
    struct question *question = context;
    bool is_refused = result->status_code == 429 || result->status_code == 503;
    question->round->active_count--;
    question->tries++;
    if (result->status_code == 200 && result->is_complete) {
        take_success(question, result);
    } else if (is_refused && question->tries < TRIES_MAX) {
        double seconds = result->retry_after_seconds > 0.0 ? result->retry_after_seconds
                                                           : 0.5 * (double)(1 << (question->tries - 1));
        question->is_waiting = true;
        question->due_seconds = clock_seconds() + fmin(seconds, RETRY_SECONDS_MAX);
    } else {
        struct string_buffer message = {0};
        api_client_describe(result, &message);
        report(question, &(struct eval_answer){.error = string_buffer_text(&message), .text = ""});
        string_buffer_deinit(&message);
    }
}

/* {"model": ..., ...}; the rest is the caller's to set. */
static struct json *new_body(const struct server *server) {
    struct json *body = json_new_object();
    const struct string_buffer *model = &server->client.model;
    if (body != NULL && !json_set(body, "model", json_new_string(string_buffer_text(model), model->length))) {
        json_free(&body);
    }
    return body;
}

static bool set_thinking(struct json *body, const struct eval_questions *questions) {
    if (!questions->is_thinking_given) {
        return true;
    }
    struct json *settings = json_new_object();
    if (settings == NULL || !json_set(settings, "thinking", json_new_bool(questions->is_thinking))) {
        json_free(&settings);
    }
    return json_set(body, "chat_template_kwargs", settings);
}

/* The fields that follow the messages. */
static enum status append_settings(const struct eval_questions *questions, const struct server *server,
                                   struct string_buffer *out) {
    struct json *body = new_body(server);
    bool is_complete =
        body != NULL && json_set(body, "max_tokens", json_new_integer(questions->max_tokens)) &&
        json_set(body, "temperature", json_new_real(questions->temperature)) &&
        json_set(body, "seed", json_new_integer((int64_t)questions->seed)) && set_thinking(body, questions);
    enum status status = STATUS_OK;
    if (!is_complete) {
        status = error_raise(STATUS_OUT_OF_MEMORY, ERROR_HERE, "out of memory");
    } else {
        status = json_write(body, out);
    }
    json_free(&body);
    return status;
}

static enum status send(struct question *question) {
    struct round *round = question->round;
    struct string_buffer body = {0};
    struct http_client_request callbacks = {.on_done = take_end, .context = question};
    enum status status = append_settings(round->questions, round->server, &body);
    if (status == STATUS_OK) {
        string_buffer_drop_back(&body, 1); /* the closing brace */
        string_buffer_append_text(&body, ",\"messages\":");
        status = json_write(json_at(round->questions->conversations, question->index), &body);
        string_buffer_append_char(&body, '}');
    }
    if (status == STATUS_OK) {
        status = api_client_start(&round->server->client, "/v1/chat/completions", &body, &callbacks);
    }
    string_buffer_deinit(&body);
    TRY(status);
    question->is_waiting = false;
    round->active_count++;
    return STATUS_OK;
}

static enum status send_due(struct round *round, size_t *first_open) {
    double now = clock_seconds();
    bool is_first = true;
    for (size_t i = *first_open; i < round->count; i++) {
        struct question *question = &round->all[i];
        if (round->active_count >= (size_t)round->questions->concurrency) {
            return STATUS_OK;
        }
        if (question->is_waiting && question->due_seconds <= now) {
            TRY(send(question));
        }
        /* Those at the beginning that are through need no further look. */
        is_first = is_first && question->is_ended;
        *first_open += is_first;
    }
    return STATUS_OK;
}

static enum status answer_questions(void *self, const struct eval_questions *questions) {
    struct round round = {
        .server = self, .questions = questions, .count = json_length(questions->conversations)};
    enum status status = STATUS_OK;
    size_t first_open = 0;
    round.all = calloc(round.count, sizeof *round.all);
    CHECK_MEMORY(round.all);
    for (size_t i = 0; i < round.count; i++) {
        round.all[i] = (struct question){.round = &round, .index = i, .is_waiting = true};
    }
    while (round.ended_count < round.count) {
        TRY_GOTO(send_due(&round, &first_open));
        TRY_GOTO(http_client_run(round.server->client.http, WAIT_SECONDS));
    }
fail:
    free(round.all);
    return status;
}

static enum status read_tokens(const struct json *tokens, struct token_list *out) {
    CHECK(tokens != NULL && json_kind(tokens) == JSON_KIND_ARRAY, STATUS_BAD_FORMAT,
          "the server's answer to /tokenize has no tokens");
    TRY(token_list_reserve(out, json_length(tokens)));
    for (size_t i = 0; i < json_length(tokens); i++) {
        TRY(token_list_append(out, (int32_t)json_int64(json_at(tokens, i))));
    }
    return STATUS_OK;
}

static enum status tokenize(void *self, const char *text, size_t length, struct token_list *out) {
    struct server *server = self;
    struct json *answer = NULL;
    struct json *body = new_body(server);
    struct json *prompt = json_new_string(text, length);
    enum status status = STATUS_OK;
    CHECK_GOTO(prompt != NULL, STATUS_BAD_FORMAT, "the text is not UTF-8");
    CHECK_GOTO(body != NULL && json_set(body, "prompt", prompt) &&
                   json_set(body, "add_special_tokens", json_new_bool(false)),
               STATUS_OUT_OF_MEMORY, "out of memory");
    TRY_GOTO(api_client_ask(&server->client, "/tokenize", body, &answer));
    TRY_GOTO(read_tokens(json_get(answer, "tokens"), out));
fail:
    json_free(&body);
    json_free(&answer);
    return status;
}

static struct json *new_scoring_body(const struct server *server, const int32_t *tokens, size_t count) {
    struct json *body = new_body(server);
    struct json *prompt = json_new_array();
    bool is_complete = body != NULL && prompt != NULL;
    for (size_t i = 0; i < count && is_complete; i++) {
        is_complete = json_append(prompt, json_new_integer(tokens[i]));
    }
    is_complete = is_complete && json_set(body, "prompt", prompt) &&
                  json_set(body, "max_tokens", json_new_integer(1)) &&
                  json_set(body, "temperature", json_new_integer(0)) &&
                  json_set(body, "logprobs", json_new_integer(1)) &&
                  json_set(body, "echo", json_new_bool(true));
    if (!is_complete) {
        json_free(&body);
    }
    return body;
}

static enum status score(void *self, const int32_t *tokens, size_t count, double *out) {
    struct server *server = self;
    struct json *answer = NULL;
    enum status status = STATUS_OK;
    struct json *body = new_scoring_body(server, tokens, count);
    CHECK_MEMORY_GOTO(body);
    TRY_GOTO(api_client_ask(&server->client, "/v1/completions", body, &answer));
    const struct json *choice = json_at(json_get(answer, "choices"), 0);
    const struct json *values = json_get(json_get(choice, "logprobs"), "token_logprobs");
    CHECK_GOTO(
        values != NULL && json_length(values) >= count, STATUS_BAD_FORMAT,
        "the server gives %zu log-probabilities for %zu tokens; it must understand echo and logprobs of "
        "/v1/completions",
        values == NULL ? 0 : json_length(values), count);
    for (size_t i = 0; i < count; i++) {
        const struct json *value = json_at(values, i);
        bool is_number = json_kind(value) == JSON_KIND_REAL || json_kind(value) == JSON_KIND_INTEGER;
        CHECK_GOTO(is_number || i == 0, STATUS_BAD_FORMAT, "the server's log-probability %zu is no number",
                   i);
        out[i] = is_number ? json_number(value) : 0.0;
    }
fail:
    json_free(&body);
    json_free(&answer);
    return status;
}

static void close_server(void *self) {
    struct server *server = self;
    api_client_close(&server->client);
    free(server);
}

enum status eval_source_open_server(const struct api_client_options *options, struct eval_source *out) {
    struct server *server = calloc(1, sizeof *server);
    CHECK_MEMORY(server);
    enum status status = api_client_open(options, &server->client);
    if (status != STATUS_OK) {
        free(server);
        return error_forward(status, ERROR_HERE);
    }
    *out = (struct eval_source){.self = server,
                                .name = string_buffer_text(&server->client.base_url),
                                .model = string_buffer_text(&server->client.model),
                                .answer = answer_questions,
                                .tokenize = tokenize,
                                .score = score,
                                .close = close_server};
    return STATUS_OK;
}

void eval_source_close(struct eval_source *source) {
    if (source->close != NULL) {
        source->close(source->self);
    }
    *source = (struct eval_source){0};
}
