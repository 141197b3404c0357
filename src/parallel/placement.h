/*
 * Where a tensor lives in a group of ranks: data on the tensor, never a branch in a model.
 *
 * Names follow spec parallelism 1.2. A weight's placement says how its file tensor is cut; stages say on
 * which pipeline stages it exists at all.
 */
#ifndef SLUICE_PARALLEL_PLACEMENT_H
#define SLUICE_PARALLEL_PLACEMENT_H

enum placement {
    PLACEMENT_REPLICATED,    /* identical on all ranks of the tensor group */
    PLACEMENT_SPLIT_ROWS,    /* output rows cut in units (COL of the spec) */
    PLACEMENT_SPLIT_COLUMNS, /* input columns cut in units; the product is a partial sum (ROW of the spec) */
    PLACEMENT_SPLIT_VOCABULARY, /* contiguous ranges of vocabulary rows */
    PLACEMENT_SPLIT_EXPERTS,    /* whole experts assigned to expert ranks */
};

/* Stages that hold a tensor. */
enum placement_stage {
    STAGE_OF_LAYER,        /* the stage that owns the tensor's layer */
    STAGE_FIRST,           /* the first stage */
    STAGE_LAST,            /* the last stage */
    STAGE_FIRST_AND_DRAFT, /* the first stage, and the last one when drafting is on */
    STAGE_DRAFT,           /* the last stage, and only when drafting is on */
};

#endif
