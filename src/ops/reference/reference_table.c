/* The list of all reference entries. */
#include "ops/reference/reference_table.h"

#include "ops/reference/reference_entries.h"

const struct op_entry *const *reference_entries(size_t *count) {
    static const struct op_entry *const entries[] = {
        &embedding_reference,
        &rms_norm_reference,
        &linear_ideal_reference,
        &linear_native_reference,
        &grouped_linear_reference,
        &rope_reference,
        &encode_rows_reference,
        &decode_rows_reference,
        &commit_rows_reference,
        &compressor_rows_reference,
        &compress_entries_reference,
        &indexer_rotate_ideal_reference,
        &indexer_rotate_native_reference,
        &indexer_select_reference,
        &sparse_attention_reference,
        &hyper_connection_pre_reference,
        &hyper_connection_post_reference,
        &hyper_connection_head_reference,
        &route_experts_reference,
        &moe_experts_ideal_reference,
        &moe_experts_native_reference,
        &moe_combine_reference,
        &swiglu_reference,
        &add_broadcast_reference,
        &round_reference,
    };
    *count = sizeof entries / sizeof entries[0];
    return entries;
}
