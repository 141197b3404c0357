/* The index file of a sharded checkpoint: which shard holds which tensor. */
#ifndef SLUICE_WEIGHTS_CHECKPOINT_INDEX_H
#define SLUICE_WEIGHTS_CHECKPOINT_INDEX_H

#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"

struct index_entry {
    const char *name;
    size_t shard; /* index into the shard names */
};

struct checkpoint_index {
    struct index_entry *entries; /* by name, in byte order */
    size_t count;
    const char **shard_names; /* by name, each once */
    size_t shard_count;
};

/*
 * Reads the index at `path`. A shard name must be a plain file name that ends in .safetensors. BAD_FORMAT
 * with the place otherwise. The result lives in `arena`.
 */
enum status checkpoint_index_read(const char *path, struct arena *arena, struct checkpoint_index *out);

#endif
