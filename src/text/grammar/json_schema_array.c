/* Arrays: items one by one while they differ, then as many as may follow. */
#include <string.h>

#include "text/grammar/json_schema_internal.h"

struct schema_array {
    size_t prefix_count;
    uint32_t minimum, maximum;
};

static enum status read_array(const struct conjunction *conjunction, struct schema_array *out) {
    *out = (struct schema_array){.maximum = UINT32_MAX};
    for (size_t i = 0; i < conjunction->count; i++) {
        const struct schema_node *node = &conjunction->nodes[i];
        size_t count = json_length(json_get(node->value, "prefixItems"));
        out->prefix_count = count > out->prefix_count ? count : out->prefix_count;
        TRY(schema_count(node, "minItems", true, &out->minimum));
        TRY(schema_count(node, "maxItems", false, &out->maximum));
    }
    return STATUS_OK;
}

/* The rule of item `index`; beyond all prefixes, of every further one. */
static enum status item_rule(struct json_schema *schema, const struct conjunction *conjunction, size_t index,
                             uint32_t *rule, bool *is_possible) {
    struct conjunction *item = ARENA_NEW(schema->arena, struct conjunction, 1);
    CHECK_MEMORY(item);
    for (size_t i = 0; i < conjunction->count; i++) {
        const struct schema_node *node = &conjunction->nodes[i];
        const struct json *prefix = json_at(json_get(node->value, "prefixItems"), index);
        const struct json *value = prefix != NULL ? prefix : json_get(node->value, "items");
        const char *path = prefix != NULL ? schema_path(schema, node->path, "prefixItems[%zu]", index)
                                          : schema_path(schema, node->path, "items");
        CHECK_MEMORY(path);
        if (value != NULL) {
            TRY(conjunction_add(schema, item, value, path));
        }
    }
    *is_possible = !item->is_impossible;
    return schema_rule_of(schema, item, rule);
}

/* Items of one rule, each behind a comma. */
struct more_items {
    const struct json_grammar *json;
    uint32_t rule;
};

static uint32_t add_next_item(struct nfa *nfa, uint32_t from, const void *context) {
    const struct more_items *items = context;
    from = json_grammar_add_blank(items->json, nfa, nfa_add_range(nfa, from, ',', ','));
    return grammar_add_call(nfa, from, items->rule);
}

enum status schema_add_array(struct json_schema *schema, const struct conjunction *conjunction,
                             struct nfa *nfa, uint32_t end) {
    struct schema_array array;
    TRY(read_array(conjunction, &array));
    const struct json_grammar *json = schema->json;
    uint32_t closing = nfa_add_state(nfa);
    nfa_add_edge(nfa, closing, ']', ']', end);
    uint32_t at = json_grammar_add_blank(json, nfa, nfa_add_range(nfa, 0, '[', '['));
    if (array.minimum == 0) {
        nfa_add_empty(nfa, at, closing);
    }
    uint32_t count = 0;
    bool is_possible = true;
    uint32_t rule = 0;
    /* The first item, too, has no comma in front. */
    while (count < array.maximum && (count < array.prefix_count || count == 0) && is_possible) {
        TRY(item_rule(schema, conjunction, count, &rule, &is_possible));
        if (is_possible) {
            at = count == 0 ? grammar_add_call(nfa, at, rule)
                            : add_next_item(nfa, at, &(struct more_items){json, rule});
            count++;
            if (count >= array.minimum) {
                nfa_add_empty(nfa, json_grammar_add_blank(json, nfa, at), closing);
            }
        }
    }
    if (is_possible && count < array.maximum) {
        TRY(item_rule(schema, conjunction, array.prefix_count, &rule, &is_possible));
    }
    if (is_possible && count < array.maximum && count > 0) {
        uint32_t minimum = array.minimum > count ? array.minimum - count : 0;
        uint32_t maximum = array.maximum == UINT32_MAX ? UINT32_MAX : array.maximum - count;
        if (minimum <= maximum) {
            at = nfa_add_repeat(nfa, at, add_next_item, &(struct more_items){json, rule}, minimum, maximum);
            nfa_add_empty(nfa, json_grammar_add_blank(json, nfa, at), closing);
        }
    }
    return STATUS_OK;
}
