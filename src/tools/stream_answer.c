/* Pieces without text (the role, usage) do not count as answers: nobody could read anything yet. */
#include "tools/stream_answer.h"

#include <string.h>

#include "base/clock.h"

static bool has_text(const struct json *value, const char *key) {
    size_t length = 0;
    json_text(json_get(value, key), &length);
    return length > 0;
}

static bool is_piece(const struct json *choice) {
    const struct json *delta = json_get(choice, "delta");
    return has_text(choice, "text") || has_text(delta, "content") || has_text(delta, "reasoning") ||
           has_text(delta, "reasoning_content") || json_length(json_get(delta, "tool_calls")) > 0;
}

static void take_piece(struct stream_answer *answer) {
    double now = clock_seconds();
    if (answer->piece_count == 0) {
        answer->first_seconds = now;
    } else {
        bench_samples_add(&answer->gaps, now - answer->last_seconds);
    }
    answer->last_seconds = now;
    answer->piece_count++;
}

static void take_usage(struct stream_answer *answer, const struct json *usage) {
    const struct json *prompt = json_get(usage, "prompt_tokens");
    const struct json *output = json_get(usage, "completion_tokens");
    answer->prompt_tokens = prompt != NULL ? json_int64(prompt) : answer->prompt_tokens;
    answer->output_tokens = output != NULL ? json_int64(output) : answer->output_tokens;
}

static void take_error(struct stream_answer *answer, const struct json *error) {
    const char *message = json_text(json_get(error, "message"), NULL);
    message = message != NULL ? message : json_text(error, NULL);
    string_buffer_append_text(&answer->error, message != NULL ? message : "the server reports an error");
}

static void take_event(void *context, const char *data, size_t length) {
    static const char done[] = "[DONE]";
    struct stream_answer *answer = context;
    struct json *event = NULL;
    if (answer->error.length > 0 || answer->is_over) {
        return;
    }
    if (length == strlen(done) && memcmp(data, done, length) == 0) {
        answer->is_over = true;
        return;
    }
    if (json_parse(data, length, "an event", &event) != STATUS_OK) {
        string_buffer_append_text(&answer->error, error_last()->message);
        return;
    }
    const struct json *error = json_get(event, "error");
    const struct json *choice = json_at(json_get(event, "choices"), 0);
    if (error != NULL && json_kind(error) != JSON_KIND_NULL) {
        take_error(answer, error);
    } else if (is_piece(choice)) {
        take_piece(answer);
    }
    answer->is_finished = answer->is_finished || has_text(choice, "finish_reason");
    take_usage(answer, json_get(event, "usage"));
    json_free(&event);
}

void stream_answer_start(struct stream_answer *answer) {
    stream_answer_deinit(answer);
    *answer = (struct stream_answer){.prompt_tokens = -1, .output_tokens = -1};
    answer->events.on_event = take_event;
    answer->events.context = answer;
}

void stream_answer_push(struct stream_answer *answer, const char *bytes, size_t length) {
    event_stream_push(&answer->events, bytes, length);
}

void stream_answer_deinit(struct stream_answer *answer) {
    bench_samples_deinit(&answer->gaps);
    string_buffer_deinit(&answer->error);
    event_stream_deinit(&answer->events);
}
