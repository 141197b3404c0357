/* The list of all keywords that a schema may have. */
#include <string.h>

#include "text/grammar/json_schema_internal.h"

enum value_kind {
    VALUE_ANY,
    VALUE_ANNOTATION,
    VALUE_TEXT,
    VALUE_COUNT,
    VALUE_NUMBER,
    VALUE_SCHEMA,
    VALUE_SCHEMAS, /* an array of one or more */
    VALUE_SCHEMA_BY_NAME,
    VALUE_TEXTS,
    VALUE_ARRAY,
    VALUE_FLAG,
    VALUE_FALSE, /* true is refused */
    VALUE_TYPE,
};

static const struct keyword {
    const char *name;
    enum value_kind kind;
} keywords[] = {
    {"type", VALUE_TYPE},
    {"properties", VALUE_SCHEMA_BY_NAME},
    {"required", VALUE_TEXTS},
    {"additionalProperties", VALUE_SCHEMA},
    {"enum", VALUE_ARRAY},
    {"const", VALUE_ANY},
    {"anyOf", VALUE_SCHEMAS},
    {"oneOf", VALUE_SCHEMAS},
    {"allOf", VALUE_SCHEMAS},
    {"$ref", VALUE_TEXT},
    {"$defs", VALUE_SCHEMA_BY_NAME},
    {"definitions", VALUE_SCHEMA_BY_NAME},
    {"items", VALUE_SCHEMA},
    {"prefixItems", VALUE_SCHEMAS},
    {"minItems", VALUE_COUNT},
    {"maxItems", VALUE_COUNT},
    {"minLength", VALUE_COUNT},
    {"maxLength", VALUE_COUNT},
    {"pattern", VALUE_TEXT},
    {"format", VALUE_TEXT},
    {"minimum", VALUE_NUMBER},
    {"maximum", VALUE_NUMBER},
    {"exclusiveMinimum", VALUE_NUMBER},
    {"exclusiveMaximum", VALUE_NUMBER},
    {"minProperties", VALUE_COUNT},
    {"maxProperties", VALUE_COUNT},
    {"nullable", VALUE_FLAG},
    {"uniqueItems", VALUE_FALSE},
    {"title", VALUE_ANNOTATION},
    {"description", VALUE_ANNOTATION},
    {"default", VALUE_ANNOTATION},
    {"example", VALUE_ANNOTATION},
    {"examples", VALUE_ANNOTATION},
    {"deprecated", VALUE_ANNOTATION},
    {"readOnly", VALUE_ANNOTATION},
    {"writeOnly", VALUE_ANNOTATION},
    {"discriminator", VALUE_ANNOTATION},
    {"contentMediaType", VALUE_ANNOTATION},
    {"contentEncoding", VALUE_ANNOTATION},
    {"$schema", VALUE_ANNOTATION},
    {"$id", VALUE_ANNOTATION},
    {"$comment", VALUE_ANNOTATION},
};

static bool is_schema(const struct json *value) {
    return json_kind(value) == JSON_KIND_OBJECT || json_kind(value) == JSON_KIND_BOOL;
}

static bool are_all(const struct json *array, bool (*test)(const struct json *)) {
    /* An object has a length too, and nothing at an index. */
    if (json_kind(array) != JSON_KIND_ARRAY) {
        return false;
    }
    for (size_t i = 0; i < json_length(array); i++) {
        if (!test(json_at(array, i))) {
            return false;
        }
    }
    return true;
}

static bool is_text(const struct json *value) {
    return json_kind(value) == JSON_KIND_STRING;
}

