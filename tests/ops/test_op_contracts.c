/*
 * Every operation refuses operands of the wrong shape or type with BAD_SHAPE and a sentence that names the
 * operand, before anything is launched.
 *
 * All queues are dry and planning, so addresses are never followed: FAKE stands for device memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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
#include "ops/reference/reference_table.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/route_experts.h"
#include "ops/sparse_attention.h"
#include "ops/swiglu.h"
#include "support/op_fixture.h"

#define FAKE ((void *)64)

#define TENSOR(type, ...)                                                               \
    ((struct tensor){.dtype = DTYPE_##type,                                             \
                     .rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                     .shape = {__VA_ARGS__},                                            \
                     .data = FAKE})

#define PLAIN(label, height, breadth) \
    ((struct weight){                 \
        .name = (label), .dtype = DTYPE_F32, .rows = (height), .columns = (breadth), .data = FAKE})

#define QUANTISED(label, height, breadth)  \
    ((struct weight){.name = (label),      \
                     .format = WEIGHT_FP8, \
                     .rows = (height),     \
                     .columns = (breadth), \
                     .data = FAKE,         \
                     .scales = FAKE,       \
                     .scale_dtype = DTYPE_F8_E8M0})

struct dry {
    struct op_table table;
    struct device_arena arena;
    struct op_queue queue;
};

static int set_up(void **state) {
    static struct dry dry;
    device_arena_init_planning(&dry.arena);
    op_fixture_reference_table(NUMERICS_IDEAL, &dry.table);
    dry.queue = (struct op_queue){.table = &dry.table, .arena = &dry.arena, .is_dry = true};
    *state = &dry;
    return 0;
}

static void expect_accepted(enum status status) {
    if (status != STATUS_OK) {
        fail_msg("refused: %s", error_last()->message);
    }
}

static void expect_refused(enum status status, const char *words) {
    assert_int_equal(status, STATUS_BAD_SHAPE);
    if (strstr(error_last()->message, words) == NULL) {
        fail_msg("\"%s\" does not name \"%s\"", error_last()->message, words);
    }
}

/* The arguments `base` are good; with `change` made to their copy `args` they are not. */
#define ACCEPTS(name, base) expect_accepted(op_##name(&((struct dry *)*state)->queue, &(base)))
#define REFUSES(name, base, change, words)                                         \
    do {                                                                           \
        struct name##_args args = (base);                                          \
        change;                                                                    \
        expect_refused(op_##name(&((struct dry *)*state)->queue, &args), (words)); \
    } while (0)

static void embedding_contract(void **state) {
    struct weight table = PLAIN("embed.weight", 10, 8);
    struct weight coded = QUANTISED("embed.weight", 10, 8);
    struct embedding_args base = {.out = TENSOR(BF16, 3, 4, 8), .table = &table, .ids = FAKE};
    ACCEPTS(embedding, base);
    REFUSES(embedding, base, args.out = TENSOR(BF16, 3, 4, 9), "embedding: out");
    REFUSES(embedding, base, args.out = TENSOR(BF16, 3, 8), "embedding: out");
    REFUSES(embedding, base, args.out = TENSOR(I32, 3, 4, 8), "embedding: out");
    REFUSES(embedding, base, args.out.data = NULL, "embedding: out has no memory");
    REFUSES(embedding, base, args.table = &coded, "embedding: table: embed.weight is quantised");
}

static void rms_norm_contract(void **state) {
    struct weight weight = PLAIN("norm.weight", 1, 8);
    struct weight narrow = PLAIN("norm.weight", 1, 7);
    struct rms_norm_args base = {.out = TENSOR(F32, 3, 4, 8), .x = TENSOR(F32, 3, 4, 8), .weight = &weight};
    ACCEPTS(rms_norm, base);
    REFUSES(rms_norm, base, args.x = TENSOR(F8_E4M3, 3, 4, 8), "rms_norm: x");
    REFUSES(rms_norm, base, args.out = TENSOR(F32, 3, 3, 8), "rms_norm: out");
    REFUSES(rms_norm, base, args.out = TENSOR(BF16, 3, 4, 8), "rms_norm: out");
    REFUSES(rms_norm, base, args.weight = &narrow, "rms_norm: weight: norm.weight");
    REFUSES(rms_norm, base, args.x = TENSOR(F32, 8), "rms_norm: x has no axis of rows");
    REFUSES(rms_norm, base, args.rows = FAKE, "rms_norm: out overlaps x");
    /* By index: as many rows as wanted, of the same shape otherwise. */
    base.rows = FAKE;
    base.x.data = (char *)FAKE + 64;
    base.out = TENSOR(F32, 5, 4, 8);
    ACCEPTS(rms_norm, base);
    REFUSES(rms_norm, base, args.rows = NULL, "rms_norm: out");
    REFUSES(rms_norm, base, args.out = TENSOR(F32, 5, 3, 8),
            "rms_norm: out has rows of 24 elements, x of 32");
    REFUSES(rms_norm, base, args.out = TENSOR(F32, 5, 4, 9), "rms_norm: out");
    REFUSES(rms_norm, base, args.out = TENSOR(BF16, 5, 4, 8), "rms_norm: out");
}

/* Linear maps name the weight: its place in the model is what a reader needs. */
static void linear_contract(void **state) {
    struct weight weight = QUANTISED("layers.3.attn.wq_a.weight", 6, 8);
    struct linear_args base = {.out = TENSOR(F32, 2, 6), .x = TENSOR(BF16, 2, 8), .weight = &weight};
    base.out.data = (char *)FAKE + 64;
    ACCEPTS(linear, base);
    REFUSES(linear, base, args.x = TENSOR(BF16, 2, 9), "layers.3.attn.wq_a.weight");
    REFUSES(linear, base, args.x = TENSOR(I32, 2, 8), "layers.3.attn.wq_a.weight");
    REFUSES(linear, base, args.out = TENSOR(F32, 3, 6), "layers.3.attn.wq_a.weight");
    REFUSES(linear, base, args.out = TENSOR(F32, 2, 7), "layers.3.attn.wq_a.weight");
    weight.leaves = leaves_whole(8, 16);
    ACCEPTS(linear, base);
    weight.leaves = leaves_whole(8, 17);
    REFUSES(linear, base, , "linear: layers.3.attn.wq_a.weight has 17 leaves, the limit is 16");
    weight.leaves = leaves_whole(9, 16);
    REFUSES(linear, base, , "layers.3.attn.wq_a.weight has 8 columns, its leaves have 9");
    weight.leaves = leaves_whole(8, 1);
    weight.columns = 6;
    base.x = TENSOR(F32, 2, 6);
    ACCEPTS(linear, base);
    REFUSES(linear, base, args.out = args.x, "linear: out overlaps x (layers.3.attn.wq_a.weight)");
}

static void grouped_linear_contract(void **state) {
    struct weight weight = PLAIN("attn.wo_a.weight", 6, 8);
    struct grouped_linear_args base = {
        .out = TENSOR(F32, 2, 3, 2), .x = TENSOR(F32, 2, 3, 8), .weight = &weight};
    ACCEPTS(grouped_linear, base);
    REFUSES(grouped_linear, base, args.x = TENSOR(F32, 2, 3, 7), "attn.wo_a.weight");
    REFUSES(grouped_linear, base, args.x = TENSOR(F32, 2, 4, 8),
            "attn.wo_a.weight does not divide into groups");
    REFUSES(grouped_linear, base, args.out = TENSOR(F32, 2, 3, 3), "attn.wo_a.weight");
    REFUSES(grouped_linear, base, args.out = TENSOR(BF16, 2, 3, 2), "attn.wo_a.weight");
    weight.leaves = leaves_whole(8, 2);
    REFUSES(grouped_linear, base, , "grouped_linear: attn.wo_a.weight has 2 leaves");
}

static void rope_contract(void **state) {
    struct rope_table table = {.pair_count = 4};
    struct rope_args base = {.x = TENSOR(F32, 2, 3, 8), .positions = FAKE, .table = &table};
    ACCEPTS(rope, base);
    REFUSES(rope, base, args.x = TENSOR(F32, 2, 3, 7), "rope: 8 rotary channels");
    REFUSES(rope, base, args.x = TENSOR(F32, 2, 8), "rope: x");
    REFUSES(rope, base, args.x = TENSOR(I32, 2, 3, 8), "rope: x");
}

static void rows_contracts(void **state) {
    struct encode_rows_args encode = {.x = TENSOR(F32, 2, 64),
                                      .layout = {.encoding = ROW_FP8, .width = 64, .block_width = 64},
                                      .out = FAKE};
    ACCEPTS(encode_rows, encode);
    REFUSES(encode_rows, encode, args.x = TENSOR(F32, 2, 65), "encode_rows: x");
    REFUSES(encode_rows, encode, args.x = TENSOR(I8, 2, 64), "encode_rows: x");
    struct decode_rows_args decode = {.out = TENSOR(BF16, 2, 64), .layout = encode.layout, .rows = FAKE};
    ACCEPTS(decode_rows, decode);
    REFUSES(decode_rows, decode, args.out = TENSOR(BF16, 2, 63), "decode_rows: out");
    REFUSES(decode_rows, decode, args.out = TENSOR(I8, 2, 64), "decode_rows: out");
    struct batch_view batch = {.row_count = 2};
    struct commit_rows_args commit = {.chunk = {.rows = FAKE, .ring = {.rows_per_slot = 4}}, .batch = &batch};
    ACCEPTS(commit_rows, commit);
    REFUSES(commit_rows, commit, args.chunk.ring.rows_per_slot = 0, "commit_rows: the ring has no rows");
}

static void compressor_rows_contract(void **state) {
    struct weight bias = PLAIN("compressor.ape", 4, 16);
    struct weight coded = QUANTISED("compressor.ape", 4, 16);
    struct compressor_rows_args base = {.out = TENSOR(F32, 3, 32),
                                        .values = TENSOR(F32, 3, 16),
                                        .scores = TENSOR(F32, 3, 16),
                                        .bias = &bias,
                                        .positions = FAKE};
    ACCEPTS(compressor_rows, base);
    REFUSES(compressor_rows, base, args.values = TENSOR(F32, 3, 15), "compressor_rows: values");
    REFUSES(compressor_rows, base, args.values = TENSOR(BF16, 3, 16), "compressor_rows: values");
    REFUSES(compressor_rows, base, args.scores = TENSOR(F32, 4, 16), "compressor_rows: scores");
    REFUSES(compressor_rows, base, args.out = TENSOR(F32, 3, 16), "compressor_rows: out");
    REFUSES(compressor_rows, base, args.bias = &coded, "compressor_rows: bias");
}

static void compress_entries_contract(void **state) {
    struct weight norm = PLAIN("compressor.norm.weight", 1, 8);
    struct weight wide = PLAIN("compressor.norm.weight", 1, 9);
    struct batch_view batch = {.row_count = 2};
    struct rope_table rope = {.pair_count = 2};
    struct compress_entries_args base = {
        .raw = {.rows = FAKE, .ring = {.layout = {.encoding = ROW_F32, .width = 32}, .rows_per_slot = 8}},
        .entries = {.layout = {.encoding = ROW_F32, .width = 8}, .rows_per_slot = 4, .rows_per_page = 3},
        .batch = &batch,
        .norm = &norm,
        .rope = &rope,
        .ratio = 4,
        .width = 8,
        .has_overlap = true,
    };
    ACCEPTS(compress_entries, base);
    REFUSES(compress_entries, base, args.raw.ring.layout.width = 16, "compress_entries: raw rows");
    REFUSES(compress_entries, base, args.raw.ring.layout.encoding = ROW_FP8, "compress_entries: raw rows");
    REFUSES(compress_entries, base, args.has_overlap = false, "compress_entries: raw rows");
    REFUSES(compress_entries, base, args.entries.layout.width = 9, "compress_entries: entries");
    REFUSES(compress_entries, base, args.raw.ring.rows_per_slot = 7, "compress_entries: a ring of 7 rows");
    REFUSES(compress_entries, base, args.entries.rows_per_page = 0,
            "compress_entries: entries without pages");
    REFUSES(compress_entries, base, args.norm = &wide, "compress_entries: norm");
    REFUSES(compress_entries, base, args.ratio = 0, "compress_entries: ratio 0");
}

static void indexer_contracts(void **state) {
    struct indexer_rotate_args rotate = {.x = TENSOR(F32, 2, 3, 64)};
    ACCEPTS(indexer_rotate, rotate);
    REFUSES(indexer_rotate, rotate, args.x = TENSOR(F32, 2, 3, 16), "indexer_rotate: width 16");
    REFUSES(indexer_rotate, rotate, args.x = TENSOR(F32, 2, 3, 96), "indexer_rotate: width 96");
    REFUSES(indexer_rotate, rotate, args.x = TENSOR(F32, 2, 64), "indexer_rotate: x");
    struct batch_view batch = {.row_count = 2};
    struct indexer_select_args base = {
        .selection = TENSOR(I32, 2, 5),
        .queries = TENSOR(F32, 2, 3, 64),
        .head_weights = TENSOR(F32, 2, 3),
        .keys = {.layout = {.encoding = ROW_F32, .width = 64}, .rows_per_slot = 9, .rows_per_page = 3},
        .batch = &batch,
        .ratio = 4,
    };
    ACCEPTS(indexer_select, base);
    REFUSES(indexer_select, base, args.queries = TENSOR(F32, 3, 3, 64), "indexer_select: queries");
    REFUSES(indexer_select, base, args.queries = TENSOR(F32, 2, 3, 32), "indexer_select: queries");
    REFUSES(indexer_select, base, args.head_weights = TENSOR(F32, 2, 4), "indexer_select: head weights");
    REFUSES(indexer_select, base, args.head_weights = TENSOR(BF16, 2, 3), "indexer_select: head weights");
    REFUSES(indexer_select, base, args.selection = TENSOR(F32, 2, 5), "indexer_select: selection");
    REFUSES(indexer_select, base, args.selection = TENSOR(I32, 1, 5), "indexer_select: selection");
    REFUSES(indexer_select, base, args.selection = TENSOR(I32, 2, 0), "indexer_select: selection");
    REFUSES(indexer_select, base, args.keys.rows_per_page = 0, "indexer_select: keys without pages");
    REFUSES(indexer_select, base, args.ratio = 0, "indexer_select: ratio 0");
}

static void sparse_attention_contract(void **state) {
    struct weight sink = PLAIN("attn.attn_sink", 1, 3);
    struct weight other = PLAIN("attn.attn_sink", 1, 4);
    struct batch_view batch = {.row_count = 2};
    const struct row_layout layout = {.encoding = ROW_FP8, .width = 64, .plain_width = 16, .block_width = 64};
    struct sparse_attention_args base = {
        .out = TENSOR(F32, 2, 3, 64),
        .queries = TENSOR(F32, 2, 3, 64),
        .window_rows = {.rows = FAKE, .ring = {.layout = layout, .rows_per_slot = 8}},
        .entries = {.layout = layout, .rows_per_slot = 4, .rows_per_page = 3},
        .selection = TENSOR(I32, 2, 5),
        .sink = &sink,
        .batch = &batch,
        .window = 8,
        .ratio = 4,
    };
    ACCEPTS(sparse_attention, base);
    REFUSES(sparse_attention, base, args.queries = TENSOR(F32, 3, 3, 64), "sparse_attention: queries");
    REFUSES(sparse_attention, base, args.queries = TENSOR(F32, 2, 3, 32), "sparse_attention: queries");
    REFUSES(sparse_attention, base, args.out = TENSOR(BF16, 2, 3, 64), "sparse_attention: out");
    REFUSES(sparse_attention, base, args.out = TENSOR(F32, 2, 4, 64), "sparse_attention: out");
    REFUSES(sparse_attention, base, args.sink = &other, "sparse_attention: sink");
    REFUSES(sparse_attention, base, args.window = 9, "sparse_attention: a ring of 8 rows");
    REFUSES(sparse_attention, base, args.entries.layout.width = 32, "sparse_attention: entries");
    REFUSES(sparse_attention, base, args.entries.layout.encoding = ROW_F32, "sparse_attention: entries");
    REFUSES(sparse_attention, base, args.entries.layout.plain_width = 0, "sparse_attention: entries");
    REFUSES(sparse_attention, base, args.entries.rows_per_page = 0,
            "sparse_attention: entries without pages");
    REFUSES(sparse_attention, base, args.selection = TENSOR(I32, 3, 5), "sparse_attention: selection");
    REFUSES(sparse_attention, base, args.selection = TENSOR(I64, 2, 5), "sparse_attention: selection");
    base.ratio = 0;
    base.entries = (struct state_rows){0};
    base.selection = (struct tensor){.rank = 0};
    ACCEPTS(sparse_attention, base);
}

static void hyper_connection_contracts(void **state) {
    struct weight mix = PLAIN("hc_attn_fn", 24, 32);
    struct weight base_weight = PLAIN("hc_attn_base", 1, 24);
    struct weight scale = PLAIN("hc_attn_scale", 1, 3);
    struct weight wrong = PLAIN("wrong", 5, 5);
    struct hyper_connection_pre_args pre = {.out = TENSOR(BF16, 2, 8),
                                            .post = TENSOR(F32, 2, 4),
                                            .comb = TENSOR(F32, 2, 4, 4),
                                            .streams = TENSOR(BF16, 2, 4, 8),
                                            .mix = &mix,
                                            .base = &base_weight,
                                            .scale = &scale};
    ACCEPTS(hyper_connection_pre, pre);
    REFUSES(hyper_connection_pre, pre, args.streams = TENSOR(I8, 2, 4, 8), "hyper_connection_pre: streams");
    REFUSES(hyper_connection_pre, pre, args.streams = TENSOR(BF16, 2, 17, 8),
            "hyper_connection_pre: 17 streams");
    REFUSES(hyper_connection_pre, pre, args.out = TENSOR(F32, 2, 8), "hyper_connection_pre: out");
    REFUSES(hyper_connection_pre, pre, args.post = TENSOR(F32, 2, 3), "hyper_connection_pre: post");
    REFUSES(hyper_connection_pre, pre, args.comb = TENSOR(F32, 2, 16), "hyper_connection_pre: comb");
    REFUSES(hyper_connection_pre, pre, args.mix = &wrong, "hyper_connection_pre: mix");
    REFUSES(hyper_connection_pre, pre, args.base = &wrong, "hyper_connection_pre: base");
    REFUSES(hyper_connection_pre, pre, args.scale = &wrong, "hyper_connection_pre: scale");
    struct hyper_connection_post_args post = {.streams = TENSOR(BF16, 2, 4, 8),
                                              .branch = TENSOR(BF16, 2, 8),
                                              .post = TENSOR(F32, 2, 4),
                                              .comb = TENSOR(F32, 2, 4, 4)};
    ACCEPTS(hyper_connection_post, post);
    REFUSES(hyper_connection_post, post, args.streams = TENSOR(BF16, 2, 32),
            "hyper_connection_post: streams");
    REFUSES(hyper_connection_post, post, args.branch = TENSOR(F32, 2, 8), "hyper_connection_post: branch");
    REFUSES(hyper_connection_post, post, args.post = TENSOR(BF16, 2, 4), "hyper_connection_post: post");
    REFUSES(hyper_connection_post, post, args.comb = TENSOR(F32, 2, 4, 3), "hyper_connection_post: comb");
}

static void hyper_connection_head_contract(void **state) {
    struct weight mix = PLAIN("hc_head_fn", 4, 32);
    struct weight base_weight = PLAIN("hc_head_base", 1, 4);
    struct weight scale = PLAIN("hc_head_scale", 1, 1);
    struct weight wrong = PLAIN("wrong", 5, 5);
    struct hyper_connection_head_args base = {.out = TENSOR(F32, 2, 8),
                                              .streams = TENSOR(F32, 2, 4, 8),
                                              .mix = &mix,
                                              .base = &base_weight,
                                              .scale = &scale};
    ACCEPTS(hyper_connection_head, base);
    REFUSES(hyper_connection_head, base, args.streams = TENSOR(F32, 2, 32), "hyper_connection_head: streams");
    REFUSES(hyper_connection_head, base, args.streams = TENSOR(F32, 2, 17, 8),
            "hyper_connection_head: 17 streams");
    REFUSES(hyper_connection_head, base, args.out = TENSOR(F32, 2, 9), "hyper_connection_head: out");
    REFUSES(hyper_connection_head, base, args.mix = &wrong, "hyper_connection_head: mix");
    REFUSES(hyper_connection_head, base, args.base = &wrong, "hyper_connection_head: base");
    REFUSES(hyper_connection_head, base, args.scale = &wrong, "hyper_connection_head: scale");
    REFUSES(hyper_connection_head, base, args.out = TENSOR(F32, 5, 8), "hyper_connection_head: out");
    base.rows = FAKE;
    base.out = TENSOR(F32, 5, 8);
    ACCEPTS(hyper_connection_head, base);
    REFUSES(hyper_connection_head, base, args.out = TENSOR(F32, 5, 9), "hyper_connection_head: out");
}

static void route_experts_contract(void **state) {
    struct weight bias = PLAIN("gate.bias", 1, 8);
    struct weight narrow = PLAIN("gate.bias", 1, 7);
    struct route_experts_args base = {.experts = TENSOR(I32, 2, 3),
                                      .weights = TENSOR(F32, 2, 3),
                                      .logits = TENSOR(F32, 2, 8),
                                      .bias = &bias,
                                      .table = TENSOR(I64, 100, 3),
                                      .token_ids = FAKE};
    ACCEPTS(route_experts, base);
    REFUSES(route_experts, base, args.logits = TENSOR(BF16, 2, 8), "route_experts: logits");
    REFUSES(route_experts, base, args.experts = TENSOR(F32, 2, 3), "route_experts: experts");
    REFUSES(route_experts, base, args.experts = TENSOR(I32, 3, 3), "route_experts: experts");
    REFUSES(route_experts, base, args.weights = TENSOR(F32, 2, 4), "route_experts: weights");
    REFUSES(route_experts, base, args.table = TENSOR(BF16, 100, 3), "route_experts: table");
    REFUSES(route_experts, base, args.table = TENSOR(I64, 100, 4), "route_experts: table");
    REFUSES(route_experts, base, args.bias = &narrow, "route_experts: bias");
    base.experts = TENSOR(I32, 2, 9);
    base.weights = TENSOR(F32, 2, 9);
    REFUSES(route_experts, base, args.table.data = NULL, "route_experts: 9 picks of 8 experts");
}

static void moe_experts_contract(void **state) {
    struct weight gate[2] = {PLAIN("experts.0.w1.weight", 6, 8), PLAIN("experts.1.w1.weight", 6, 8)};
    struct weight up[2] = {PLAIN("experts.0.w3.weight", 6, 8), PLAIN("experts.1.w3.weight", 6, 8)};
    struct weight down[2] = {PLAIN("experts.0.w2.weight", 8, 6), PLAIN("experts.1.w2.weight", 8, 6)};
    struct expert_weights bank = {.gate = gate, .up = up, .down = down, .count = 2};
    struct moe_experts_args base = {.out = TENSOR(F32, 5, 3, 8),
                                    .x = TENSOR(F32, 5, 8),
                                    .experts = TENSOR(I32, 5, 3),
                                    .weights = TENSOR(F32, 5, 3),
                                    .bank = &bank};
    ACCEPTS(moe_experts, base);
    REFUSES(moe_experts, base, args.x = TENSOR(F32, 5, 7), "experts.0.w1.weight");
    REFUSES(moe_experts, base, args.experts = TENSOR(I64, 5, 3), "moe_experts: experts");
    REFUSES(moe_experts, base, args.experts = TENSOR(I32, 4, 3), "moe_experts: experts");
    REFUSES(moe_experts, base, args.weights = TENSOR(F32, 5, 2), "moe_experts: weights");
    REFUSES(moe_experts, base, args.out = TENSOR(F32, 5, 3, 9), "experts.0.w2.weight");
    REFUSES(moe_experts, base, args.out = TENSOR(BF16, 5, 3, 8), "experts.0.w2.weight");
    base.x.dtype = DTYPE_BF16;
    ACCEPTS(moe_experts, base);
    REFUSES(moe_experts, base, args.out = TENSOR(I32, 5, 3, 8), "experts.0.w2.weight");
    up[0].leaves = leaves_whole(8, 2);
    REFUSES(moe_experts, base, , "moe_experts: experts.0.w3.weight has 2 leaves, the limit is 1");
    up[0].leaves = leaves_whole(8, 1);
    down[0].leaves = leaves_whole(6, 16);
    ACCEPTS(moe_experts, base);
    down[0].leaves.count = -1;
    REFUSES(moe_experts, base, , "moe_experts: experts.0.w2.weight has -1 leaves");
    down[0].leaves.count = 0;
    up[0].columns = 7;
    REFUSES(moe_experts, base, , "experts.0.w3.weight");
    up[0].columns = 8;
    up[0].rows = 5;
    REFUSES(moe_experts, base, , "experts.0.w3.weight");
    up[0].rows = 6;
    down[0].columns = 5;
    REFUSES(moe_experts, base, , "experts.0.w2.weight");
    bank.count = 0;
    REFUSES(moe_experts, base, , "moe_experts: no experts");
}

static void sums_and_gates_contracts(void **state) {
    struct moe_combine_args combine = {
        .out = TENSOR(BF16, 2, 8), .routed = TENSOR(BF16, 2, 3, 8), .shared = TENSOR(BF16, 2, 8)};
    ACCEPTS(moe_combine, combine);
    REFUSES(moe_combine, combine, args.routed = TENSOR(BF16, 2, 24), "moe_combine: routed");
    REFUSES(moe_combine, combine, args.shared = TENSOR(F32, 2, 8), "moe_combine: shared");
    REFUSES(moe_combine, combine, args.out = TENSOR(BF16, 2, 9), "moe_combine: out");
    struct swiglu_args swiglu = {
        .out = TENSOR(F32, 2, 8), .gate = TENSOR(F32, 2, 8), .up = TENSOR(F32, 2, 8)};
    ACCEPTS(swiglu, swiglu);
    REFUSES(swiglu, swiglu, args.gate = TENSOR(F32, 2, 2, 4), "swiglu: gate");
    REFUSES(swiglu, swiglu, args.up = TENSOR(F32, 2, 7), "swiglu: up");
    REFUSES(swiglu, swiglu, args.out = TENSOR(BF16, 2, 8), "swiglu: out");
    struct add_broadcast_args add = {
        .out = TENSOR(F32, 2, 4, 8), .a = TENSOR(F32, 2, 8), .b = TENSOR(F32, 2, 4, 8)};
    ACCEPTS(add_broadcast, add);
    REFUSES(add_broadcast, add, args.b = TENSOR(F32, 2, 32), "add_broadcast: b");
    REFUSES(add_broadcast, add, args.a = TENSOR(BF16, 2, 8), "add_broadcast: a");
    REFUSES(add_broadcast, add, args.out = TENSOR(F32, 2, 3, 8), "add_broadcast: out");
}

/* A failed check leaves nothing in the arena. */
static void nothing_is_held_after_all(void **state) {
    struct dry *dry = *state;
    struct weight weight = PLAIN("norm.weight", 1, 8);
    struct rms_norm_args base = {.out = TENSOR(F32, 3, 8), .x = TENSOR(F32, 3, 8), .weight = &weight};
    ACCEPTS(rms_norm, base);
    REFUSES(rms_norm, base, args.out = TENSOR(F32, 2, 8), "rms_norm: out");
    assert_int_equal(dry->arena.used, 0);
    assert_true(dry->arena.high_water > 0);
}

int main(void) {
#define CONTRACT_TEST(body) cmocka_unit_test_setup(body, set_up)
    const struct CMUnitTest tests[] = {
        CONTRACT_TEST(embedding_contract),
        CONTRACT_TEST(rms_norm_contract),
        CONTRACT_TEST(linear_contract),
        CONTRACT_TEST(grouped_linear_contract),
        CONTRACT_TEST(rope_contract),
        CONTRACT_TEST(rows_contracts),
        CONTRACT_TEST(compressor_rows_contract),
        CONTRACT_TEST(compress_entries_contract),
        CONTRACT_TEST(indexer_contracts),
        CONTRACT_TEST(sparse_attention_contract),
        CONTRACT_TEST(hyper_connection_contracts),
        CONTRACT_TEST(hyper_connection_head_contract),
        CONTRACT_TEST(route_experts_contract),
        CONTRACT_TEST(moe_experts_contract),
        CONTRACT_TEST(sums_and_gates_contracts),
        CONTRACT_TEST(nothing_is_held_after_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
