/* Field by field; what was asked for is remembered, so that the rest can be counted. */
#include "server/request_reader.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SENTENCE_BYTES = 1024 };

enum status request_reader_init(struct request_reader *reader, const struct json *object, const char *place) {
    *reader = (struct request_reader){.object = object, .place = place};
    CHECK(object != NULL && json_kind(object) == JSON_KIND_OBJECT, STATUS_BAD_FORMAT,
          "the request is no JSON object; send one such as {\"model\": ..., ...}");
    return STATUS_OK;
}

enum status request_reader_fail(struct request_reader *reader, const char *name, enum status status,
                                const char *format, ...) {
    char sentence[SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    snprintf(reader->parameter, sizeof reader->parameter, "%s%s", reader->place, name);
    return error_raise(status, ERROR_HERE, "%s%s %s", reader->place, name, sentence);
}

const struct json *request_reader_get(struct request_reader *reader, const char *name) {
    if (reader->asked_count < READER_FIELDS_MAX) {
        reader->asked[reader->asked_count++] = name;
    }
    const struct json *value = json_get(reader->object, name);
    return value == NULL || json_kind(value) == JSON_KIND_NULL ? NULL : value;
}

enum status request_reader_bool(struct request_reader *reader, const char *name, bool *out) {
    const struct json *value = request_reader_get(reader, name);
    if (value == NULL) {
        return STATUS_OK;
    }
    if (json_kind(value) != JSON_KIND_BOOL) {
        return request_reader_fail(reader, name, STATUS_BAD_FORMAT, "is neither true nor false");
    }
    *out = json_bool(value);
    return STATUS_OK;
}

enum status request_reader_integer(struct request_reader *reader, const char *name, int64_t least,
                                   int64_t most, int64_t *out) {
    const struct json *value = request_reader_get(reader, name);
    if (value == NULL) {
        return STATUS_OK;
    }
    double number = json_number(value);
    /* Some clients write whole numbers as 16.0. */
    bool is_whole = json_kind(value) == JSON_KIND_REAL && floor(number) == number && fabs(number) < 0x1p53;
    if (json_kind(value) != JSON_KIND_INTEGER && !is_whole) {
        return request_reader_fail(reader, name, STATUS_BAD_FORMAT, "is not a whole number");
    }
    int64_t whole = is_whole ? (int64_t)number : json_int64(value);
    if (whole < least || whole > most) {
        return request_reader_fail(reader, name, STATUS_OUT_OF_RANGE, "is %lld; expected %lld to %lld",
                                   (long long)whole, (long long)least, (long long)most);
    }
    *out = whole;
    return STATUS_OK;
}

/* `lower` is what the error says of the lower bound. */
static enum status read_number(struct request_reader *reader, const char *name, double least,
                               const char *lower, double most, double *out) {
    const struct json *value = request_reader_get(reader, name);
    if (value == NULL) {
        return STATUS_OK;
    }
    if (json_kind(value) != JSON_KIND_INTEGER && json_kind(value) != JSON_KIND_REAL) {
        return request_reader_fail(reader, name, STATUS_BAD_FORMAT, "is not a number");
    }
    double number = json_number(value);
    if (!(number >= least && number <= most)) {
        return request_reader_fail(reader, name, STATUS_OUT_OF_RANGE, "is %g; expected %s to %g", number,
                                   lower, most);
    }
    *out = number;
    return STATUS_OK;
}

enum status request_reader_number(struct request_reader *reader, const char *name, double least, double most,
                                  double *out) {
    char lower[32];
    snprintf(lower, sizeof lower, "%g", least);
    return read_number(reader, name, least, lower, most, out);
}

enum status request_reader_positive(struct request_reader *reader, const char *name, double most,
                                    double *out) {
    return read_number(reader, name, DBL_MIN, "above 0", most, out);
}

enum status request_reader_text(struct request_reader *reader, const char *name, const char **out,
                                size_t *length) {
    const struct json *value = request_reader_get(reader, name);
    if (value == NULL) {
        return STATUS_OK;
    }
    size_t bytes = 0;
    const char *text = json_text(value, &bytes);
    if (text == NULL) {
        return request_reader_fail(reader, name, STATUS_BAD_FORMAT, "is not a string");
    }
    if (length == NULL && strlen(text) != bytes) {
        return request_reader_fail(reader, name, STATUS_BAD_FORMAT, "holds a NUL character");
    }
    *out = text;
    if (length != NULL) {
        *length = bytes;
    }
    return STATUS_OK;
}

/* "a, b or c" */
static void list_words(const char *const *words, char list[SENTENCE_BYTES]) {
    size_t length = 0;
    list[0] = '\0';
    for (size_t i = 0; words[i] != NULL && length < SENTENCE_BYTES; i++) {
        const char *between = i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ";
        length += (size_t)snprintf(list + length, SENTENCE_BYTES - length, "%s%s", between, words[i]);
    }
}

enum status request_reader_word(struct request_reader *reader, const char *name, const char *const *words,
                                const char **out) {
    char list[SENTENCE_BYTES];
    const char *text = *out;
    TRY(request_reader_text(reader, name, &text, NULL));
    for (size_t i = 0; words[i] != NULL && text != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = words[i];
            return STATUS_OK;
        }
    }
    list_words(words, list);
    if (text == NULL) {
        return request_reader_fail(reader, name, STATUS_BAD_FORMAT, "is missing; use %s", list);
    }
    return request_reader_fail(reader, name, STATUS_UNSUPPORTED, "is \"%.60s\"; use %s", text, list);
}

