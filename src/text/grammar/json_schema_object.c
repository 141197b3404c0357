/*
 * Objects: the declared properties in their order, each there or not as the schema says, then others.
 *
 * Two states stand between properties: nothing was written yet, or something was and a comma is due.
 */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/json_schema_internal.h"
#include "text/grammar/pattern.h"
#include "text/utf8.h"

static struct schema_property *find_property(const struct schema_object *object, const char *name) {
    for (size_t i = 0; i < object->count; i++) {
        if (strcmp(object->properties[i].name, name) == 0) {
            return &object->properties[i];
        }
    }
    return NULL;
}

static enum status declare(struct json_schema *schema, struct schema_object *object, const char *name,
                           struct schema_property **out) {
    *out = find_property(object, name);
    if (*out != NULL) {
        return STATUS_OK;
    }
    CHECK(object->count < object->capacity, STATUS_INTERNAL, "more properties than were counted");
    *out = &object->properties[object->count++];
    **out = (struct schema_property){.name = name, .name_length = strlen(name), .is_possible = true};
    (*out)->conjunction = ARENA_NEW(schema->arena, struct conjunction, 1);
    CHECK_MEMORY((*out)->conjunction);
    return STATUS_OK;
}

/* All names under properties and required, in the order of the schema. */
static enum status declare_all(struct json_schema *schema, const struct conjunction *conjunction,
                               struct schema_object *object) {
    struct schema_property *property;
    for (size_t i = 0; i < conjunction->count; i++) {
        const struct json *properties = json_get(conjunction->nodes[i].value, "properties");
        for (const struct json_member *m = json_first(properties); m != NULL; m = json_next(properties, m)) {
            size_t length;
            TRY(declare(schema, object, json_member_key(m, &length), &property));
        }
    }
    for (size_t i = 0; i < conjunction->count; i++) {
        const struct json *required = json_get(conjunction->nodes[i].value, "required");
        for (size_t j = 0; j < json_length(required); j++) {
            TRY(declare(schema, object, json_text(json_at(required, j), NULL), &property));
            property->is_required = true;
        }
    }
    return STATUS_OK;
}

/* What each node says about a property: by its name, or about all that it does not name. */
static enum status read_property(struct json_schema *schema, const struct conjunction *conjunction,
                                 struct schema_property *property) {
    for (size_t i = 0; i < conjunction->count; i++) {
        const struct schema_node *node = &conjunction->nodes[i];
        const struct json *named = json_get(json_get(node->value, "properties"), property->name);
        const struct json *value = named != NULL ? named : json_get(node->value, "additionalProperties");
        const char *path = named != NULL ? schema_path(schema, node->path, "properties.%s", property->name)
                                         : schema_path(schema, node->path, "additionalProperties");
        CHECK_MEMORY(path);
        if (value != NULL) {
            TRY(conjunction_add(schema, property->conjunction, value, path));
        }
    }
    property->is_possible = !property->conjunction->is_impossible;
    return STATUS_OK;
}

static enum status read_others(struct json_schema *schema, const struct conjunction *conjunction,
                               struct schema_object *object) {
    object->others = ARENA_NEW(schema->arena, struct conjunction, 1);
    CHECK_MEMORY(object->others);
    for (size_t i = 0; i < conjunction->count; i++) {
        const struct schema_node *node = &conjunction->nodes[i];
        const struct json *value = json_get(node->value, "additionalProperties");
        if (value != NULL) {
            const char *path = schema_path(schema, node->path, "additionalProperties");
            CHECK_MEMORY(path);
            TRY(conjunction_add(schema, object->others, value, path));
        }
        if (json_get(node->value, "minProperties") != NULL ||
            json_get(node->value, "maxProperties") != NULL) {
            object->path = node->path;
        }
        TRY(schema_count(node, "minProperties", true, &object->minimum));
        TRY(schema_count(node, "maxProperties", false, &object->maximum));
    }
    object->has_others = !object->others->is_impossible;
    return STATUS_OK;
}

