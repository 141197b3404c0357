/*
 * The operations, by meaning. One header of the same name per operation states its contract.
 *
 * A backend must provide an entry for each in each numerics mode it offers.
 */
#ifndef SLUICE_OPS_OP_LIST_H
#define SLUICE_OPS_OP_LIST_H

/* X(CONSTANT, name) */
#define OP_LIST(X)                                  \
    X(EMBEDDING, embedding)                         \
    X(RMS_NORM, rms_norm)                           \
    X(LINEAR, linear)                               \
    X(GROUPED_LINEAR, grouped_linear)               \
    X(ROPE, rope)                                   \
    X(ENCODE_ROWS, encode_rows)                     \
    X(DECODE_ROWS, decode_rows)                     \
    X(COMMIT_ROWS, commit_rows)                     \
    X(COMPRESSOR_ROWS, compressor_rows)             \
    X(COMPRESS_ENTRIES, compress_entries)           \
    X(INDEXER_ROTATE, indexer_rotate)               \
    X(INDEXER_SELECT, indexer_select)               \
    X(SPARSE_ATTENTION, sparse_attention)           \
    X(HYPER_CONNECTION_PRE, hyper_connection_pre)   \
    X(HYPER_CONNECTION_POST, hyper_connection_post) \
    X(HYPER_CONNECTION_HEAD, hyper_connection_head) \
    X(ROUTE_EXPERTS, route_experts)                 \
    X(MOE_EXPERTS, moe_experts)                     \
    X(MOE_COMBINE, moe_combine)                     \
    X(SWIGLU, swiglu)                               \
    X(ADD_BROADCAST, add_broadcast)                 \
    X(ROUND, round)

enum op_id {
#define X(CONSTANT, name) OP_##CONSTANT,
    OP_LIST(X)
#undef X
        OP_COUNT
};

/* "rms_norm". A static string. */
const char *op_name(enum op_id op);

#endif
