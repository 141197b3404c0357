/* The head of a request: copied out of the library's buffer, then judged. */
#include <stdlib.h>
#include <string.h>

#include "lib/http_server_impl.h"

/* The last version of the library that parses heads in place and passes over what is malformed. */
enum { LENIENT_PARSER_LAST = 0x00097506 };

struct field_list {
    struct http_field fields[HTTP_FIELDS_MAX];
    size_t count;
    size_t byte_count; /* with a NUL behind each name and value */
    bool is_full;
};

static enum MHD_Result collect_field(void *context, enum MHD_ValueKind kind, const char *name,
                                     size_t name_length, const char *value, size_t value_length) {
    (void)kind;
    struct field_list *list = context;
    if (list->count == HTTP_FIELDS_MAX) {
        list->is_full = true;
        return MHD_NO;
    }
    list->fields[list->count++] = (struct http_field){
        .name = name,
        .name_length = name_length,
        .value = value == NULL ? "" : value,
        .value_length = value_length,
    };
    list->byte_count += name_length + value_length + 2;
    return MHD_YES;
}

static bool copy_fields(struct http_exchange *exchange, const struct field_list *list) {
    char *at = malloc(list->byte_count + 1);
    if (at == NULL) {
        return false;
    }
    exchange->field_storage = at;
    exchange->field_count = list->count;
    for (size_t i = 0; i < list->count; i++) {
        const struct http_field *field = &list->fields[i];
        memcpy(at, field->name, field->name_length);
        at += field->name_length;
        *at++ = '\0';
        memcpy(at, field->value, field->value_length);
        at += field->value_length;
        *at++ = '\0';
    }
    return true;
}

static size_t head_bytes(const struct http_exchange *exchange) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return info == NULL ? 0 : info->header_size;
}

static struct http_verdict refuse(int status, const char *why) {
    return (struct http_verdict){.status = status, .why = why};
}

/* Judges what was collected and keeps it. */
static struct http_verdict judge(struct http_exchange *exchange, const char *method, const char *version,
                                 const struct field_list *list) {
    const struct http_head head = {
        .method = method,
        .version = version,
        .target = exchange->raw_target,
        .target_length = exchange->raw_target_length,
        .fields = list->fields,
        .field_count = list->count,
        .byte_count = head_bytes(exchange),
    };
    if (list->is_full || head.byte_count > exchange->server->options.header_limit) {
        return refuse(431, "The headers of the request are too many or too long.");
    }
    if (strlen(method) >= sizeof exchange->method) {
        return refuse(501, "The request's method is not known.");
    }
    struct http_verdict verdict = http_gate_judge(&head);
    if (verdict.status != 0) {
        return verdict;
    }
    if (MHD_VERSION <= LENIENT_PARSER_LAST && !http_gate_is_whole(&head)) {
        return refuse(400, "The head of the request is malformed: lines end in CR LF and are not folded.");
    }
    if (exchange->has_bad_target) {
        return refuse(400, "The request's target is malformed.");
    }
    memcpy(exchange->method, method, strlen(method) + 1);
    return copy_fields(exchange, list) ? verdict : refuse(503, "Memory is out; please try again later.");
}

struct http_verdict http_request_read_head(struct http_exchange *exchange, const char *method,
                                           const char *version) {
    struct field_list *list = calloc(1, sizeof *list);
    if (list == NULL) {
        return refuse(503, "Memory is out; please try again later.");
    }
    MHD_get_connection_values_n(exchange->connection, MHD_HEADER_KIND, collect_field, list);
    struct http_verdict verdict = judge(exchange, method, version, list);
    free(list);
    return verdict;
}