/* Counts are followed among undeclared properties only; elsewhere they must say nothing new. */
static enum status check_counts(const struct schema_object *object) {
    uint32_t required = 0;
    for (size_t i = 0; i < object->count; i++) {
        required += object->properties[i].is_required;
    }
    bool is_counted = object->minimum > required || (object->maximum != UINT32_MAX &&
                                                     (object->has_others || object->maximum < object->count));
    CHECK(!is_counted || object->count == 0, STATUS_UNSUPPORTED,
          "the schema's keywords \"minProperties\" and \"maxProperties\" at %s are not supported beside "
          "declared "
          "properties; say which ones are required instead",
          object->path);
    return STATUS_OK;
}

enum status schema_object_read(struct json_schema *schema, const struct conjunction *conjunction,
                               struct schema_object *out) {
    *out = (struct schema_object){.maximum = UINT32_MAX};
    for (size_t i = 0; i < conjunction->count; i++) {
        out->capacity += json_length(json_get(conjunction->nodes[i].value, "properties")) +
                         json_length(json_get(conjunction->nodes[i].value, "required"));
    }
    CHECK(out->capacity <= 2000, STATUS_UNSUPPORTED,
          "the schema declares more than 2000 properties for one object at %s; split it",
          conjunction->nodes[0].path);
    out->properties = ARENA_NEW(schema->arena, struct schema_property, out->capacity);
    CHECK_MEMORY(out->properties);
    TRY(declare_all(schema, conjunction, out));
    for (size_t i = 0; i < out->count; i++) {
        TRY(read_property(schema, conjunction, &out->properties[i]));
    }
    TRY(read_others(schema, conjunction, out));
    return check_counts(out);
}

/* Keys that are none of the declared ones, as the texts of strings. Owned: dfa_deinit. */
static enum status other_keys(const struct schema_object *object, struct dfa *out) {
    enum status status = STATUS_OK;
    struct nfa nfa;
    struct dfa any = {0};
    nfa_init(&nfa, GRAMMAR_STATES_MAX);
    uint32_t end = nfa_add_state(&nfa);
    for (size_t i = 0; i < object->count; i++) {
        const struct schema_property *property = &object->properties[i];
        uint32_t state = 0;
        for (size_t at = 0; at < property->name_length;) {
            struct utf8_step step = utf8_next(property->name + at, property->name_length - at);
            state = nfa_add_range(&nfa, state, step.code_point, step.code_point);
            at += step.length;
        }
        nfa_add_empty(&nfa, state, end);
    }
    TRY_GOTO(pattern_compile("", 0, PATTERN_PART, "a key", &any));
    TRY_GOTO(dfa_exclude(&any, &nfa, end, GRAMMAR_STATES_MAX, "the schema", out));
fail:
    nfa_deinit(&nfa);
    dfa_deinit(&any);
    return status;
}

/* The rule of the keys that others may have. */
static enum status other_key_rule(struct json_schema *schema, const struct schema_object *object,
                                  uint32_t *rule) {
    struct dfa keys;
    if (object->count == 0) {
        *rule = schema->json->string;
        return STATUS_OK;
    }
    TRY(other_keys(object, &keys));
    *rule = grammar_builder_open_rule(schema->builder, "keys");
    struct nfa *nfa = grammar_builder_nfa(schema->builder, *rule);
    grammar_builder_close_rule(schema->builder, *rule, json_grammar_add_text(nfa, 0, &keys));
    dfa_deinit(&keys);
    return STATUS_OK;
}

/* What stands between properties. */
struct property_place {
    uint32_t empty;  /* nothing was written yet */
    uint32_t behind; /* something was */
};

/* A state in which a key may begin, from either state of a place. */
static uint32_t add_separator(const struct json_grammar *json, struct nfa *nfa, struct property_place place) {
    uint32_t start = nfa_add_state(nfa);
    nfa_add_empty(nfa, place.empty, start);
    uint32_t comma = nfa_add_range(nfa, place.behind, ',', ',');
    nfa_add_empty(nfa, json_grammar_add_blank(json, nfa, comma), start);
    return start;
}

