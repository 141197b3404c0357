/* Conjunctions: putting them together, and what all their nodes say about types and fixed values. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/grammar/json_schema_internal.h"

/* Of fixed values with each other in one schema: a second or less. */
enum { COMPARISONS_MAX = 50000000 };

const char *schema_path(const struct json_schema *schema, const char *path, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return arena_format(schema->arena, "%s.%s", path, text);
}

static bool has_node(const struct conjunction *conjunction, const struct json *value) {
    for (size_t i = 0; i < conjunction->count; i++) {
        if (conjunction->nodes[i].value == value) {
            return true;
        }
    }
    return false;
}

/* Adds a node without what it refers to. */
static enum status add_node(struct conjunction *conjunction, const struct json *value, const char *path) {
    if (json_kind(value) == JSON_KIND_BOOL) {
        conjunction->is_impossible = conjunction->is_impossible || !json_bool(value);
        return STATUS_OK;
    }
    if (has_node(conjunction, value)) {
        return STATUS_OK;
    }
    CHECK(conjunction->count < CONJUNCTION_NODES_MAX, STATUS_UNSUPPORTED,
          "more than %d schemas apply at %s at once; simplify the schema", CONJUNCTION_NODES_MAX, path);
    TRY(schema_check_keywords(value, path));
    conjunction->nodes[conjunction->count++] = (struct schema_node){.value = value, .path = path};
    return STATUS_OK;
}

enum status conjunction_add(struct json_schema *schema, struct conjunction *conjunction,
                            const struct json *value, const char *path) {
    size_t next = conjunction->count;
    TRY(add_node(conjunction, value, path));
    for (; next < conjunction->count; next++) {
        const struct schema_node node = conjunction->nodes[next];
        const struct json *reference = json_get(node.value, "$ref");
        if (reference != NULL) {
            const struct json *target;
            const char *target_path;
            TRY(schema_resolve(schema, json_text(reference, NULL), node.path, &target, &target_path));
            TRY(add_node(conjunction, target, target_path));
        }
        const struct json *all = json_get(node.value, "allOf");
        for (size_t i = 0; i < json_length(all); i++) {
            const char *part_path = schema_path(schema, node.path, "allOf[%zu]", i);
            CHECK_MEMORY(part_path);
            TRY(add_node(conjunction, json_at(all, i), part_path));
        }
    }
    return STATUS_OK;
}

static unsigned types_of_name(const char *name) {
    static const struct {
        const char *name;
        unsigned types;
    } names[] = {{"null", SCHEMA_NULL},     {"boolean", SCHEMA_BOOLEAN}, {"integer", SCHEMA_INTEGER},
                 {"number", SCHEMA_NUMBER}, {"string", SCHEMA_STRING},   {"array", SCHEMA_ARRAY},
                 {"object", SCHEMA_OBJECT}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].name, name) == 0) {
            return names[i].types;
        }
    }
    return 0;
}

static unsigned types_of_node(const struct json *value) {
    const struct json *type = json_get(value, "type");
    if (type == NULL) {
        return SCHEMA_ALL;
    }
    unsigned types = json_bool(json_get(value, "nullable")) ? SCHEMA_NULL : 0;
    if (json_kind(type) == JSON_KIND_STRING) {
        return types | types_of_name(json_text(type, NULL));
    }
    for (size_t i = 0; i < json_length(type); i++) {
        types |= types_of_name(json_text(json_at(type, i), NULL));
    }
    return types;
}

unsigned conjunction_types(const struct conjunction *conjunction) {
    unsigned types = conjunction->is_impossible ? 0 : SCHEMA_ALL;
    for (size_t i = 0; i < conjunction->count; i++) {
        types &= types_of_node(conjunction->nodes[i].value);
    }
    return types;
}

unsigned schema_type_of(const struct json *value) {
    switch (json_kind(value)) {
    case JSON_KIND_NULL:
        return SCHEMA_NULL;
    case JSON_KIND_BOOL:
        return SCHEMA_BOOLEAN;
    case JSON_KIND_INTEGER:
        return SCHEMA_INTEGER;
    case JSON_KIND_REAL: {
        double number = json_number(value);
        bool is_integer = number < 1e15 && number > -1e15 && number == (double)(int64_t)number;
        return is_integer ? SCHEMA_INTEGER : SCHEMA_REAL;
    }
    case JSON_KIND_STRING:
        return SCHEMA_STRING;
    case JSON_KIND_ARRAY:
        return SCHEMA_ARRAY;
    case JSON_KIND_OBJECT:
        return SCHEMA_OBJECT;
    }
    return 0;
}

static bool are_objects_equal(const struct json *a, const struct json *b) {
    for (const struct json_member *m = json_first(a); m != NULL; m = json_next(a, m)) {
        size_t length;
        const struct json *other = json_get(b, json_member_key(m, &length));
        if (other == NULL || !schema_values_are_equal(json_member_value(m), other)) {
            return false;
        }
    }
    return json_length(a) == json_length(b);
}

