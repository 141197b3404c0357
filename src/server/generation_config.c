/* Two small JSON files; unknown fields are other programs' business. */
#include "server/generation_config.h"

#include "lib/json.h"

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

static void read_number(const struct json *config, const char *key, double *out) {
    const struct json *value = json_get(config, key);
    if (value != NULL && (json_kind(value) == JSON_KIND_REAL || json_kind(value) == JSON_KIND_INTEGER)) {
        *out = json_number(value);
    }
}

static void read_sampling(const struct json *config, struct sluice_sampling *out) {
    double top_k = out->top_k;
    read_number(config, "temperature", &out->temperature);
    read_number(config, "top_p", &out->top_p);
    read_number(config, "min_p", &out->min_p);
    read_number(config, "repetition_penalty", &out->repetition_penalty);
    read_number(config, "top_k", &top_k);
    out->top_k = (int32_t)top_k;
    if (json_get(config, "do_sample") != NULL && !json_bool(json_get(config, "do_sample"))) {
        out->temperature = 0.0;
    }
}

enum status generation_config_load(const char *model, struct generation_config *out) {
    *out = (struct generation_config){.sampling = sluice_sampling_default()};
    struct json *config = NULL;
    enum status status = parse_file(model, "generation_config.json", &config);
    if (status == STATUS_OK) {
        read_sampling(config, &out->sampling);
        read_end_tokens(config, out);
        json_free(&config);
    } else if (status != STATUS_NOT_FOUND) {
        return error_forward(status, ERROR_HERE);
    }
    if (out->end_token_count == 0) {
        TRY(parse_file(model, "config.json", &config));
        read_end_tokens(config, out);
        json_free(&config);
    }
    return STATUS_OK;
}
