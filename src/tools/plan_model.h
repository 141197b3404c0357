/*
 * A model as the planner needs it: what each rank would hold of it and read of it, without weights.
 *
 * The model's own tensor list and state table are condensed to blocks: one per layer, one for the draft
 * layer, one for what the first stage has besides layers and one for what the last has. Of a layer's routed
 * experts, which are alike, the first stands for all. One thread.
 */
#ifndef SLUICE_TOOLS_PLAN_MODEL_H
#define SLUICE_TOOLS_PLAN_MODEL_H

#include "base/arena.h"
#include "model/model.h"
#include "model/step_work.h"
#include "parallel/mesh.h"

/* What weights are for, as the ledger tells them apart. */
enum plan_weights {
    PLAN_ATTENTION,
    PLAN_COMPRESSORS, /* indexers included */
    PLAN_EXPERTS,
    PLAN_SHARED_EXPERTS,
    PLAN_ROUTERS, /* tables of expert ids included */
    PLAN_STREAM_MIXES,
    PLAN_NORMS,
    PLAN_EMBEDDING,
    PLAN_HEAD,
    PLAN_DRAFT_LAYER,
    PLAN_DRAFT_EMBEDDING, /* the embedding once more, on a last stage that drafts and is not the first */
    PLAN_WEIGHTS_COUNT
};

/* "attention", "compressors". A static string. */
const char *plan_weights_name(enum plan_weights kind);

/* Specs of one block in plan_model.specs. */
struct plan_block_specs {
    size_t first;
    size_t count;
};

struct plan_model {
    struct arena arena; /* holds everything below */
    struct model *model;
    struct tensor_spec_list list; /* all tensors */
    struct state_table states;
    struct tensor_spec *specs; /* condensed */
    struct plan_block_specs *blocks;
    int block_count; /* layer_count + 3 */
    int64_t head_count;
    int64_t group_count; /* of the output projection; 0 if the model has none */
    int64_t hash_layer_count;
};

/* Blocks behind those of the layers. */
static inline int plan_block_draft(const struct plan_model *model) {
    return model->model->layer_count;
}
static inline int plan_block_first(const struct plan_model *model) {
    return model->model->layer_count + 1;
}
static inline int plan_block_last(const struct plan_model *model) {
    return model->model->layer_count + 2;
}

/* What one rank holds of a block, and what a step reads of it. */
struct plan_block {
    uint64_t weight_bytes[PLAN_WEIGHTS_COUNT];
    struct weight_work work; /* expert numbers: of all local experts, over the number of all experts */
};

/*
 * Reads a config.json for drafts of at most `draft_limit` tokens. `probe` as for model_family.list_tensors.
 * Owned: plan_model_deinit, also of a zeroed struct.
 */
enum status plan_model_read(const char *config_path, const struct tensor_probe *probe, int draft_limit,
                            struct plan_model *out);
void plan_model_deinit(struct plan_model *model);

/* The part of a block that the layout's rank holds; which layers its stage has is not looked at. */
enum status plan_block_make(const struct plan_model *model, int block, const struct shard_layout *layout,
                            struct plan_block *out);

/* A tensor's part on the layout's rank: the spec with the local shape. Routed experts: of one expert. */
struct tensor_spec plan_spec_cut(const struct plan_model *model, const struct tensor_spec *spec,
                                 const struct shard_layout *layout);

uint64_t plan_block_bytes(const struct plan_block *block);

#endif
