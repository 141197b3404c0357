/*
 * Writes the weights of a model directory as a stream: one file, or shards of bounded size with their index.
 *
 * Files are named as in the official checkpoints. The index is written last: a directory that was not
 * finished cannot be opened. One thread.
 */
#ifndef SLUICE_WEIGHTS_CHECKPOINT_WRITER_H
#define SLUICE_WEIGHTS_CHECKPOINT_WRITER_H

#include <stddef.h>

#include "base/status.h"
#include "weights/safetensors.h"

struct checkpoint_writer;

/*
 * Starts writing `count` tensors, in this order, into the existing `directory`. A shard is closed before its
 * tensors exceed `shard_bytes` (a single larger tensor gets a shard of its own); 0 means one file. `tensors`
 * is borrowed until finish or abort. Owned: finish or abort.
 */
enum status checkpoint_writer_open(const char *directory, const struct safetensors_entry *tensors,
                                   size_t count, size_t shard_bytes, struct checkpoint_writer **out);

/* Appends payload of the tensors in order; pieces may end anywhere. */
enum status checkpoint_writer_append(struct checkpoint_writer *writer, const void *bytes, size_t length);

/* Writes a whole further file into the directory, such as config.json; an old one is replaced at once. */
enum status checkpoint_writer_add_file(const struct checkpoint_writer *writer, const char *name,
                                       const void *bytes, size_t length);

/* Completes the last shard, writes the index if there are several, nulls the pointer. */
enum status checkpoint_writer_finish(struct checkpoint_writer **writer);

/* Removes the weights that were written and nulls the pointer. NULL inside is allowed. */
void checkpoint_writer_abort(struct checkpoint_writer **writer);

#endif
