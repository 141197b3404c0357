/* Decoded text is never longer than what it came from, so one buffer of the target's length holds all parts.
 */
#include "lib/http_target.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Where the decoder stands. */
struct decoder {
    const char *at;
    const char *end;
    char *out;
};

static int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    char lower = (char)(digit | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static enum status decode_escape(struct decoder *decoder, char *out) {
    int high = decoder->end - decoder->at < 3 ? -1 : hex_digit(decoder->at[1]);
    int low = high < 0 ? -1 : hex_digit(decoder->at[2]);
    CHECK(low >= 0, STATUS_BAD_FORMAT, "the request's target has a %% without two hexadecimal digits");
    int byte = high * 16 + low;
    CHECK(byte >= 0x20 && byte != 0x7F, STATUS_BAD_FORMAT,
          "the request's target has an escaped control character");
    *out = (char)byte;
    decoder->at += 3;
    return STATUS_OK;
}

/* Decodes up to one of `ends` or the end; a NUL ends the result. */
static enum status decode_part(struct decoder *decoder, const char *ends, bool plus_is_blank,
                               const char **out) {
    *out = decoder->out;
    while (decoder->at < decoder->end && strchr(ends, *decoder->at) == NULL) {
        char byte = *decoder->at;
        if (byte == '%') {
            TRY(decode_escape(decoder, &byte));
        } else {
            byte = byte == '+' && plus_is_blank ? ' ' : byte;
            decoder->at++;
        }
        *decoder->out++ = byte;
    }
    *decoder->out++ = '\0';
    return STATUS_OK;
}

static enum status decode_queries(struct decoder *decoder, struct http_target *out) {
    while (decoder->at < decoder->end) {
        struct http_query query = {.value = ""};
        TRY(decode_part(decoder, "=&", true, &query.name));
        if (decoder->at < decoder->end && *decoder->at == '=') {
            decoder->at++;
            TRY(decode_part(decoder, "&", true, &query.value));
        }
        decoder->at += decoder->at < decoder->end; /* the '&' */
        CHECK(out->query_count < HTTP_QUERY_MAX, STATUS_BAD_FORMAT,
              "the request's target has more than %d queries", HTTP_QUERY_MAX);
        out->queries[out->query_count++] = query;
    }
    return STATUS_OK;
}

/* Skips the scheme and host that a target for a proxy has. */
static void skip_origin(struct decoder *decoder) {
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t length = strlen(schemes[i]);
        if ((size_t)(decoder->end - decoder->at) >= length &&
            strncasecmp(decoder->at, schemes[i], length) == 0) {
            decoder->at += length;
            while (decoder->at < decoder->end && *decoder->at != '/' && *decoder->at != '?') {
                decoder->at++;
            }
            return;
        }
    }
}

static enum status parse_parts(const char *raw, size_t length, struct http_target *out) {
    struct decoder decoder = {.at = raw, .end = raw + length, .out = out->storage};
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)raw[i];
        CHECK(byte > 0x20 && byte < 0x7F && byte != '#', STATUS_BAD_FORMAT,
              "the request's target has a byte that must be escaped");
    }
    if (length == 1 && raw[0] == '*') {
        return decode_part(&decoder, "", false, &out->path);
    }
    skip_origin(&decoder);
    bool has_path = decoder.at < decoder.end && *decoder.at == '/';
    CHECK(has_path || decoder.at > raw, STATUS_BAD_FORMAT, "the request's target does not begin with /");
    out->path = "/";
    if (has_path) {
        TRY(decode_part(&decoder, "?", false, &out->path));
    }
    decoder.at += decoder.at < decoder.end; /* the '?' */
    return decode_queries(&decoder, out);
}

enum status http_target_parse(const char *raw, size_t length, struct http_target *out) {
    enum status status = STATUS_OK;
    /* Each part ends in a NUL: the path's, and two per query at most, in place of '=' and '&'. */
    *out = (struct http_target){.storage = malloc(length + 3)};
    CHECK_MEMORY_GOTO(out->storage);
    TRY_GOTO(parse_parts(raw, length, out));
    return STATUS_OK;
fail:
    http_target_deinit(out);
    return status;
}

void http_target_deinit(struct http_target *target) {
    free(target->storage);
    *target = (struct http_target){0};
}

const char *http_target_query(const struct http_target *target, const char *name) {
    for (size_t i = 0; i < target->query_count; i++) {
        if (strcmp(target->queries[i].name, name) == 0) {
            return target->queries[i].value;
        }
    }
    return NULL;
}
