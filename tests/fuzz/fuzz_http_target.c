/* Targets of requests: what was accepted holds no control characters, and escaped again it reads the same. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/string_buffer.h"
#include "lib/http_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool condition) {
    if (!condition) {
        __builtin_trap();
    }
}

static void append_escaped(struct string_buffer *out, const char *text, const char *plain) {
    for (const char *at = text; *at != '\0'; at++) {
        check((unsigned char)*at >= 0x20 && *at != 0x7F);
        if (strchr(plain, *at) != NULL) {
            string_buffer_append_char(out, *at);
        } else {
            string_buffer_append_format(out, "%%%02X", (unsigned)(unsigned char)*at);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct http_target first;
    struct http_target second;
    if (http_target_parse((const char *)data, size, &first) != STATUS_OK) {
        check(first.storage == NULL);
        return 0;
    }
    struct string_buffer text = {0};
    bool is_star = strcmp(first.path, "*") == 0;
    check(is_star || first.path[0] == '/');
    append_escaped(&text, first.path, is_star ? "*" : "/");
    size_t length = strlen(first.path);
    for (size_t i = 0; i < first.query_count; i++) {
        string_buffer_append_char(&text, i == 0 ? '?' : '&');
        append_escaped(&text, first.queries[i].name, "");
        string_buffer_append_char(&text, '=');
        append_escaped(&text, first.queries[i].value, "");
        length += strlen(first.queries[i].name) + strlen(first.queries[i].value);
    }
    check(length <= size + 1); /* a target without a path has the path "/" */
    check(http_target_parse(text.data, text.length, &second) == STATUS_OK);
    check(strcmp(first.path, second.path) == 0 && first.query_count == second.query_count);
    for (size_t i = 0; i < first.query_count; i++) {
        check(strcmp(first.queries[i].name, second.queries[i].name) == 0);
        check(strcmp(first.queries[i].value, second.queries[i].value) == 0);
        check(http_target_query(&second, first.queries[i].name) != NULL);
    }
    string_buffer_deinit(&text);
    http_target_deinit(&first);
    http_target_deinit(&second);
    return 0;
}
