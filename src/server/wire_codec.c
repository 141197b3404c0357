/* Counts are compared with the bytes that are there before anything is believed. */
#include "server/wire_codec.h"

#include <limits.h>
#include <string.h>

enum { WORD_BYTES = 8 };

static size_t padding(size_t bytes) {
    return (WORD_BYTES - bytes % WORD_BYTES) % WORD_BYTES;
}

static size_t remaining(const struct wire_codec *codec) {
    return codec->is_failed ? 0 : codec->length - codec->at;
}

static const unsigned char *read_bytes(struct wire_codec *codec, size_t count) {
    if (remaining(codec) < count) {
        codec->is_failed = true;
        return NULL;
    }
    const unsigned char *bytes = codec->bytes + codec->at;
    codec->at += count;
    return bytes;
}

uint64_t wire_u64(struct wire_codec *codec, uint64_t value) {
    if (codec->out != NULL) {
        string_buffer_append(codec->out, (const char *)&value, sizeof value);
        return value;
    }
    uint64_t read = 0;
    const unsigned char *bytes = read_bytes(codec, sizeof read);
    if (bytes != NULL) {
        memcpy(&read, bytes, sizeof read);
    }
    return read;
}

int64_t wire_i64(struct wire_codec *codec, int64_t value) {
    return (int64_t)wire_u64(codec, (uint64_t)value);
}

size_t wire_size(struct wire_codec *codec, size_t value) {
    return (size_t)wire_u64(codec, value);
}

static int64_t wire_within(struct wire_codec *codec, int64_t value, int64_t first, int64_t last) {
    int64_t number = wire_i64(codec, value);
    if (number < first || number > last) {
        codec->is_failed = true;
        return 0;
    }
    return number;
}

int wire_int(struct wire_codec *codec, int value) {
    return (int)wire_within(codec, value, INT_MIN, INT_MAX);
}

double wire_f64(struct wire_codec *codec, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = wire_u64(codec, bits);
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool wire_bool(struct wire_codec *codec, bool value) {
    return wire_within(codec, value, 0, 1) == 1;
}

int wire_choice(struct wire_codec *codec, int value, int last) {
    return (int)wire_within(codec, value, 0, last);
}

const void *wire_array(struct wire_codec *codec, const void *items, size_t *count, size_t item_bytes) {
    static const char zeros[WORD_BYTES] = {0};
    *count = wire_size(codec, *count);
    if (codec->out != NULL) {
        string_buffer_append(codec->out, items, *count * item_bytes);
        string_buffer_append(codec->out, zeros, padding(*count * item_bytes));
        return items;
    }
    const unsigned char *bytes = NULL;
    if (*count <= remaining(codec) / item_bytes) {
        size_t length = *count * item_bytes;
        bytes = read_bytes(codec, length + padding(length));
    }
    if (bytes == NULL) {
        codec->is_failed = true;
        *count = 0;
    }
    return bytes;
}

struct service_text wire_text(struct wire_codec *codec, struct service_text text) {
    text.bytes = wire_array(codec, text.bytes, &text.length, 1);
    return text;
}

const struct service_text *wire_texts(struct wire_codec *codec, const struct service_text *texts,
                                      size_t *count) {
    *count = wire_size(codec, *count);
    if (codec->out != NULL) {
        for (size_t i = 0; i < *count; i++) {
            wire_text(codec, texts[i]);
        }
        return texts;
    }
    struct service_text *read = NULL;
    if (*count <= remaining(codec) / WORD_BYTES) {
        read = ARENA_NEW(codec->arena, struct service_text, *count);
    }
    if (read == NULL) {
        codec->is_failed = true;
        *count = 0;
    }
    for (size_t i = 0; i < *count; i++) {
        read[i] = wire_text(codec, (struct service_text){0});
    }
    return read;
}

bool wire_is_complete(const struct wire_codec *codec) {
    return !codec->is_failed && (codec->out != NULL || codec->at == codec->length);
}
