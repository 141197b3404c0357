/* Chains of nodes. */
#include "server/id_table.h"

static struct id_node **chain_of(struct id_table *table, uint64_t id) {
    return &table->chains[id % ID_TABLE_CHAINS];
}

void id_table_put(struct id_table *table, struct id_node *node) {
    struct id_node **chain = chain_of(table, node->id);
    node->next = *chain;
    *chain = node;
    table->count++;
}

struct id_node *id_table_find(const struct id_table *table, uint64_t id) {
    struct id_node *node = table->chains[id % ID_TABLE_CHAINS];
    while (node != NULL && node->id != id) {
        node = node->next;
    }
    return node;
}

void id_table_remove(struct id_table *table, struct id_node *node) {
    struct id_node **link = chain_of(table, node->id);
    while (*link != node) {
        link = &(*link)->next;
    }
    *link = node->next;
    table->count--;
}

struct id_node *id_table_any(const struct id_table *table) {
    for (size_t i = 0; i < ID_TABLE_CHAINS && table->count > 0; i++) {
        if (table->chains[i] != NULL) {
            return table->chains[i];
        }
    }
    return NULL;
}
