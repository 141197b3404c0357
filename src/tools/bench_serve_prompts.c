/* Random prompts are token ids: without the model's tokenizer no text has a given number of tokens. */
#include "tools/bench_serve_prompts.h"

#include <string.h>

#include "tools/json_lines.h"

enum { FIRST_TOKEN = 256 }; /* control tokens and single bytes come first in many vocabularies */

/* splitmix64 */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

double bench_serve_random(uint64_t *state) {
    return (double)(next_random(state) >> 11) / 9007199254740992.0; /* 2^53 */
}

static bool is_of_kind(const struct json *value, enum json_kind kind) {
    return value != NULL && json_kind(value) == kind;
}

static enum status check_line(const struct bench_serve_prompts *prompts, size_t index) {
    const struct json *line = json_at(prompts->lines, index);
    const char *path = prompts->options.dataset_path;
    const struct json *messages = json_get(line, "messages");
    const struct json *prompt = json_get(line, "prompt");
    bool has_messages = is_of_kind(messages, JSON_KIND_ARRAY);
    bool has_prompt = is_of_kind(prompt, JSON_KIND_STRING) || is_of_kind(prompt, JSON_KIND_ARRAY);
    CHECK(has_messages != has_prompt, STATUS_BAD_FORMAT,
          "%s: object %zu has not exactly one of \"prompt\" (text or token ids) and \"messages\"", path,
          index + 1);
    bool is_chat = prompts->endpoint == BENCH_SERVE_CHAT;
    CHECK(!has_messages || is_chat, STATUS_BAD_FORMAT,
          "%s: object %zu has messages, which only --endpoint chat takes", path, index + 1);
    CHECK(!is_chat || has_messages || is_of_kind(prompt, JSON_KIND_STRING), STATUS_BAD_FORMAT,
          "%s: object %zu has token ids, which only --endpoint completions takes", path, index + 1);
    const struct json *tokens = json_get(line, "max_tokens");
    CHECK(tokens == NULL || json_int64(tokens) > 0, STATUS_BAD_FORMAT,
          "%s: object %zu has \"max_tokens\" that is no number from 1 on", path, index + 1);
    return STATUS_OK;
}

enum status bench_serve_prompts_init(const struct bench_serve_prompt_options *options,
                                     struct bench_serve_prompts *out) {
    *out = (struct bench_serve_prompts){.options = *options, .endpoint = options->endpoint};
    if (options->dataset_path == NULL) {
        CHECK(options->endpoint != BENCH_SERVE_CHAT, STATUS_USAGE,
              "random prompts are token ids, which --endpoint chat does not take: give --dataset-path");
        CHECK(options->vocabulary_size > FIRST_TOKEN, STATUS_USAGE,
              "--vocab-size must be above %d, for random tokens are from there on", FIRST_TOKEN);
        out->endpoint = BENCH_SERVE_COMPLETIONS;
        return STATUS_OK;
    }
    TRY(json_lines_read(options->dataset_path, SIZE_MAX, &out->lines));
    if (options->endpoint == BENCH_SERVE_AUTO) {
        bool has_messages = json_get(json_at(out->lines, 0), "messages") != NULL;
        out->endpoint = has_messages ? BENCH_SERVE_CHAT : BENCH_SERVE_COMPLETIONS;
    }
    for (size_t i = 0; i < json_length(out->lines); i++) {
        enum status status = check_line(out, i);
        if (status != STATUS_OK) {
            bench_serve_prompts_deinit(out);
            return error_forward(status, ERROR_HERE);
        }
    }
    return STATUS_OK;
}

void bench_serve_prompts_deinit(struct bench_serve_prompts *prompts) {
    json_free(&prompts->lines);
}

static void append_random_prompt(const struct bench_serve_prompts *prompts, uint64_t index,
                                 struct string_buffer *out) {
    uint64_t state = prompts->options.seed * 1000003u + index;
    uint64_t choices = (uint64_t)prompts->options.vocabulary_size - FIRST_TOKEN;
    string_buffer_append_text(out, "\"prompt\":[");
    for (int64_t i = 0; i < prompts->options.input_tokens; i++) {
        string_buffer_append_format(out, "%s%llu", i == 0 ? "" : ",",
                                    (unsigned long long)(FIRST_TOKEN + next_random(&state) % choices));
    }
    string_buffer_append_char(out, ']');
}

static enum status append_line_prompt(const struct bench_serve_prompts *prompts, const struct json *line,
                                      struct string_buffer *out) {
    const struct json *messages = json_get(line, "messages");
    if (messages != NULL) {
        string_buffer_append_text(out, "\"messages\":");
        return json_write(messages, out);
    }
    bool is_chat = prompts->endpoint == BENCH_SERVE_CHAT;
    string_buffer_append_text(out, is_chat ? "\"messages\":[{\"role\":\"user\",\"content\":" : "\"prompt\":");
    TRY(json_write(json_get(line, "prompt"), out));
    string_buffer_append_text(out, is_chat ? "}]" : "");
    return STATUS_OK;
}

static enum status append_text(const char *text, struct string_buffer *out) {
    struct json *value = json_new_string(text, strlen(text));
    CHECK_MEMORY(value);
    enum status status = json_write(value, out);
    json_free(&value);
    return status;
}

enum status bench_serve_prompts_write(const struct bench_serve_prompts *prompts, const char *model,
                                      uint64_t index, struct string_buffer *out) {
    const struct bench_serve_prompt_options *options = &prompts->options;
    int64_t max_tokens = options->output_tokens;
    string_buffer_append_text(out, "{\"model\":");
    TRY(append_text(model, out));
    string_buffer_append_char(out, ',');
    if (prompts->lines == NULL) {
        append_random_prompt(prompts, index, out);
    } else {
        const struct json *line = json_at(prompts->lines, index % json_length(prompts->lines));
        const struct json *own = json_get(line, "max_tokens");
        max_tokens = own != NULL ? json_int64(own) : max_tokens;
        TRY(append_line_prompt(prompts, line, out));
    }
    string_buffer_append_format(out,
                                ",\"max_tokens\":%lld,\"temperature\":%.9g,\"stream\":true,"
                                "\"stream_options\":{\"include_usage\":true}%s}",
                                (long long)max_tokens, options->temperature,
                                options->ignores_end ? ",\"ignore_eos\":true" : "");
    return string_buffer_check(out);
}

const char *bench_serve_prompts_path(const struct bench_serve_prompts *prompts) {
    return prompts->endpoint == BENCH_SERVE_CHAT ? "/v1/chat/completions" : "/v1/completions";
}
