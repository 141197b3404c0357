/*
 * A string value streams; a JSON value waits for its end, because one that turns out to be no JSON is
 * reported as a string.
 */
#include "text/output_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/json_text.h"

void output_calls_init(struct output_calls *calls, bool is_enabled, uint64_t id_seed) {
    *calls = (struct output_calls){.is_enabled = is_enabled, .id_seed = id_seed};
}

void output_calls_deinit(struct output_calls *calls) {
    string_buffer_deinit(&calls->name);
    string_buffer_deinit(&calls->keys);
    string_buffer_deinit(&calls->key);
    string_buffer_deinit(&calls->value);
}

void output_call_id_format(uint64_t seed, size_t call_index, char out[OUTPUT_CALL_ID_BYTES]) {
    /* splitmix64: a bijection, so different inputs give different ids. */
    uint64_t mixed = seed + (uint64_t)call_index * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
    snprintf(out, OUTPUT_CALL_ID_BYTES, "call_%016" PRIx64, mixed ^ mixed >> 31);
}

static enum status append_arguments(struct output_calls *calls, const char *bytes, size_t length) {
    return output_writer_append(calls->writer, OUTPUT_EVENT_TOOL_CALL_ARGUMENTS, calls->complete_count, bytes,
                                length);
}

static enum status append_text(struct output_calls *calls, const char *text) {
    return append_arguments(calls, text, strlen(text));
}

static enum status start_call(struct output_calls *calls) {
    if (calls->is_started) {
        return STATUS_OK;
    }
    calls->is_started = true;
    TRY(string_buffer_check(&calls->name));
    char id[OUTPUT_CALL_ID_BYTES];
    output_call_id_format(calls->id_seed, calls->complete_count, id);
    struct output_event event = {.kind = OUTPUT_EVENT_TOOL_CALL_START,
                                 .text = calls->name.data,
                                 .length = calls->name.length,
                                 .call_index = calls->complete_count,
                                 .call_id = id};
    return output_writer_emit(calls->writer, &event);
}

enum status output_calls_open(struct output_calls *calls, const struct dsml_attributes *attributes) {
    TRY(output_calls_close(calls, false));
    calls->is_open = true;
    calls->is_started = false;
    calls->has_arguments = false;
    string_buffer_clear(&calls->keys);
    string_buffer_clear(&calls->name);
    if (calls->is_enabled && attributes->name != NULL) {
        string_buffer_append(&calls->name, attributes->name, attributes->name_length);
    }
    return STATUS_OK;
}

static enum status emit_mark(struct output_calls *calls, enum output_event_kind kind) {
    struct output_event event = {.kind = kind, .text = "", .call_index = calls->complete_count};
    return output_writer_emit(calls->writer, &event);
}

enum status output_calls_close(struct output_calls *calls, bool has_closing_tag) {
    TRY(output_calls_close_parameter(calls));
    if (!calls->is_open) {
        return STATUS_OK;
    }
    calls->is_open = false;
    if (calls->name.length == 0 || (!calls->is_started && !has_closing_tag)) {
        calls->is_markup_dropped = true;
        return string_buffer_check(&calls->name);
    }
    TRY(start_call(calls));
    TRY(append_text(calls, calls->has_arguments ? "}" : "{}"));
    TRY(emit_mark(calls, OUTPUT_EVENT_TOOL_CALL_END));
    calls->complete_count++;
    return STATUS_OK;
}

enum status output_calls_abandon(struct output_calls *calls) {
    if (!calls->is_open) {
        return STATUS_OK;
    }
    calls->is_open = false;
    calls->is_parameter_open = false;
    calls->is_markup_dropped = true;
    return calls->is_started ? emit_mark(calls, OUTPUT_EVENT_TOOL_CALL_ABANDON) : STATUS_OK;
}

/* Whether the invoke already has the key; adds it if not. */
static bool is_repeated_key(struct output_calls *calls, const struct string_buffer *key) {
    struct string_buffer wanted = {0};
    string_buffer_append_text(&wanted, "\n\"");
    string_buffer_append(&wanted, string_buffer_text(key), key->length);
    string_buffer_append_text(&wanted, "\"\n");
    bool is_repeated = calls->keys.length > 0 && !wanted.is_failed &&
                       memmem(calls->keys.data, calls->keys.length, wanted.data, wanted.length) != NULL;
    if (!is_repeated) {
        string_buffer_append(&calls->keys, string_buffer_text(&wanted), wanted.length);
    }
    string_buffer_deinit(&wanted);
    return is_repeated;
}

