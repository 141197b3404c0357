/*
 * Token texts may be parts of characters. Where only a text can be given, such a token reads
 * "bytes:\xF0\x9F", as in OpenAI's completions, so that different tokens stay different; chat has "bytes"
 * beside the text.
 */
#include "server/log_probability_json.h"

#include <stdio.h>
#include <string.h>

#include "text/utf8.h"

/* What stands for tokens that cannot come, as in vLLM: JSON has no infinity. */
static const double least_log_probability = -9999.0;

static double bounded(double log_probability) {
    return log_probability > least_log_probability ? log_probability : least_log_probability;
}

static void append_name(struct string_buffer *out, const struct log_probability_names *names, int32_t id) {
    size_t length = 0;
    const char *bytes = tokenizer_token_bytes(names->tokenizer, id, &length);
    if (names->are_ids || bytes == NULL) {
        string_buffer_append_format(out, "token_id:%d", id);
    } else if (utf8_valid_length(bytes, length) == length && memchr(bytes, 0, length) == NULL) {
        string_buffer_append(out, bytes, length);
    } else {
        string_buffer_append_text(out, "bytes:");
        for (size_t i = 0; i < length; i++) {
            string_buffer_append_format(out, "\\x%02x", (unsigned char)bytes[i]);
        }
    }
}

static void write_entry(struct json_writer *writer, const struct log_probability_names *names, int32_t id,
                        double log_probability) {
    size_t length = 0;
    const char *bytes = tokenizer_token_bytes(names->tokenizer, id, &length);
    if (names->are_ids || bytes == NULL) {
        char name[32];
        snprintf(name, sizeof name, "token_id:%d", id);
        json_writer_text(writer, "token", name);
    } else {
        json_writer_bytes(writer, "token", bytes, length);
    }
    json_writer_real(writer, "logprob", bounded(log_probability));
    json_writer_begin(writer, "bytes", '[');
    for (size_t i = 0; bytes != NULL && i < length; i++) {
        json_writer_integer(writer, NULL, (unsigned char)bytes[i]);
    }
    json_writer_end(writer, ']');
}

void log_probability_write_list(struct json_writer *writer, const char *key,
                                const struct log_probability_names *names,
                                const struct token_records *records) {
    json_writer_begin(writer, key, '[');
    for (size_t i = 0; i < records->count; i++) {
        const struct token_record *record = &records->items[i];
        json_writer_begin(writer, NULL, '{');
        write_entry(writer, names, record->id, record->log_probability);
        json_writer_begin(writer, "top_logprobs", '[');
        for (size_t k = 0; k < record->top_count; k++) {
            const struct sluice_log_probability *top = &records->tops[record->top_start + k];
            json_writer_begin(writer, NULL, '{');
            write_entry(writer, names, top->token, top->log_probability);
            json_writer_end(writer, '}');
        }
        json_writer_end(writer, ']');
        json_writer_end(writer, '}');
    }
    json_writer_end(writer, ']');
}

void log_probability_write_chat(struct json_writer *writer, const char *key,
                                const struct log_probability_names *names,
                                const struct token_records *records) {
    json_writer_begin(writer, key, '{');
    log_probability_write_list(writer, "content", names, records);
    json_writer_end(writer, '}');
}

/* Characters that a token adds to the text; bytes inside a character add none. */
static size_t character_count(const struct log_probability_names *names, int32_t id) {
    size_t length = 0;
    size_t count = 0;
    const char *bytes = tokenizer_token_bytes(names->tokenizer, id, &length);
    for (size_t i = 0; bytes != NULL && i < length; i++) {
        count += ((unsigned char)bytes[i] & 0xC0u) != 0x80u;
    }
    return count;
}

