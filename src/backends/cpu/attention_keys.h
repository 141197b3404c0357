/*
 * What the attention kernels of this backend share: where a row's keys lie, and how rows and heads are shared
 * out over threads.
 */
#ifndef SLUICE_BACKENDS_CPU_ATTENTION_KEYS_H
#define SLUICE_BACKENDS_CPU_ATTENTION_KEYS_H

#include <stdint.h>

#include "ops/kernel_items.h"
#include "ops/sparse_attention.h"

/* The encoded keys of a row in their order (sparse_attention.h), room for sparse_attention_key_limit; returns
 * how many. */
int64_t attention_list_keys(const struct sparse_attention_args *args, int64_t row,
                            const unsigned char **keys);

/* The sink's logit of a head. */
float attention_sink(const struct sparse_attention_args *args, int64_t head);

/*
 * Heads that one item takes, a multiple of `tile` or all: fewer than all if there are too few rows for the
 * threads. A head's result depends on nothing else, so that the split changes no bits.
 */
int64_t attention_item_heads(const struct kernel_env *env, const struct sparse_attention_args *args,
                             int64_t tile);

#endif
