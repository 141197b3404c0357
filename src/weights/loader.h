/*
 * From a checkpoint to memory that kernels read.
 *
 * The model says what it expects (tensor_spec_list); checking compares that with the files and loading puts
 * the used tensors where the device can read them. One thread.
 */
#ifndef SLUICE_WEIGHTS_LOADER_H
#define SLUICE_WEIGHTS_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "device/device.h"
#include "parallel/shard.h"
#include "weights/checkpoint.h"
#include "weights/tensor_spec.h"

/* On devices that read host memory, tensors of at least this size stay in the file map, unless all are
 * copied.
 */
enum { LOADER_MAPPED_BYTES_MIN = 65536, LOADER_ALIGNMENT = 64 };

/* Zeroed: all of every tensor, mapped where that is possible. */
struct load_options {
    const struct shard_layout *layout; /* the rank whose part is loaded; NULL: all of it */
    /*
     * No tensor stays mapped. Copies lie in huge pages, where the system has them: kernels then miss the
     * translation cache less often than in a file map, whose pages are small.
     */
    bool copies_all;
    uint64_t copy_limit_bytes; /* most memory that copies may take; 0: no limit */
};

/* What loaded tensors point into. A zeroed struct owns nothing. */
struct loaded_weights {
    struct checkpoint *checkpoint; /* NULL if no tensor stayed mapped */
    void *memory;                  /* device memory of the copied tensors */
    size_t mapped_bytes;
    size_t copied_bytes;
};

/*
 * Compares all tensors with the list: missing, unexpected, wrong type, wrong shape. BAD_CHECKPOINT names the
 * first ten problems, one a line, and says how many more there are.
 */
enum status checkpoint_check(const struct checkpoint *checkpoint, const struct tensor_spec_list *list);

/*
 * Checks, then loads what the layout's rank has of the used tensors (tensor_part.h). `options` NULL: zeroed.
 * `out_tensors` (list->count) gets type, part, bytes and device memory of each; tensors that are not used or
 * have no part here get data NULL. Parts with whole rows are mapped where that is possible; parts of columns
 * are copied, row behind row.
 *
 * The whole checkpoint is checked, whatever part is loaded: a draft layer that lacks tensors is an error on
 * every rank (spec parallelism G-23). UNSUPPORTED if the layout cuts tensors where it must not, OUT_OF_MEMORY
 * if copies need more than they may take. Values of expert tables are checked: BAD_CHECKPOINT names tensor
 * and row. Takes *checkpoint over on success and nulls it. Returns when all copies are done. `ownership` must
 * outlive the use of out_tensors: weights_release.
 */
enum status checkpoint_load(struct checkpoint **checkpoint, const struct tensor_spec_list *list,
                            const struct load_options *options, struct device *device, struct stream *stream,
                            struct loaded_tensor *out_tensors, struct loaded_weights *ownership);

/* Frees the memory behind loaded tensors; `device` is the one they were loaded on. Work on them must be done.
 */
void weights_release(struct loaded_weights *weights, struct device *device);

#endif
