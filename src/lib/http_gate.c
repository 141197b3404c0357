/* Rules of RFC 9110 and 9112, the strict reading of each. */
#include "lib/http_gate.h"

#include <string.h>
#include <strings.h>

static bool is_token_byte(unsigned char byte) {
    bool is_letter_or_digit =
        (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
    return is_letter_or_digit || (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static bool is_token(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (!is_token_byte((unsigned char)text[i])) {
            return false;
        }
    }
    return length > 0;
}

static bool is_field_value(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if ((byte < 0x20 && byte != '\t') || byte == 0x7F) {
            return false;
        }
    }
    return true;
}

static bool is_field(const struct http_field *field, const char *name) {
    return field->name_length == strlen(name) && strncasecmp(field->name, name, field->name_length) == 0;
}

/* The only field of that name; NULL if there is none, and *count says how many there are. */
static const struct http_field *find_field(const struct http_head *head, const char *name, size_t *count) {
    const struct http_field *found = NULL;
    *count = 0;
    for (size_t i = 0; i < head->field_count; i++) {
        if (is_field(&head->fields[i], name)) {
            found = &head->fields[i];
            ++*count;
        }
    }
    return found;
}

static bool is_value(const struct http_field *field, const char *value) {
    return field->value_length == strlen(value) && strncasecmp(field->value, value, field->value_length) == 0;
}

/* Digits only: no sign, no base, no list. */
static bool read_length(const struct http_field *field, uint64_t *out) {
    enum { DIGITS_MAX = 18 };
    *out = 0;
    for (size_t i = 0; i < field->value_length; i++) {
        char digit = field->value[i];
        if (digit < '0' || digit > '9') {
            return false;
        }
        *out = *out * 10 + (uint64_t)(digit - '0');
    }
    return field->value_length > 0 && field->value_length <= DIGITS_MAX;
}

static struct http_verdict refuse(int status, const char *why) {
    return (struct http_verdict){.status = status, .why = why};
}

static struct http_verdict judge_framing(const struct http_head *head) {
    size_t length_count;
    size_t encoding_count;
    size_t host_count;
    size_t expect_count;
    const struct http_field *length = find_field(head, "content-length", &length_count);
    const struct http_field *encoding = find_field(head, "transfer-encoding", &encoding_count);
    const struct http_field *expect = find_field(head, "expect", &expect_count);
    find_field(head, "host", &host_count);
    struct http_verdict verdict = {.has_body = length_count + encoding_count > 0};
    if (host_count != 1) {
        return refuse(400, "The request must have one Host header.");
    }
    if (length_count + encoding_count > 1) {
        return refuse(400, "The request says more than once how long its body is.");
    }
    if (encoding != NULL && (!is_value(encoding, "chunked") || strcmp(head->version, "HTTP/1.1") != 0)) {
        return refuse(400, "The only Transfer-Encoding here is chunked, with HTTP/1.1.");
    }
    if (length != NULL && !read_length(length, &verdict.body_bytes)) {
        return refuse(400, "Content-Length must be a number.");
    }
    if (expect_count > 1 || (expect != NULL && !is_value(expect, "100-continue"))) {
        return refuse(417, "The only expectation met here is 100-continue.");
    }
    return verdict;
}

struct http_verdict http_gate_judge(const struct http_head *head) {
    if (!is_token(head->method, strlen(head->method))) {
        return refuse(400, "The request's method is not a word.");
    }
    if (strcmp(head->version, "HTTP/1.1") != 0 && strcmp(head->version, "HTTP/1.0") != 0) {
        return refuse(505, "The versions of HTTP spoken here are 1.0 and 1.1.");
    }
    for (size_t i = 0; i < head->field_count; i++) {
        const struct http_field *field = &head->fields[i];
        if (!is_token(field->name, field->name_length)) {
            return refuse(400, "The name of a header is not a word.");
        }
        if (!is_field_value(field->value, field->value_length)) {
            return refuse(400, "The value of a header has a control character.");
        }
    }
    return judge_framing(head);
}

/* Moves past `length` bytes and the `zeros` behind them; NULL if that is not what lies there. */
static const char *pass(const char *at, const char *end, size_t length, size_t zeros) {
    if (at == NULL || (size_t)(end - at) < length + zeros) {
        return NULL;
    }
    at += length;
    for (size_t i = 0; i < zeros; i++) {
        if (at[i] != '\0') {
            return NULL;
        }
    }
    return at + zeros;
}

/* Moves past a field's line; NULL if it is not the next one. */
static const char *pass_field(const char *at, const char *end, const struct http_field *field) {
    if (at != field->name) {
        return NULL;
    }
    at = pass(at, end, field->name_length, 1);
    while (at != NULL && at < end && at != field->value && (*at == ' ' || *at == '\t')) {
        at++;
    }
    return at == field->value ? pass(at, end, field->value_length, 2) : NULL;
}

bool http_gate_is_whole(const struct http_head *head) {
    const char *end = head->method + head->byte_count;
    const char *at = pass(head->method, end, strlen(head->method), 1);
    at = at == head->target ? pass(at, end, head->target_length, 1) : NULL;
    at = at == head->version ? pass(at, end, strlen(head->version), 2) : NULL;
    for (size_t i = 0; i < head->field_count && at != NULL; i++) {
        at = pass_field(at, end, &head->fields[i]);
    }
    return pass(at, end, 0, 2) == end;
}
