/*
 * anyOf and oneOf: one alternative for each branch, all other nodes unchanged.
 *
 * Exactly one branch of a oneOf may hold, which a grammar cannot count. So branches must exclude each other
 * in a way that can be seen: by their types, by fixed values, or as objects by a property that has other
 * fixed values in each; that property is then asked for even where it is optional.
 */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/json_schema_internal.h"

enum { BRANCHES_MAX = 1000 };

/* A branch by itself, its references followed. */
struct branch {
    const struct json *value;
    const char *path;
    struct conjunction *own;
    struct json *added; /* a node that asks for the telling properties; NULL: none */
};

static const struct json *fixed_values(const struct conjunction *conjunction, bool *is_constant) {
    for (size_t i = 0; i < conjunction->count; i++) {
        const struct json *constant = json_get(conjunction->nodes[i].value, "const");
        const struct json *values = json_get(conjunction->nodes[i].value, "enum");
        if (constant != NULL || values != NULL) {
            *is_constant = constant != NULL;
            return constant != NULL ? constant : values;
        }
    }
    return NULL;
}

/* Whether both have fixed values and none in common. */
static enum status have_other_values(struct json_schema *schema, const struct conjunction *a,
                                     const struct conjunction *b, bool *out) {
    bool is_a_constant = false;
    bool is_b_constant = false;
    const struct json *a_values = fixed_values(a, &is_a_constant);
    const struct json *b_values = fixed_values(b, &is_b_constant);
    *out = false;
    if (a_values == NULL || b_values == NULL) {
        return STATUS_OK;
    }
    size_t a_count = is_a_constant ? 1 : json_length(a_values);
    size_t b_count = is_b_constant ? 1 : json_length(b_values);
    TRY(schema_count_comparisons(schema, a_count, b_count));
    for (size_t i = 0; i < a_count; i++) {
        for (size_t j = 0; j < b_count; j++) {
            if (schema_values_are_equal(is_a_constant ? a_values : json_at(a_values, i),
                                        is_b_constant ? b_values : json_at(b_values, j))) {
                return STATUS_OK;
            }
        }
    }
    *out = true;
    return STATUS_OK;
}

/* A property's schema in a branch, its references followed; count 0 if there is none. */
static enum status read_named(struct json_schema *schema, const struct branch *branch, const char *name,
                              struct conjunction *out) {
    *out = (struct conjunction){.count = 0};
    for (size_t i = 0; i < branch->own->count; i++) {
        const struct schema_node *node = &branch->own->nodes[i];
        const struct json *value = json_get(json_get(node->value, "properties"), name);
        if (value != NULL) {
            TRY(conjunction_add(schema, out, value, node->path));
        }
    }
    return STATUS_OK;
}

/* Asks for a property in a branch. */
static enum status ask_for(struct json_schema *schema, struct branch *branch, const char *name) {
    if (branch->added == NULL) {
        struct json *node = json_new_object();
        struct json *names = json_new_array();
        bool is_made = json_set(node, "required", names) && json_append(schema->made, node);
        CHECK(is_made, STATUS_OUT_OF_MEMORY, "out of memory");
        branch->added = node;
    }
    struct json *names = (struct json *)(uintptr_t)json_get(branch->added, "required");
    CHECK(json_append(names, json_new_string(name, strlen(name))), STATUS_OUT_OF_MEMORY, "out of memory");
    return STATUS_OK;
}

/* Looks for a property whose fixed values tell two branches of objects apart. */
static enum status tell_apart(struct json_schema *schema, struct branch *a, struct branch *b,
                              bool *is_found) {
    struct conjunction in_a;
    struct conjunction in_b;
    *is_found = false;
    for (size_t i = 0; i < a->own->count; i++) {
        const struct json *properties = json_get(a->own->nodes[i].value, "properties");
        for (const struct json_member *m = json_first(properties); m != NULL; m = json_next(properties, m)) {
            size_t length;
            const char *name = json_member_key(m, &length);
            TRY(read_named(schema, a, name, &in_a));
            TRY(read_named(schema, b, name, &in_b));
            TRY(have_other_values(schema, &in_a, &in_b, is_found));
            if (*is_found) {
                TRY(ask_for(schema, a, name));
                TRY(ask_for(schema, b, name));
                return STATUS_OK;
            }
        }
    }
    return STATUS_OK;
}

