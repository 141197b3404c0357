/* The two tables: they differ where activations meet quantised weights. */
#include "ops/reference/reference_table.h"

#include "ops/reference/reference_entries.h"

#define ENTRIES_OF_BOTH_MODES                                                                               \
    [OP_EMBEDDING] = &embedding_reference, [OP_RMS_NORM] = &rms_norm_reference,                             \
    [OP_GROUPED_LINEAR] = &grouped_linear_reference, [OP_ROPE] = &rope_reference,                           \
    [OP_ENCODE_ROWS] = &encode_rows_reference, [OP_COMMIT_ROWS] = &commit_rows_reference,                   \
    [OP_COMPRESSOR_ROWS] = &compressor_rows_reference, [OP_COMPRESS_ENTRIES] = &compress_entries_reference, \
    [OP_INDEXER_SELECT] = &indexer_select_reference, [OP_SPARSE_ATTENTION] = &sparse_attention_reference,   \
    [OP_HYPER_CONNECTION_PRE] = &hyper_connection_pre_reference,                                            \
    [OP_HYPER_CONNECTION_POST] = &hyper_connection_post_reference,                                          \
    [OP_HYPER_CONNECTION_HEAD] = &hyper_connection_head_reference,                                          \
    [OP_ROUTE_EXPERTS] = &route_experts_reference, [OP_MOE_COMBINE] = &moe_combine_reference,               \
    [OP_SWIGLU] = &swiglu_reference, [OP_ADD_BROADCAST] = &add_broadcast_reference,                         \
    [OP_GATHER_ROWS] = &gather_rows_reference

static const struct op_table tables[NUMERICS_COUNT] = {
    [NUMERICS_IDEAL] = {{ENTRIES_OF_BOTH_MODES, [OP_LINEAR] = &linear_ideal_reference,
                         [OP_INDEXER_ROTATE] = &indexer_rotate_ideal_reference,
                         [OP_MOE_EXPERTS] = &moe_experts_ideal_reference}},
    [NUMERICS_NATIVE] = {{ENTRIES_OF_BOTH_MODES, [OP_LINEAR] = &linear_native_reference,
                          [OP_INDEXER_ROTATE] = &indexer_rotate_native_reference,
                          [OP_MOE_EXPERTS] = &moe_experts_native_reference}},
};

const struct op_table *reference_op_table(enum numerics numerics) {
    return &tables[numerics];
}
