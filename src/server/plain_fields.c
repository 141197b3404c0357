#include "server/plain_fields.h"

#include <float.h>

#include "text/utf8.h"

enum { PAIRS_MAX = 16, KEY_CHARACTERS_MAX = 64, VALUE_CHARACTERS_MAX = 512 };

static size_t count_characters(const char *text, size_t length) {
    size_t count = 0;
    for (size_t i = 0; i < length; count++) {
        i += utf8_next(text + i, length - i).length;
    }
    return count;
}

static enum status read_pairs(struct request_reader *reader, const char *name) {
    const struct json *pairs = NULL;
    TRY(request_reader_object(reader, name, &pairs));
    if (pairs == NULL) {
        return STATUS_OK;
    }
    if (json_length(pairs) > PAIRS_MAX) {
        return request_reader_fail(reader, name, STATUS_OUT_OF_RANGE, "has %zu members; at most %d are taken",
                                   json_length(pairs), PAIRS_MAX);
    }
    for (const struct json_member *member = json_first(pairs); member != NULL;
         member = json_next(pairs, member)) {
        size_t key_length, length;
        const char *key = json_member_key(member, &key_length);
        const char *value = json_text(json_member_value(member), &length);
        if (value == NULL) {
            return request_reader_fail(reader, name, STATUS_BAD_FORMAT,
                                       "has a member \"%.64s\" that is no string", key);
        }
        if (count_characters(key, key_length) > KEY_CHARACTERS_MAX ||
            count_characters(value, length) > VALUE_CHARACTERS_MAX) {
            return request_reader_fail(
                reader, name, STATUS_OUT_OF_RANGE,
                "has a member \"%.64s\" that is too long: keys may have %d characters, values %d", key,
                KEY_CHARACTERS_MAX, VALUE_CHARACTERS_MAX);
        }
    }
    return STATUS_OK;
}

static enum status read_field(struct request_reader *reader, const struct plain_field *field) {
    static const char *const tiers[] = {"auto", "default", "flex", "priority", "scale", NULL};
    const struct json *object = NULL;
    const char *text = "";
    const char *tier = tiers[0];
    double number = 0.0;
    bool is_true = false;
    size_t length;
    switch (field->kind) {
    case PLAIN_ANY:
        request_reader_get(reader, field->name);
        break;
    case PLAIN_TEXT:
        return request_reader_text(reader, field->name, &text, &length);
    case PLAIN_BOOL:
        return request_reader_bool(reader, field->name, &is_true);
    case PLAIN_NUMBER:
        return request_reader_number(reader, field->name, -DBL_MAX, DBL_MAX, &number);
    case PLAIN_OBJECT:
        return request_reader_object(reader, field->name, &object);
    case PLAIN_PAIRS:
        return read_pairs(reader, field->name);
    case PLAIN_TIER:
        return request_reader_word(reader, field->name, tiers, &tier);
    }
    return STATUS_OK;
}

enum status plain_fields_read(struct request_reader *reader, const struct plain_field *fields, size_t count) {
    for (size_t i = 0; i < count; i++) {
        TRY(read_field(reader, &fields[i]));
    }
    return STATUS_OK;
}

enum status plain_fields_read_verbosity(struct request_reader *reader) {
    static const char *const words[] = {"low", "medium", "high", NULL};
    const char *verbosity = words[1];
    return request_reader_word(reader, "verbosity", words, &verbosity);
}
