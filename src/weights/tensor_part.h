/*
 * Which part of each tensor of a list a rank has (spec parallelism 1.2 to 1.6).
 *
 * Stages and placements say so for a matrix; its scales follow it, by the same blocks (G-11). The embedding
 * is whole on the stages that look tokens up: where weights are mapped, a rank touches the rows it looks up
 * only. Any thread.
 */
#ifndef SLUICE_WEIGHTS_TENSOR_PART_H
#define SLUICE_WEIGHTS_TENSOR_PART_H

#include <stddef.h>

#include "base/status.h"
#include "parallel/shard.h"
#include "weights/tensor_spec.h"

/*
 * Whether all ranks of the layout's mesh can have parts of the list's tensors. UNSUPPORTED names the tensor
 * or the units, the layout's number and the numbers that work (spec parallelism 6.5: CFG-02, 03, 07 to 09).
 */
enum status tensor_parts_check(const struct tensor_spec_list *list, const struct shard_layout *layout);

/*
 * The part of record `index` that the layout's rank has, whether the record is used or not. NULL: all of it.
 * The layout has passed tensor_parts_check.
 */
struct tensor_part tensor_part_of(const struct tensor_spec_list *list, size_t index,
                                  const struct shard_layout *layout);

/* False for tensors of experts that the rank may read, but does not start with (parallel/expert_balance.h).
 */
bool tensor_is_held(const struct tensor_spec *spec, const struct shard_layout *layout);

#endif
