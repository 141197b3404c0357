/*
 * What a sequence must remember, as a model declares it: one record per state kind and layer.
 *
 * The engine allocates, plans and shares state by this table and knows no layer type.
 */
#ifndef SLUICE_MODEL_STATE_TABLE_H
#define SLUICE_MODEL_STATE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "ops/numerics.h"

enum state_shape {
    STATE_RING,   /* row of position p at p modulo `rows` */
    STATE_APPEND, /* one row per `ratio` positions, row j complete from position (j + 1) * ratio - 1 on */
};

struct state_kind {
    const char *name; /* "window", "compressed" */
    int layer;        /* draft layers count on after the last layer */
    bool is_draft;    /* of a draft layer */
    enum state_shape shape;
    int64_t rows; /* STATE_RING */
    int64_t
        snapshot_period; /* STATE_RING: at multiples of it no row is needed any more; 0: always some are */
    int64_t ratio;       /* STATE_APPEND */
    enum row_kind row;
    int64_t width;
    int64_t plain_width;
};

struct state_table {
    struct arena *arena; /* borrowed */
    struct state_kind *kinds;
    int count;
    int capacity;
};

/* Appends a record and returns its index. */
enum status state_table_add(struct state_table *table, const struct state_kind *kind, int *index);

/* Rows that one sequence of at most `positions` tokens needs. */
int64_t state_kind_rows(const struct state_kind *kind, int64_t positions);

#endif
