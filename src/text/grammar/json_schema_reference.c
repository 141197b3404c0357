/* References within the document: "#" and JSON pointers. */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/json_schema_internal.h"

static int hex_value(char byte) {
    static const char digits[] = "0123456789abcdef";
    const char *found = byte == '\0' ? NULL : strchr(digits, byte >= 'A' && byte <= 'F' ? byte + 32 : byte);
    return found == NULL ? -1 : (int)(found - digits);
}

/* One step of a pointer, its escapes undone (%xx, ~0, ~1). Moves `at` to the next slash or the end. */
static void read_step(const char **at, struct string_buffer *out) {
    string_buffer_clear(out);
    for (; **at != '\0' && **at != '/'; ++*at) {
        char byte = **at;
        if (byte == '%' && hex_value((*at)[1]) >= 0 && hex_value((*at)[2]) >= 0) {
            byte = (char)(hex_value((*at)[1]) << 4 | hex_value((*at)[2]));
            *at += 2;
        }
        if (byte == '~' && ((*at)[1] == '0' || (*at)[1] == '1')) {
            byte = (*at)[1] == '0' ? '~' : '/';
            ++*at;
        }
        string_buffer_append_char(out, byte);
    }
}

static const struct json *take_step(const struct json *value, const char *step) {
    if (json_kind(value) == JSON_KIND_OBJECT) {
        return json_get(value, step);
    }
    char *end;
    unsigned long index = strtoul(step, &end, 10);
    bool is_index = *step >= '0' && *step <= '9' && *end == '\0';
    return is_index ? json_at(value, index) : NULL;
}

enum status schema_resolve(struct json_schema *schema, const char *reference, const char *path,
                           const struct json **out, const char **out_path) {
    enum status status = STATUS_OK;
    struct string_buffer step = {0};
    struct string_buffer name = {0};
    const struct json *value = schema->root;
    bool is_pointer = strcmp(reference, "#") == 0 || strncmp(reference, "#/", 2) == 0;
    string_buffer_append_text(&name, schema->root_path);
    CHECK_GOTO(
        is_pointer, STATUS_UNSUPPORTED,
        "the schema's keyword \"$ref\" at %s is \"%s\"; only references within the schema are supported, "
        "such as \"#/$defs/name\"",
        path, reference);
    const char *at = reference + 1;
    while (*at == '/' && value != NULL) {
        at++;
        read_step(&at, &step);
        TRY_GOTO(string_buffer_check(&step));
        value = take_step(value, string_buffer_text(&step));
        string_buffer_append_format(&name, ".%s", string_buffer_text(&step));
    }
    bool is_schema =
        value != NULL && (json_kind(value) == JSON_KIND_OBJECT || json_kind(value) == JSON_KIND_BOOL);
    CHECK_GOTO(is_schema, STATUS_BAD_FORMAT,
               "the schema's keyword \"$ref\" at %s is \"%s\", and there is no schema", path, reference);
    TRY_GOTO(string_buffer_check(&name));
    *out = value;
    *out_path = arena_copy_string(schema->arena, string_buffer_text(&name), name.length);
    CHECK_MEMORY_GOTO(*out_path);
fail:
    string_buffer_deinit(&step);
    string_buffer_deinit(&name);
    return status;
}