enum status output_calls_open_parameter(struct output_calls *calls,
                                        const struct dsml_attributes *attributes) {
    struct string_buffer key = {0};
    if (attributes->name != NULL) {
        json_text_append_escaped(&key, attributes->name, attributes->name_length);
    }
    enum status status = STATUS_OK;
    TRY_GOTO(string_buffer_check(&key));
    bool is_empty = !calls->is_value_begun && calls->value.length == 0;
    bool is_doubled = calls->is_parameter_open && is_empty && key.length == calls->key.length &&
                      memcmp(string_buffer_text(&key), string_buffer_text(&calls->key), key.length) == 0;
    if (!is_doubled) {
        TRY_GOTO(output_calls_close_parameter(calls));
        calls->is_parameter_open = true;
        calls->is_value_begun = false;
        string_buffer_clear(&calls->value);
        string_buffer_deinit(&calls->key);
        calls->key = key;
        key = (struct string_buffer){0};
        calls->is_parameter_dropped = !calls->is_open || calls->name.length == 0 ||
                                      attributes->name == NULL || is_repeated_key(calls, &calls->key);
        calls->is_markup_dropped = calls->is_markup_dropped || calls->is_parameter_dropped;
    }
    calls->is_value_string = attributes->is_string;
    if (!calls->is_parameter_dropped) {
        TRY_GOTO(start_call(calls));
    }
fail:
    string_buffer_deinit(&key);
    return status;
}

/* Reports the key; the value follows. */
static enum status begin_value(struct output_calls *calls) {
    if (calls->is_value_begun) {
        return STATUS_OK;
    }
    calls->is_value_begun = true;
    TRY(append_text(calls, calls->has_arguments ? ", \"" : "{\""));
    calls->has_arguments = true;
    TRY(append_arguments(calls, string_buffer_text(&calls->key), calls->key.length));
    return append_text(calls, calls->is_value_string ? "\": \"" : "\": ");
}

static enum status append_escaped(struct output_calls *calls, const char *bytes, size_t length) {
    struct string_buffer escaped = {0};
    json_text_append_escaped(&escaped, bytes, length);
    enum status status = string_buffer_check(&escaped);
    if (status == STATUS_OK) {
        status = append_arguments(calls, string_buffer_text(&escaped), escaped.length);
    }
    string_buffer_deinit(&escaped);
    return status;
}

enum status output_calls_append_value(struct output_calls *calls, const char *bytes, size_t length) {
    if (calls->is_parameter_dropped) {
        return STATUS_OK;
    }
    if (!calls->is_value_string) {
        string_buffer_append(&calls->value, bytes, length);
        return STATUS_OK;
    }
    TRY(begin_value(calls));
    /* The usual case, a character at a time, needs no buffer. */
    if (length == 1 && (unsigned char)*bytes >= 0x20 && *bytes != '"' && *bytes != '\\') {
        return append_arguments(calls, bytes, length);
    }
    return append_escaped(calls, bytes, length);
}

/* Reports a JSON value as it was written, or as a string if it is no JSON. */
static enum status append_json_value(struct output_calls *calls) {
    TRY(string_buffer_check(&calls->value));
    const char *bytes = string_buffer_text(&calls->value);
    if (calls->is_json_kept || json_text_is_valid(bytes, calls->value.length)) {
        return append_arguments(calls, bytes, calls->value.length);
    }
    TRY(append_text(calls, "\""));
    TRY(append_escaped(calls, bytes, calls->value.length));
    return append_text(calls, "\"");
}

enum status output_calls_close_parameter(struct output_calls *calls) {
    if (!calls->is_parameter_open) {
        return STATUS_OK;
    }
    calls->is_parameter_open = false;
    if (calls->is_parameter_dropped) {
        return STATUS_OK;
    }
    TRY(begin_value(calls));
    return calls->is_value_string ? append_text(calls, "\"") : append_json_value(calls);
}