static bool is_type_name(const struct json *value) {
    static const char *const names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
    for (size_t i = 0; i < sizeof names / sizeof *names && is_text(value); i++) {
        if (strcmp(json_text(value, NULL), names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool are_named_schemas(const struct json *value) {
    for (const struct json_member *m = json_first(value); m != NULL; m = json_next(value, m)) {
        if (!is_schema(json_member_value(m))) {
            return false;
        }
    }
    return json_kind(value) == JSON_KIND_OBJECT;
}

static bool is_number(const struct json *value) {
    return json_kind(value) == JSON_KIND_INTEGER || json_kind(value) == JSON_KIND_REAL;
}

/* Whether the value is what the keyword takes; `expected` says what that is. */
static bool fits(enum value_kind kind, const struct json *value, const char **expected) {
    switch (kind) {
    case VALUE_TEXT:
        *expected = "a string";
        return is_text(value);
    case VALUE_COUNT:
        *expected = "an integer from 0 on";
        return is_number(value) && json_number(value) >= 0 &&
               (json_kind(value) == JSON_KIND_INTEGER || json_number(value) < 1e15) &&
               (json_kind(value) == JSON_KIND_INTEGER ||
                json_number(value) == (double)(int64_t)json_number(value));
    case VALUE_NUMBER:
        *expected = "a number";
        return is_number(value);
    case VALUE_SCHEMA:
        *expected = "a schema, that is an object, true or false";
        return is_schema(value);
    case VALUE_SCHEMAS:
        *expected = "an array of one or more schemas";
        return are_all(value, is_schema) && json_length(value) > 0;
    case VALUE_SCHEMA_BY_NAME:
        *expected = "an object of schemas";
        return are_named_schemas(value);
    case VALUE_TEXTS:
        *expected = "an array of strings";
        return are_all(value, is_text);
    case VALUE_ARRAY:
        *expected = "an array";
        return json_kind(value) == JSON_KIND_ARRAY;
    case VALUE_FLAG:
    case VALUE_FALSE:
        *expected = "true or false";
        return json_kind(value) == JSON_KIND_BOOL;
    case VALUE_TYPE:
        *expected = "one or several of null, boolean, integer, number, string, array and object";
        return is_type_name(value) || are_all(value, is_type_name);
    default:
        return true;
    }
}

static enum status check_keyword(const char *name, const struct json *value, const char *path) {
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        if (strcmp(keywords[i].name, name) == 0) {
            const char *expected = "";
            CHECK(fits(keywords[i].kind, value, &expected), STATUS_BAD_FORMAT,
                  "the schema's keyword \"%s\" at %s is not %s", name, path, expected);
            CHECK(keywords[i].kind != VALUE_FALSE || !json_bool(value), STATUS_UNSUPPORTED,
                  "the schema's keyword \"%s\" at %s is not supported: a grammar cannot remember what came "
                  "before; leave it out and check the answer",
                  name, path);
            return STATUS_OK;
        }
    }
    CHECK(strncmp(name, "x-", 2) == 0, STATUS_UNSUPPORTED,
          "the schema's keyword \"%s\" at %s is not supported; leave it out or express it otherwise", name,
          path);
    return STATUS_OK;
}

enum status schema_check_keywords(const struct json *value, const char *path) {
    for (const struct json_member *m = json_first(value); m != NULL; m = json_next(value, m)) {
        size_t length;
        TRY(check_keyword(json_member_key(m, &length), json_member_value(m), path));
    }
    return STATUS_OK;
}

enum status schema_count(const struct schema_node *node, const char *keyword, bool is_minimum,
                         uint32_t *out) {
    const struct json *value = json_get(node->value, keyword);
    if (value == NULL) {
        return STATUS_OK;
    }
    double number = json_number(value);
    uint32_t count = number < (double)(UINT32_MAX - 1) ? (uint32_t)number : UINT32_MAX - 1;
    CHECK(count <= NFA_REPEAT_MAX, STATUS_UNSUPPORTED,
          "the schema's keyword \"%s\" at %s is higher than %d, which is not supported; lower it or leave it "
          "out",
          keyword, node->path, (int)NFA_REPEAT_MAX);
    bool is_tighter = is_minimum ? count > *out : count < *out;
    *out = is_tighter ? count : *out;
    return STATUS_OK;
}
