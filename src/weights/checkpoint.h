/*
 * A model directory opened for reading: its safetensors files, mapped, and all their tensors by name.
 *
 * Either model.safetensors.index.json with the shards it names, or model.safetensors alone. Opening checks
 * every header and that index and shards agree; payload bytes are not touched. Any thread may read.
 */
#ifndef SLUICE_WEIGHTS_CHECKPOINT_H
#define SLUICE_WEIGHTS_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/file_map.h"
#include "base/status.h"
#include "weights/tensor_spec.h"

struct checkpoint_shard {
    const char *file_name; /* inside the directory */
    struct file_map map;
    size_t tensor_count;
};

struct checkpoint_tensor {
    const char *name;
    enum dtype dtype;
    int rank;
    int64_t shape[TENSOR_RANK_MAX];
    size_t offset; /* in its shard's file */
    size_t bytes;
    size_t shard; /* index into shards */
};

struct checkpoint {
    struct arena arena; /* holds everything below except the maps */
    const char *directory;
    bool has_index;
    struct checkpoint_shard *shards; /* by file name */
    size_t shard_count;
    struct checkpoint_tensor *tensors; /* by name, in byte order */
    size_t tensor_count;
    size_t tensor_bytes; /* of all tensors */
};

/*
 * Opens the model directory. NOT_FOUND if it holds no weights or lacks shards (all of them named);
 * BAD_FORMAT for files that break the format; BAD_CHECKPOINT if index and shards disagree.
 */
enum status checkpoint_open(const char *directory, struct checkpoint **out);

/* Unmaps and frees; nulls the pointer. NULL inside is allowed. */
void checkpoint_close(struct checkpoint **checkpoint);

/* The tensor of that name, NULL if there is none. */
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint, const char *name);

/* The tensor's mapped bytes: not aligned to its element type, valid until checkpoint_close. */
const unsigned char *checkpoint_tensor_data(const struct checkpoint *checkpoint,
                                            const struct checkpoint_tensor *tensor);

/* Lets a model ask for types while it makes its list; borrows the checkpoint. */
struct tensor_probe checkpoint_probe(const struct checkpoint *checkpoint);

#endif
