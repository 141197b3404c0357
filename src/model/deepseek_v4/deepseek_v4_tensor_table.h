/*
 * The tensor table: name, storage, shape, placement and target of every tensor of the checkpoint (spec
 * deepseek-v4 3.2; placements from parallelism 1.3).
 *
 * Rows give sizes by name and are evaluated with the configuration; the same rows serve every layer, the
 * draft layer and the DSpark stages.
 */
#ifndef SLUICE_MODEL_DEEPSEEK_V4_TENSOR_TABLE_H
#define SLUICE_MODEL_DEEPSEEK_V4_TENSOR_TABLE_H

#include <stddef.h>

#include "weights/tensor_spec.h"

/* Sizes that depend on the configuration or the layer. */
enum dim {
    DIM_NONE, /* second axis of a vector */
    DIM_ONE,
    DIM_THREE,
    DIM_VOCABULARY,
    DIM_HIDDEN,
    DIM_STREAMS,
    DIM_STREAMS_HIDDEN, /* all streams of a token, flattened */
    DIM_MIXES,          /* (2 + streams) * streams */
    DIM_HEADS,
    DIM_HEAD,
    DIM_HEADS_ALL, /* heads * head_dim */
    DIM_Q_RANK,
    DIM_OUTPUT_RANK_ALL, /* groups * rank */
    DIM_GROUP_INPUT,     /* heads * head_dim / groups */
    DIM_EXPERTS,
    DIM_PICKS,
    DIM_INNER,
    DIM_RATIO,
    DIM_COMPRESSOR, /* raw width of the KV compressor */
    DIM_INDEX_ALL,  /* index heads * index_head_dim */
    DIM_INDEX_HEADS,
    DIM_INDEX,
    DIM_INDEX_COMPRESSOR, /* raw width of the indexer's compressor */
    DIM_MARKOV,
    DIM_TARGETS_HIDDEN, /* DSpark: target layers * hidden */
    DIM_HIDDEN_MARKOV,  /* DSpark: hidden + markov rank */
};

enum storage {
    STORAGE_BF16,
    STORAGE_F32,
    STORAGE_FP8,   /* with a scale tensor */
    STORAGE_TABLE, /* expert ids */
};

/* Which layers have a row. */
enum condition {
    ALWAYS,
    IF_COMPRESSED,
    IF_INDEXED,
    IF_HASH_ROUTED,
    IF_SCORE_ROUTED,
};

/* Head-wise cuts respect whole heads; a group's rows and columns stay together (parallelism 1.3). */
enum unit {
    UNIT_ONE,
    UNIT_BLOCK,
    UNIT_SINK, /* one number per head */
    UNIT_HEAD,
    UNIT_GROUP,
};

struct tensor_row {
    const char *name;
    enum storage storage;
    enum dim rows;
    enum dim columns;
    enum placement placement;
    enum unit unit;
    enum condition condition;
    size_t target; /* offset of the struct weight it fills */
};

/* Routed experts: the storage comes from the files; targets are offsets of the arrays. */
struct expert_row {
    const char *name;
    enum dim rows;
    enum dim columns;
    enum placement inner_placement; /* where every rank holds a part of every expert */
    enum unit unit;
    size_t target;
};

/* Model-level tensors and the stages that hold them (parallelism 1.3). */
struct model_row {
    struct tensor_row row;
    enum placement_stage stage;
};

struct tensor_table {
    const struct tensor_row *rows;
    size_t count;
};

enum { EXPERT_TENSORS = 3, MODEL_TENSORS = 6 };

extern const struct tensor_table deepseek_v4_layer_table;
extern const struct tensor_table deepseek_v4_draft_table;
/* Of the first and the last DSpark stage, which are checked and never used: no targets (spec 6.6). */
extern const struct tensor_table deepseek_v4_dspark_first_table;
extern const struct tensor_table deepseek_v4_dspark_last_table;
extern const struct expert_row deepseek_v4_expert_rows[EXPERT_TENSORS];
extern const struct model_row deepseek_v4_model_rows[MODEL_TENSORS];

#endif