static uint32_t add_colon(const struct json_grammar *json, struct nfa *nfa, uint32_t from) {
    return json_grammar_add_blank(json, nfa, nfa_add_range(nfa, from, ':', ':'));
}

static enum status add_property(struct json_schema *schema, const struct schema_property *property,
                                struct nfa *nfa, struct property_place *place) {
    struct property_place next = {nfa_add_state(nfa), nfa_add_state(nfa)};
    if (property->is_possible) {
        uint32_t rule;
        TRY(schema_rule_of(schema, property->conjunction, &rule));
        uint32_t at = add_separator(schema->json, nfa, *place);
        at = json_grammar_add_key(nfa, at, property->name, property->name_length);
        at = grammar_add_call(nfa, add_colon(schema->json, nfa, at), rule);
        nfa_add_empty(nfa, at, next.behind);
    }
    if (!property->is_required) {
        nfa_add_empty(nfa, place->empty, next.empty);
        nfa_add_empty(nfa, place->behind, next.behind);
    }
    *place = next;
    return STATUS_OK;
}

struct other_members {
    const struct json_grammar *json;
    uint32_t key_rule, value_rule;
};

static uint32_t add_other(struct nfa *nfa, uint32_t from, const void *context) {
    const struct other_members *others = context;
    from = add_colon(others->json, nfa, grammar_add_call(nfa, from, others->key_rule));
    return grammar_add_call(nfa, from, others->value_rule);
}

static uint32_t add_next_other(struct nfa *nfa, uint32_t from, const void *context) {
    const struct other_members *others = context;
    return add_other(nfa, json_grammar_add_blank(others->json, nfa, nfa_add_range(nfa, from, ',', ',')),
                     context);
}

/* Others behind the declared properties, as many as the counts allow. */
static enum status add_others(struct json_schema *schema, const struct schema_object *object, struct nfa *nfa,
                              struct property_place *place) {
    struct other_members others = {.json = schema->json};
    uint32_t minimum = object->count == 0 ? object->minimum : 0;
    uint32_t maximum = object->count == 0 ? object->maximum : UINT32_MAX;
    struct property_place next = {nfa_add_state(nfa), nfa_add_state(nfa)};
    if (minimum == 0) {
        nfa_add_empty(nfa, place->empty, next.empty);
        nfa_add_empty(nfa, place->behind, next.behind);
    }
    if (object->has_others && maximum > 0 && minimum <= maximum) {
        TRY(other_key_rule(schema, object, &others.key_rule));
        TRY(schema_rule_of(schema, object->others, &others.value_rule));
        uint32_t at = add_other(nfa, add_separator(schema->json, nfa, *place), &others);
        at = nfa_add_repeat(nfa, at, add_next_other, &others, minimum > 0 ? minimum - 1 : 0,
                            maximum == UINT32_MAX ? UINT32_MAX : maximum - 1);
        nfa_add_empty(nfa, at, next.behind);
    }
    *place = next;
    return STATUS_OK;
}

enum status schema_add_object(struct json_schema *schema, const struct conjunction *conjunction,
                              struct nfa *nfa, uint32_t end) {
    struct schema_object object;
    TRY(schema_object_read(schema, conjunction, &object));
    uint32_t opening = nfa_add_range(nfa, 0, '{', '{');
    struct property_place place = {json_grammar_add_blank(schema->json, nfa, opening), nfa_add_state(nfa)};
    for (size_t i = 0; i < object.count; i++) {
        TRY(add_property(schema, &object.properties[i], nfa, &place));
    }
    TRY(add_others(schema, &object, nfa, &place));
    nfa_add_edge(nfa, place.empty, '}', '}', end);
    nfa_add_edge(nfa, json_grammar_add_blank(schema->json, nfa, place.behind), '}', '}', end);
    return STATUS_OK;
}
