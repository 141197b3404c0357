/*
 * Heads of requests: read leniently and in place, as the HTTP library does, then judged by the gate. It lets
 * in exactly what a plain reading of RFC 9112, line by line over the bytes as they came, takes for
 * well-formed and unambiguous. A NUL beside a line feed is left out: the library makes line ends NULs, so it
 * looks like one.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/http_gate.h"
#include "lib/http_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct lenient_head {
    struct http_head head;
    struct http_field fields[HTTP_FIELDS_MAX];
};

/* Ends the line at `at`: returns what follows its end, or NULL; puts NULs in place of CR LF or LF. */
static char *end_line(char *at, char *end) {
    char *feed = memchr(at, '\n', (size_t)(end - at));
    if (feed == NULL) {
        return NULL;
    }
    *feed = '\0';
    if (feed > at && feed[-1] == '\r') {
        feed[-1] = '\0';
    }
    return feed + 1;
}

/* The request line; false if nothing can be made of it. */
static bool read_request_line(char *line, struct http_head *head) {
    char *target = strchr(line, ' ');
    if (target == NULL) {
        return false;
    }
    *target++ = '\0';
    target += strspn(target, " ");
    char *version = strchr(target, ' ');
    if (version == NULL) {
        return false;
    }
    head->method = line;
    head->target = target;
    head->target_length = (size_t)(version - target);
    *version++ = '\0';
    head->version = version + strspn(version, " ");
    return true;
}

/* A header's line; one without a colon, or that begins with a blank, is read as the library might. */
static bool read_field(char *line, struct http_field *field) {
    char *colon = strchr(line, ':');
    if (colon == NULL) {
        return false;
    }
    *colon = '\0';
    char *value = colon + 1;
    value += strspn(value, " \t");
    *field = (struct http_field){line, strlen(line), value, strlen(value)};
    return true;
}

/* False if there is no whole head. */
static bool read_leniently(char *text, size_t size, struct lenient_head *out) {
    char *end = text + size;
    char *line = text;
    char *next = end_line(line, end);
    out->head.fields = out->fields;
    if (next == NULL || !read_request_line(line, &out->head)) {
        return false;
    }
    for (line = next; (next = end_line(line, end)) != NULL; line = next) {
        if (*line == '\0') {
            out->head.byte_count = (size_t)(next - text);
            return true;
        }
        if (out->head.field_count == HTTP_FIELDS_MAX ||
            !read_field(line, &out->fields[out->head.field_count])) {
            return false;
        }
        out->head.field_count++;
    }
    return false;
}

/* What the plain reading has counted. */
struct strict_counts {
    int hosts, lengths, encodings, expectations;
};

static bool is_token(const char *text, size_t length) {
    static const char bytes[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\0' || strchr(bytes, text[i]) == NULL) {
            return false;
        }
    }
    return length > 0;
}

static bool is_named(const char *line, size_t length, const char *name) {
    return length == strlen(name) && strncasecmp(line, name, length) == 0;
}

static bool is_value(const char *value, size_t length, const char *expected) {
    return length == strlen(expected) && strncasecmp(value, expected, length) == 0;
}

static bool is_strict_field(const char *line, size_t length, bool is_1_1, struct strict_counts *counts) {
    const char *colon = memchr(line, ':', length);
    size_t name_length = colon == NULL ? 0 : (size_t)(colon - line);
    if (!is_token(line, name_length)) {
        return false;
    }
    const char *value = colon + 1;
    const char *end = line + length;
    while (value < end && (*value == ' ' || *value == '\t')) {
        value++;
    }
    size_t value_length = (size_t)(end - value);
    for (size_t i = 0; i < value_length; i++) {
        unsigned char byte = (unsigned char)value[i];
        if ((byte < ' ' && byte != '\t') || byte == 0x7F) {
            return false;
        }
    }
    counts->hosts += is_named(line, name_length, "Host");
    if (is_named(line, name_length, "Content-Length")) {
        counts->lengths++;
        bool is_number = value_length > 0 && value_length <= 18;
        for (size_t i = 0; i < value_length; i++) {
            is_number = is_number && value[i] >= '0' && value[i] <= '9';
        }
        return is_number;
    }
    if (is_named(line, name_length, "Transfer-Encoding")) {
        counts->encodings++;
        return is_1_1 && is_value(value, value_length, "chunked");
    }
    if (is_named(line, name_length, "Expect")) {
        counts->expectations++;
        return is_value(value, value_length, "100-continue");
    }
    return true;
}

/* Over the bytes as they came; `size` is that of the head. */
static bool is_strict(const char *text, size_t size) {
    struct strict_counts counts = {0};
    bool is_1_1 = false;
    bool is_first = true;
    for (size_t at = 0; at < size;) {
        const char *line = text + at;
        const char *feed = memchr(line, '\n', size - at);
        size_t length = feed == NULL ? 0 : (size_t)(feed - line);
        if (feed == NULL || length == 0 || line[length - 1] != '\r') {
            return false;
        }
        length--;
        at += length + 2;
        if (memchr(line, '\0', length) != NULL || memchr(line, '\r', length) != NULL) {
            return false;
        }
        if (is_first) {
            const char *blank = memchr(line, ' ', length);
            const char *second =
                blank == NULL ? NULL : memchr(blank + 1, ' ', (size_t)(line + length - blank - 1));
            if (second == NULL || !is_token(line, (size_t)(blank - line))) {
                return false;
            }
            size_t rest = (size_t)(line + length - second - 1);
            is_1_1 = is_value(second + 1, rest, "HTTP/1.1") && memcmp(second + 1, "HTTP", 4) == 0;
            if ((!is_1_1 && (rest != 8 || memcmp(second + 1, "HTTP/1.0", 8) != 0)) || second == blank + 1) {
                return false;
            }
            is_first = false;
        } else if (length == 0) {
            return at == size && counts.hosts == 1 && counts.lengths + counts.encodings <= 1 &&
                   counts.expectations <= 1;
        } else if (!is_strict_field(line, length, is_1_1, &counts)) {
            return false;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    struct lenient_head *lenient = calloc(1, sizeof *lenient);
    if (text == NULL || lenient == NULL) {
        free(text);
        free(lenient);
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    bool is_hidden = memmem(data, size, "\0\n", 2) != NULL || memmem(data, size, "\n\0", 2) != NULL;
    if (!is_hidden && read_leniently(text, size, lenient)) {
        const struct http_head *head = &lenient->head;
        struct http_target target;
        struct http_verdict verdict = http_gate_judge(head);
        bool has_target = http_target_parse(head->target, head->target_length, &target) == STATUS_OK;
        bool is_let_in = verdict.status == 0 && http_gate_is_whole(head);
        if (has_target && is_let_in != is_strict((const char *)data, head->byte_count)) {
            __builtin_trap();
        }
        if (verdict.status != 0 && (verdict.status < 400 || verdict.why == NULL)) {
            __builtin_trap();
        }
        http_target_deinit(&target);
    }
    free(text);
    free(lenient);
    return 0;
}