enum status request_reader_object(struct request_reader *reader, const char *name, const struct json **out) {
    const struct json *value = request_reader_get(reader, name);
    if (value != NULL && json_kind(value) != JSON_KIND_OBJECT) {
        return request_reader_fail(reader, name, STATUS_BAD_FORMAT, "is not an object");
    }
    *out = value != NULL ? value : *out;
    return STATUS_OK;
}

enum status request_reader_array(struct request_reader *reader, const char *name, const struct json **out) {
    const struct json *value = request_reader_get(reader, name);
    if (value != NULL && json_kind(value) != JSON_KIND_ARRAY) {
        return request_reader_fail(reader, name, STATUS_BAD_FORMAT, "is not a list");
    }
    *out = value != NULL ? value : *out;
    return STATUS_OK;
}

static bool is_empty(const struct json *value) {
    size_t length = 0;
    switch (json_kind(value)) {
    case JSON_KIND_BOOL:
        return !json_bool(value);
    case JSON_KIND_STRING:
        json_text(value, &length);
        return length == 0;
    case JSON_KIND_ARRAY:
    case JSON_KIND_OBJECT:
        return json_length(value) == 0;
    default:
        return false;
    }
}

enum status request_reader_refuse(struct request_reader *reader, const char *name, const char *why) {
    const struct json *value = request_reader_get(reader, name);
    if (value != NULL && !is_empty(value)) {
        return request_reader_fail(reader, name, STATUS_UNSUPPORTED, "is not supported: %s", why);
    }
    return STATUS_OK;
}

static bool was_asked(const struct request_reader *reader, const char *name) {
    for (size_t i = 0; i < reader->asked_count; i++) {
        if (strcmp(reader->asked[i], name) == 0) {
            return true;
        }
    }
    return false;
}

enum status request_reader_refuse_unknown(struct request_reader *reader, const char *expected) {
    for (const struct json_member *member = json_first(reader->object); member != NULL;
         member = json_next(reader->object, member)) {
        const char *name = json_member_key(member, NULL);
        if (json_kind(json_member_value(member)) != JSON_KIND_NULL && !was_asked(reader, name)) {
            return request_reader_fail(reader, name, STATUS_UNSUPPORTED, "is not known; %s", expected);
        }
    }
    return STATUS_OK;
}

enum status request_reader_forward(struct request_reader *reader, const struct request_reader *inner,
                                   enum status status) {
    if (status == STATUS_OK) {
        return STATUS_OK;
    }
    memcpy(reader->parameter, inner->parameter, sizeof reader->parameter);
    return error_forward(status, ERROR_HERE);
}

size_t request_reader_unknown_count(const struct request_reader *reader) {
    size_t count = 0;
    for (const struct json_member *member = json_first(reader->object); member != NULL;
         member = json_next(reader->object, member)) {
        count += !was_asked(reader, json_member_key(member, NULL));
    }
    return count;
}
