/*
 * The reference kernels, for the tables that list them.
 *
 * Where one kernel serves both numerics modes, the element types of its tensors and rows make the difference.
 */
#ifndef SLUICE_OPS_REFERENCE_REFERENCE_ENTRIES_H
#define SLUICE_OPS_REFERENCE_REFERENCE_ENTRIES_H

#include "ops/op_queue.h"

extern const struct op_entry embedding_reference;
extern const struct op_entry rms_norm_reference;
extern const struct op_entry linear_ideal_reference;
extern const struct op_entry linear_native_reference;
extern const struct op_entry grouped_linear_reference;
extern const struct op_entry rope_reference;
extern const struct op_entry encode_rows_reference;
extern const struct op_entry decode_rows_reference;
extern const struct op_entry commit_rows_reference;
extern const struct op_entry compressor_rows_reference;
extern const struct op_entry compress_entries_reference;
extern const struct op_entry indexer_rotate_ideal_reference;
extern const struct op_entry indexer_rotate_native_reference;
extern const struct op_entry indexer_select_reference;
extern const struct op_entry sparse_attention_reference;
extern const struct op_entry hyper_connection_pre_reference;
extern const struct op_entry hyper_connection_post_reference;
extern const struct op_entry hyper_connection_head_reference;
extern const struct op_entry route_experts_reference;
extern const struct op_entry moe_experts_ideal_reference;
extern const struct op_entry moe_experts_native_reference;
extern const struct op_entry moe_combine_reference;
extern const struct op_entry swiglu_reference;
extern const struct op_entry add_broadcast_reference;
extern const struct op_entry round_reference;

#endif
