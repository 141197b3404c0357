/* Two small JSON files; unknown fields are other programs' business. */
#include "server/generation_config.h"

#include <float.h>
#include <stdbool.h>
#include <string.h>

#include "lib/json.h"

static const char FILE_NAME[] = "generation_config.json";

enum { CONFIG_BYTES_MAX = 16 << 20 };

/* Opens a JSON file of the model's folder. */
static enum status parse_file(const char *model, const char *name, struct json **out) {
    struct string_buffer path = {0};
    string_buffer_append_format(&path, "%s/%s", model, name);
    enum status status = string_buffer_check(&path);
    if (status == STATUS_OK) {
        status = json_parse_file(string_buffer_text(&path), CONFIG_BYTES_MAX, out);
    }
    string_buffer_deinit(&path);
    return status;
}

static void add_end_token(struct generation_config *out, const struct json *value) {
    if (json_kind(value) == JSON_KIND_INTEGER && out->end_token_count < END_TOKENS_MAX) {
        out->end_tokens[out->end_token_count++] = (int32_t)json_int64(value);
    }
}

/* eos_token_id is a number or a list of them. */
static void read_end_tokens(const struct json *config, struct generation_config *out) {
    const struct json *value = json_get(config, "eos_token_id");
    if (value == NULL) {
        return;
    }
    add_end_token(out, value);
    for (size_t i = 0; i < json_length(value); i++) {
        add_end_token(out, json_at(value, i));
    }
}

static bool is_number(const struct json *value) {
    return json_kind(value) == JSON_KIND_REAL || json_kind(value) == JSON_KIND_INTEGER;
}

/* A key that requests have a field for, and what it may be; bounds are those of sluice/sampling.h. */
struct generation_key {
    const char *name;
    double least, most;
    bool is_whole;
};

static const struct generation_key keys[] = {
    {"temperature", 0.0, 1e9, false},
    {"top_p", DBL_MIN, 1.0, false},
    {"top_k", -1.0, INT32_MAX, true},
    {"min_p", 0.0, 1.0, false},
    {"repetition_penalty", DBL_MIN, 1e9, false},
    {"max_new_tokens", 1.0, INT32_MAX, true},
};
enum { KEYS = sizeof keys / sizeof keys[0] };

static const struct generation_key *find_key(const char *name) {
    for (size_t i = 0; i < KEYS; i++) {
        if (strcmp(keys[i].name, name) == 0) {
            return &keys[i];
        }
    }
    return NULL;
}

static bool is_within(const struct generation_key *key, double value) {
    return value >= key->least && value <= key->most;
}

/* What nobody could sample by stays as it was. */
static void read_sampling(const struct json *config, struct generation_config *out) {
    struct sluice_sampling *sampling = &out->sampling;
    double values[KEYS] = {
        sampling->temperature,        sampling->top_p,         sampling->top_k, sampling->min_p,
        sampling->repetition_penalty, (double)out->token_limit};
    for (size_t i = 0; i < KEYS; i++) {
        const struct json *value = json_get(config, keys[i].name);
        if (value != NULL && is_number(value) && is_within(&keys[i], json_number(value))) {
            values[i] = json_number(value);
        }
    }
    sampling->temperature = values[0];
    sampling->top_p = values[1];
    sampling->top_k = (int32_t)values[2];
    sampling->min_p = values[3];
    sampling->repetition_penalty = values[4];
    out->token_limit = (int64_t)values[5];
    if (json_get(config, "do_sample") != NULL && !json_bool(json_get(config, "do_sample"))) {
        sampling->temperature = 0.0;
    }
}

static enum status check_overrides(const struct json *overrides) {
    CHECK(json_kind(overrides) == JSON_KIND_OBJECT, STATUS_USAGE,
          "--override-generation-config needs a JSON object such as {\"temperature\": 0.6}");
    for (const struct json_member *member = json_first(overrides); member != NULL;
         member = json_next(overrides, member)) {
        const char *name = json_member_key(member, NULL);
        const struct generation_key *key = find_key(name);
        const struct json *value = json_member_value(member);
        CHECK(
            key != NULL, STATUS_USAGE,
            "--override-generation-config has the key \"%.64s\", which is none of temperature, top_p, top_k, "
            "min_p, repetition_penalty and max_new_tokens",
            name);
        bool is_fit = is_number(value) && (!key->is_whole || json_kind(value) == JSON_KIND_INTEGER) &&
                      is_within(key, json_number(value));
        CHECK(is_fit, STATUS_USAGE, "--override-generation-config: %s is no %s from %s%.10g to %.10g", name,
              key->is_whole ? "whole number" : "number", key->least == DBL_MIN ? "above " : "",
              key->least == DBL_MIN ? 0.0 : key->least, key->most);
    }
    return STATUS_OK;
}

static enum status apply_overrides(const char *text, struct generation_config *out) {
    struct json *overrides = NULL;
    enum status status = json_parse(text, strlen(text), "--override-generation-config", &overrides);
    if (status != STATUS_OK) {
        return error_forward(STATUS_USAGE, ERROR_HERE);
    }
    status = check_overrides(overrides);
    if (status == STATUS_OK) {
        read_sampling(overrides, out);
    }
    json_free(&overrides);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static bool is_source(const struct generation_choice *choice, const char *word) {
    return strcmp(choice->source == NULL ? "auto" : choice->source, word) == 0;
}

enum status generation_choice_check(const struct generation_choice *choice) {
    struct generation_config unused = {.token_limit = -1};
    struct json *config = NULL;
    if (!is_source(choice, "auto") && !is_source(choice, "vllm")) {
        enum status status = parse_file(choice->source, FILE_NAME, &config);
        json_free(&config);
        CHECK(status == STATUS_OK, STATUS_USAGE,
              "--generation-config is auto, vllm or a folder with a %s: %.300s", FILE_NAME,
              error_last()->message);
    }
    return choice->overrides == NULL ? STATUS_OK : apply_overrides(choice->overrides, &unused);
}

/* The file of the model's folder, or of the one that was chosen. */
static enum status read_file(const char *model, const struct generation_choice *choice,
                             struct generation_config *out) {
    struct json *config = NULL;
    bool is_own = is_source(choice, "auto");
    if (is_source(choice, "vllm")) {
        return STATUS_OK;
    }
    enum status status = parse_file(is_own ? model : choice->source, FILE_NAME, &config);
    if (status == STATUS_OK) {
        read_sampling(config, out);
        read_end_tokens(config, out);
        json_free(&config);
    } else if (status != STATUS_NOT_FOUND || !is_own) {
        return error_forward(status, ERROR_HERE);
    }
    return STATUS_OK;
}

enum status generation_config_load(const char *model, const struct generation_choice *choice,
                                   struct generation_config *out) {
    static const struct generation_choice none = {NULL, NULL};
    *out = (struct generation_config){.sampling = sluice_sampling_default(), .token_limit = -1};
    choice = choice == NULL ? &none : choice;
    TRY(read_file(model, choice, out));
    if (choice->overrides != NULL) {
        TRY(apply_overrides(choice->overrides, out));
    }
    if (out->end_token_count == 0) {
        struct json *config = NULL;
        TRY(parse_file(model, "config.json", &config));
        read_end_tokens(config, out);
        json_free(&config);
    }
    return STATUS_OK;
}
