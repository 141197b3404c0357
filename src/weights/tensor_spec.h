/*
 * What a model expects to find in its checkpoint: one record per tensor.
 *
 * A model builds the list from its configuration; the loader compares it with the files, and synth writes
 * files from it. Names are the official ones.
 */
#ifndef SLUICE_WEIGHTS_TENSOR_SPEC_H
#define SLUICE_WEIGHTS_TENSOR_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "parallel/placement.h"
#include "tensor/dtype.h"

enum { TENSOR_RANK_MAX = 4 };

/* What the bytes of a tensor mean, which decides how synth fills them and how --verify checks them. */
enum tensor_role {
    TENSOR_PLAIN,        /* numbers as they are */
    TENSOR_FP8_MATRIX,   /* e4m3 codes, with a scale tensor per 128x128 block */
    TENSOR_FP4_MATRIX,   /* two e2m1 codes a byte along the input, with a scale per 32 inputs */
    TENSOR_BLOCK_SCALE,  /* scales of the matrix `partner` */
    TENSOR_EXPERT_TABLE, /* token id -> expert ids, every value below `value_limit` */
};

struct tensor_spec {
    const char *name;
    enum tensor_role role;
    enum dtype dtype;      /* official type; what synth writes */
    unsigned other_dtypes; /* mask of further types that are accepted */
    int rank;
    int64_t shape[TENSOR_RANK_MAX]; /* as stored in the file */
    enum placement placement;
    enum placement inner_placement; /* of split experts, where each rank has a part of every one */
    int placement_unit;             /* rows or columns that may not be torn apart; 1 if any cut is legal */
    bool is_shared_expert;  /* of an expert that sees every row: a layout may have it whole on every rank */
    const char *even_units; /* what units are, if all ranks must have equally many; else NULL (G-9). Static */
    int leaf_count;         /* leaves of the sums over columns: a cut must leave them whole; 1: plain sums */
    enum placement_stage stage;
    int layer;           /* layer index; -1 for model-level tensors */
    int expert;          /* PLACEMENT_SPLIT_EXPERTS: whose; else -1 */
    int partner;         /* a matrix: index of its scales; scales: index of their matrix; else -1 */
    int64_t value_limit; /* TENSOR_EXPERT_TABLE: number of experts */
    bool is_used;        /* false: checked, but neither mapped nor copied in this run */
};

/* The part of a tensor that a rank has: rows (first axis) or columns (second axis) of the whole. */
struct tensor_part {
    bool is_here; /* false: not on this rank at all, and the shape is all zeros */
    int index;    /* the axis was cut into `count` parts, this is number `index`; 0 of 1: whole */
    int count;
    int64_t shape[TENSOR_RANK_MAX]; /* as stored; an axis of 0 if there are fewer units than parts */
    int64_t first_row;
    int64_t first_column; /* as stored: FP4 columns in bytes, scales in blocks */
};

/* A tensor after loading. `data` is memory of the device the model was loaded on. */
struct loaded_tensor {
    enum dtype dtype;
    const void *data; /* NULL if not used in this run or not on this rank; not aligned to the element type */
    size_t bytes;     /* of the part */
    struct tensor_part part;
};

/* Asks the files for a tensor's type, for models whose storage the configuration does not settle. */
struct tensor_probe {
    /* The type of a tensor, DTYPE_COUNT if there is none of that name. */
    enum dtype (*dtype_of)(const void *context, const char *name);
    const void *context;
};

/* A growing list; strings and records live in `arena` (borrowed, must outlive the list). */
struct tensor_spec_list {
    struct arena *arena;
    struct tensor_spec *specs;
    size_t count;
    size_t capacity;
    /* fnmatch patterns of names the files may hold beyond the list: NULL-terminated or NULL, borrowed */
    const char *const *tolerated_patterns;
};

/* Appends a zeroed record and returns its index through `index`. The records may move. */
enum status tensor_spec_list_add(struct tensor_spec_list *list, size_t *index);

#endif
