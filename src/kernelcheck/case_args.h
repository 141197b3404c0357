/* The arguments of any operation, by the list of operations. */
#ifndef SLUICE_KERNELCHECK_CASE_ARGS_H
#define SLUICE_KERNELCHECK_CASE_ARGS_H

#include "ops/add_broadcast.h"
#include "ops/commit_rows.h"
#include "ops/compress_entries.h"
#include "ops/compressor_rows.h"
#include "ops/decode_rows.h"
#include "ops/embedding.h"
#include "ops/encode_rows.h"
#include "ops/grouped_linear.h"
#include "ops/hyper_connection_head.h"
#include "ops/hyper_connection_post.h"
#include "ops/hyper_connection_pre.h"
#include "ops/indexer_rotate.h"
#include "ops/indexer_select.h"
#include "ops/linear.h"
#include "ops/moe_combine.h"
#include "ops/moe_experts.h"
#include "ops/op_list.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/round.h"
#include "ops/route_experts.h"
#include "ops/sparse_attention.h"
#include "ops/swiglu.h"

union case_args {
#define X(CONSTANT, name) struct name##_args name;
    OP_LIST(X)
#undef X
};

#endif