static enum status make_exclusive(struct json_schema *schema, const struct schema_node *node,
                                  struct branch *branches, size_t count) {
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            unsigned common = conjunction_types(branches[i].own) & conjunction_types(branches[j].own);
            bool is_exclusive = common == 0;
            if (!is_exclusive) {
                TRY(have_other_values(schema, branches[i].own, branches[j].own, &is_exclusive));
            }
            if (!is_exclusive && common == SCHEMA_OBJECT) {
                TRY(tell_apart(schema, &branches[i], &branches[j], &is_exclusive));
            }
            CHECK(is_exclusive, STATUS_UNSUPPORTED,
                  "the schema's keyword \"oneOf\" at %s is not supported here: branches %zu and %zu may hold "
                  "for one "
                  "value; use \"anyOf\", or give each branch a property with a \"const\" of its own",
                  node->path, i, j);
        }
    }
    return STATUS_OK;
}

static enum status read_branches(struct json_schema *schema, const struct schema_node *node,
                                 const char *keyword, struct branch **out, size_t *count) {
    const struct json *values = json_get(node->value, keyword);
    *count = json_length(values);
    CHECK(*count <= BRANCHES_MAX, STATUS_UNSUPPORTED,
          "the schema's keyword \"%s\" at %s has more than %d branches, which is not supported", keyword,
          node->path, BRANCHES_MAX);
    *out = ARENA_NEW(schema->arena, struct branch, *count);
    CHECK_MEMORY(*out);
    for (size_t i = 0; i < *count; i++) {
        struct branch *branch = &(*out)[i];
        branch->value = json_at(values, i);
        branch->path = schema_path(schema, node->path, "%s[%zu]", keyword, i);
        branch->own = ARENA_NEW(schema->arena, struct conjunction, 1);
        CHECK_MEMORY(branch->path != NULL ? branch->own : NULL);
        TRY(conjunction_add(schema, branch->own, branch->value, branch->path));
    }
    return STATUS_OK;
}

/* The alternative of one branch: the conjunction and the branch. */
static enum status add_branch(struct json_schema *schema, const struct conjunction *conjunction,
                              const struct branch *branch, struct nfa *nfa, uint32_t end) {
    uint32_t rule;
    struct conjunction *both = ARENA_NEW(schema->arena, struct conjunction, 1);
    CHECK_MEMORY(both);
    *both = *conjunction;
    TRY(conjunction_add(schema, both, branch->value, branch->path));
    if (branch->added != NULL) {
        TRY(conjunction_add(schema, both, branch->added, branch->path));
    }
    TRY(schema_rule_of(schema, both, &rule));
    nfa_add_empty(nfa, grammar_add_call(nfa, 0, rule), end);
    return STATUS_OK;
}

enum status schema_split(struct json_schema *schema, const struct conjunction *conjunction, struct nfa *nfa,
                         uint32_t end, bool *is_split) {
    struct conjunction *rest = ARENA_NEW(schema->arena, struct conjunction, 1);
    CHECK_MEMORY(rest);
    *rest = *conjunction;
    *is_split = false;
    for (size_t i = 0; i < rest->count && !*is_split; i++) {
        struct schema_node *node = &rest->nodes[i];
        bool is_any_of = !node->is_any_of_split && json_get(node->value, "anyOf") != NULL;
        bool is_one_of = !node->is_one_of_split && json_get(node->value, "oneOf") != NULL;
        if (!is_any_of && !is_one_of) {
            continue;
        }
        struct branch *branches;
        size_t count;
        *is_split = true;
        node->is_any_of_split = node->is_any_of_split || is_any_of;
        node->is_one_of_split = node->is_one_of_split || !is_any_of;
        TRY(read_branches(schema, node, is_any_of ? "anyOf" : "oneOf", &branches, &count));
        if (!is_any_of) {
            TRY(make_exclusive(schema, node, branches, count));
        }
        for (size_t j = 0; j < count; j++) {
            TRY(add_branch(schema, rest, &branches[j], nfa, end));
        }
    }
    return STATUS_OK;
}
