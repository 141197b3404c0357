/*
 * Things by their number, linked through themselves. Numbers are handed out one after the other, so their low
 * bits spread them. One thread at a time.
 */
#ifndef SLUICE_SERVER_ID_TABLE_H
#define SLUICE_SERVER_ID_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum { ID_TABLE_CHAINS = 1024 };

/* First member of what is kept. */
struct id_node {
    uint64_t id;
    struct id_node *next;
};

/* Zeroed: empty. Nodes are borrowed. */
struct id_table {
    struct id_node *chains[ID_TABLE_CHAINS];
    size_t count;
};

/* node->id must be set and not be in the table. */
void id_table_put(struct id_table *table, struct id_node *node);

/* NULL if there is none. */
struct id_node *id_table_find(const struct id_table *table, uint64_t id);

/* Takes the node out; it must be in the table. */
void id_table_remove(struct id_table *table, struct id_node *node);

/* Any of them, NULL if the table is empty. */
struct id_node *id_table_any(const struct id_table *table);

#endif