/* {"token": log-probability} of the likeliest tokens and the chosen one. */
static void write_top(struct json_writer *writer, const struct log_probability_names *names,
                      const struct token_records *records, const struct token_record *record) {
    struct string_buffer name = {0};
    bool has_chosen = false;
    json_writer_begin(writer, NULL, '{');
    for (size_t i = 0; i < record->top_count; i++) {
        const struct sluice_log_probability *top = &records->tops[record->top_start + i];
        has_chosen = has_chosen || top->token == record->id;
        string_buffer_clear(&name);
        append_name(&name, names, top->token);
        json_writer_real(writer, string_buffer_text(&name), bounded(top->log_probability));
    }
    if (!has_chosen) {
        string_buffer_clear(&name);
        append_name(&name, names, record->id);
        json_writer_real(writer, string_buffer_text(&name), bounded(record->log_probability));
    }
    json_writer_end(writer, '}');
    string_buffer_deinit(&name);
}

/* One of the four lists, over all parts. */
enum completion_list { LIST_OFFSETS, LIST_LOG_PROBABILITIES, LIST_TOKENS, LIST_TOPS };

static void write_completion_item(struct json_writer *writer, const struct log_probability_names *names,
                                  enum completion_list list, const struct token_records *records,
                                  const struct token_record *record) {
    struct string_buffer name = {0};
    if (list == LIST_TOKENS) {
        append_name(&name, names, record->id);
        json_writer_bytes(writer, NULL, string_buffer_text(&name), name.length);
    } else if (!record->has_log_probability) {
        json_writer_null(writer, NULL);
    } else if (list == LIST_LOG_PROBABILITIES) {
        json_writer_real(writer, NULL, bounded(record->log_probability));
    } else {
        write_top(writer, names, records, record);
    }
    string_buffer_deinit(&name);
}

void log_probability_write_completion(struct json_writer *writer, const char *key,
                                      const struct log_probability_names *names,
                                      const struct token_records *const *parts, size_t part_count,
                                      size_t *offset) {
    static const char *const keys[] = {"text_offset", "token_logprobs", "tokens", "top_logprobs"};
    json_writer_begin(writer, key, '{');
    for (int list = LIST_OFFSETS; list <= LIST_TOPS; list++) {
        json_writer_begin(writer, keys[list], '[');
        for (size_t part = 0; part < part_count; part++) {
            for (size_t i = 0; i < parts[part]->count; i++) {
                const struct token_record *record = &parts[part]->items[i];
                if (list == LIST_OFFSETS) {
                    json_writer_integer(writer, NULL, (int64_t)*offset);
                    *offset += character_count(names, record->id);
                } else {
                    write_completion_item(writer, names, (enum completion_list)list, parts[part], record);
                }
            }
        }
        json_writer_end(writer, ']');
    }
    json_writer_end(writer, '}');
}

static void write_prompt_entry(struct json_writer *writer, const struct log_probability_names *names,
                               const struct sluice_log_probability *entry, size_t rank) {
    char key[16];
    size_t length = 0;
    const char *bytes = tokenizer_token_bytes(names->tokenizer, entry->token, &length);
    snprintf(key, sizeof key, "%d", entry->token);
    json_writer_begin(writer, key, '{');
    json_writer_real(writer, "logprob", bounded(entry->log_probability));
    if (rank > 0) {
        json_writer_integer(writer, "rank", (int64_t)rank);
    } else {
        json_writer_null(writer, "rank");
    }
    json_writer_bytes(writer, "decoded_token", bytes == NULL ? "" : bytes, bytes == NULL ? 0 : length);
    json_writer_end(writer, '}');
}

void log_probability_write_prompt(struct json_writer *writer, const char *key,
                                  const struct log_probability_names *names,
                                  const struct token_records *records) {
    json_writer_begin(writer, key, '[');
    for (size_t i = 0; i < records->count; i++) {
        const struct token_record *record = &records->items[i];
        if (!record->has_log_probability) {
            json_writer_null(writer, NULL);
            continue;
        }
        bool has_chosen = false;
        json_writer_begin(writer, NULL, '{');
        for (size_t k = 0; k < record->top_count; k++) {
            const struct sluice_log_probability *top = &records->tops[record->top_start + k];
            has_chosen = has_chosen || top->token == record->id;
            write_prompt_entry(writer, names, top, k + 1);
        }
        if (!has_chosen) {
            struct sluice_log_probability chosen = {record->id, record->log_probability};
            write_prompt_entry(writer, names, &chosen, 0);
        }
        json_writer_end(writer, '}');
    }
    json_writer_end(writer, ']');
}
