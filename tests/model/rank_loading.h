/*
 * The weights of one rank of a layout, loaded and bound as the engine does it. Every function asserts.
 */
#ifndef SLUICE_TESTS_MODEL_RANK_LOADING_H
#define SLUICE_TESTS_MODEL_RANK_LOADING_H

#include <stdbool.h>

#include "device/device.h"
#include "model/model.h"
#include "parallel/shard.h"
#include "weights/loader.h"

enum { STAGES_MAX = 16 };

/* How a model directory is dealt out to ranks. */
struct rank_setting {
    const char *directory;
    int draft_limit;
    struct mesh_shape mesh;
    int first_layers[STAGES_MAX + 1]; /* rank_setting_split makes them */
};

struct loaded_rank {
    struct arena arena;
    struct shard_layout layout;
    struct model_stage stage;
    struct model *model;
    struct tensor_spec_list list;
    struct loaded_tensor *tensors; /* as the list */
    struct loaded_weights weights;
    struct checkpoint *checkpoint; /* until it is loaded */
};

/* One replica: stages of nearly equal length. layer_count: of the directory's model. */
struct rank_setting rank_setting_split(const char *directory, int layer_count, int stages, int tensor,
                                       bool has_expert_parallelism);

/* Creates the model of rank `rank` and lists its tensors; nothing is loaded yet. */
void rank_prepare(const struct rank_setting *setting, int rank, struct loaded_rank *out);

/* The same, loaded and bound. */
void rank_load(const struct rank_setting *setting, int rank, struct device *device, struct stream *stream,
               struct loaded_rank *out);

void rank_free(struct loaded_rank *rank, struct device *device);

/* Index of the tensor in the list. */
size_t rank_find(const struct loaded_rank *rank, const char *name);

#endif