/* Recursion as deep as the JSON reader allows documents to be. */
bool schema_values_are_equal(const struct json *a, const struct json *b) {
    bool are_numbers = (schema_type_of(a) & SCHEMA_NUMBER) != 0 && (schema_type_of(b) & SCHEMA_NUMBER) != 0;
    if (are_numbers) {
        return json_kind(a) == JSON_KIND_INTEGER && json_kind(b) == JSON_KIND_INTEGER
                   ? json_int64(a) == json_int64(b)
                   : json_number(a) == json_number(b);
    }
    if (json_kind(a) != json_kind(b)) {
        return false;
    }
    size_t a_length;
    size_t b_length;
    switch (json_kind(a)) {
    case JSON_KIND_BOOL:
        return json_bool(a) == json_bool(b);
    case JSON_KIND_STRING: {
        const char *a_text = json_text(a, &a_length);
        const char *b_text = json_text(b, &b_length);
        return a_length == b_length && memcmp(a_text, b_text, a_length) == 0;
    }
    case JSON_KIND_ARRAY:
        for (size_t i = 0; i < json_length(a) && json_length(a) == json_length(b); i++) {
            if (!schema_values_are_equal(json_at(a, i), json_at(b, i))) {
                return false;
            }
        }
        return json_length(a) == json_length(b);
    case JSON_KIND_OBJECT:
        return are_objects_equal(a, b);
    default:
        return true;
    }
}

enum status schema_count_comparisons(struct json_schema *schema, size_t a_count, size_t b_count) {
    size_t left = COMPARISONS_MAX - schema->comparison_count;
    CHECK(b_count == 0 || a_count <= left / b_count, STATUS_UNSUPPORTED,
          "the schema has lists of fixed values that meet each other and are too long for it; leave one of "
          "them "
          "out or shorten them");
    schema->comparison_count += a_count * b_count;
    return STATUS_OK;
}

bool conjunction_has_values(const struct conjunction *conjunction) {
    for (size_t i = 0; i < conjunction->count; i++) {
        if (json_get(conjunction->nodes[i].value, "enum") != NULL ||
            json_get(conjunction->nodes[i].value, "const") != NULL) {
            return true;
        }
    }
    return false;
}

/* Whether the node's enum and const, where it has them, allow the value. */
static bool is_among_values(const struct schema_node *node, const struct json *value) {
    const struct json *constant = json_get(node->value, "const");
    const struct json *values = json_get(node->value, "enum");
    if (constant != NULL && !schema_values_are_equal(constant, value)) {
        return false;
    }
    for (size_t i = 0; i < json_length(values); i++) {
        if (schema_values_are_equal(json_at(values, i), value)) {
            return true;
        }
    }
    return values == NULL;
}

/* Appends the value to the list if all nodes allow it; the node that it is of is not asked. */
static enum status add_value(struct json_schema *schema, const struct conjunction *conjunction, size_t owner,
                             const struct json *value, const struct json **list, size_t *count) {
    bool is_possible = (schema_type_of(value) & conjunction_types(conjunction)) != 0;
    for (size_t i = 0; i < conjunction->count && is_possible; i++) {
        is_possible = i == owner || is_among_values(&conjunction->nodes[i], value);
    }
    if (is_possible) {
        TRY(schema_value_fits(schema, conjunction, value, &is_possible));
    }
    if (is_possible) {
        list[(*count)++] = value;
    }
    return STATUS_OK;
}

enum status conjunction_values(struct json_schema *schema, const struct conjunction *conjunction,
                               const struct json *const **out, size_t *count) {
    *count = 0;
    for (size_t i = 0; i < conjunction->count; i++) {
        const struct json *constant = json_get(conjunction->nodes[i].value, "const");
        const struct json *values = json_get(conjunction->nodes[i].value, "enum");
        if (constant == NULL && values == NULL) {
            continue;
        }
        size_t candidate_count = constant != NULL ? 1 : json_length(values);
        const struct json **list = ARENA_NEW(schema->arena, const struct json *, candidate_count);
        CHECK_MEMORY(list);
        /* Lists of values are long, and each value is in its own. */
        size_t owner = constant != NULL ? conjunction->count : i;
        for (size_t j = 0; j < conjunction->count; j++) {
            size_t length = j == owner ? 0 : json_length(json_get(conjunction->nodes[j].value, "enum"));
            TRY(schema_count_comparisons(schema, candidate_count, length));
        }
        for (size_t j = 0; j < candidate_count; j++) {
            TRY(add_value(schema, conjunction, owner, constant != NULL ? constant : json_at(values, j), list,
                          count));
        }
        *out = list;
        return STATUS_OK;
    }
    return STATUS_OK;
}
