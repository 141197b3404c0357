/*
 * Attention in fp32 lanes. A block of keys is decoded, then meets all heads of the item: once for the logits,
 * once for the values, so that the scratch holds a few keys and all logits. A logit is a dot product of
 * dot_tile_lanes.h; values sum key by key, lane-wise over the channels.
 */
#include "ops/sparse_attention.h"

#include "backends/cpu/attention_keys.h"
#include "backends/cpu/lanes/dot_tile_lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/row_decode_lanes.h"
#include "backends/cpu/lanes/softmax_lanes.h"

enum { KEY_BLOCK = 32 /* keys decoded together; a multiple of LANES */ };

struct attention {
    const struct sparse_attention_args *args;
    int64_t item_heads;
    int64_t items_per_row;
};

/* What an item works on. */
struct item {
    int64_t width;
    int64_t stride; /* width padded */
    int64_t row;
    int64_t first_head;
    int64_t head_count;
    int64_t key_count;
    int64_t key_stride;            /* of logits */
    const unsigned char **keys;    /* encoded */
    float *panel;                  /* [KEY_BLOCK][stride] */
    const float *block[KEY_BLOCK]; /* decoded keys, in the panel or where they lie */
    float *queries;                /* [heads][stride]; once there are logits, the sums of values */
    float *logits;                 /* [heads][key_stride], then probabilities */
    float *denominators;           /* [heads] */
};

/* Lays the scratch out from `workspace`; returns its bytes. */
static size_t lay_out(const struct sparse_attention_args *args, void *workspace, struct item *item) {
    size_t limit = ((size_t)sparse_attention_key_limit(args) + KEY_BLOCK - 1) / KEY_BLOCK * KEY_BLOCK;
    size_t heads = (size_t)args->queries.shape[1];
    item->width = args->queries.shape[2];
    item->stride = lanes_padded(item->width);
    item->key_stride = (int64_t)limit;
    uintptr_t at = (uintptr_t)workspace;
    item->keys = (const unsigned char **)at;
    at += kernel_workspace_bytes(limit * sizeof *item->keys);
    item->panel = (float *)at;
    at += kernel_workspace_bytes(KEY_BLOCK * (size_t)item->stride * sizeof *item->panel);
    item->queries = (float *)at;
    at += kernel_workspace_bytes(heads * (size_t)item->stride * sizeof *item->queries);
    item->logits = (float *)at;
    at += kernel_workspace_bytes(heads * limit * sizeof *item->logits);
    item->denominators = (float *)at;
    return at + kernel_workspace_bytes(heads * sizeof *item->denominators) - (uintptr_t)workspace;
}

/* Index of an item's head; past the last one, the last. */
static int64_t clamp_head(const struct item *item, int64_t head) {
    return head < item->head_count ? head : item->head_count - 1;
}

/* First element of an item's head in queries and out. */
static int64_t head_element(const struct attention *attention, const struct item *item, int64_t head) {
    int64_t heads = attention->args->queries.shape[1];
    return (item->row * heads + item->first_head + head) * item->width;
}

/* Decodes the block of keys at `first`; returns how many there are. */
static int64_t decode_block(const struct attention *attention, struct item *item, int64_t first) {
    const struct row_layout *layout = &attention->args->window_rows.ring.layout;
    int64_t left = item->key_count - first;
    int64_t count = left < KEY_BLOCK ? left : KEY_BLOCK;
    for (int64_t n = 0; n < count; n++) {
        item->block[n] = lanes_decode_row(layout, item->keys[first + n], item->panel + n * item->stride);
    }
    /* Tiles of keys reach past the last one. */
    for (int64_t n = count; n % DOT_SIDE != 0; n++) {
        item->block[n] = item->block[count - 1];
    }
    return count;
}

/* Logits of all the item's heads for the decoded block of keys. */
static void make_logits(const struct attention *attention, const struct item *item, int64_t first,
                        int64_t count) {
    for (int64_t h = 0; h < item->head_count; h += DOT_SIDE) {
        const float *queries[DOT_SIDE];
        for (int i = 0; i < DOT_SIDE; i++) {
            queries[i] = item->queries + clamp_head(item, h + i) * item->stride;
        }
        for (int64_t n = 0; n < count; n += DOT_SIDE) {
            f32x4 products[DOT_SIDE];
            lanes_dot_tile(queries, item->block + n, item->stride, products);
            for (int64_t i = 0; i < DOT_SIDE && h + i < item->head_count; i++) {
                f32x4 logits = products[i] * attention->args->scale;
                memcpy(item->logits + (h + i) * item->key_stride + first + n, &logits, sizeof logits);
            }
        }
    }
}

/* Adds the block's keys, `pieces` registers of channels from `channel`, to the sums of four heads. */
static inline __attribute__((always_inline)) void
add_values(const struct item *item, int64_t first, int64_t count, int64_t head, int64_t channel, int pieces) {
    f32_piece sums[DOT_SIDE][TILE_B];
    const float *weights[DOT_SIDE];
#pragma GCC unroll 4
    for (int h = 0; h < DOT_SIDE; h++) {
        weights[h] = item->logits + clamp_head(item, head + h) * item->key_stride + first;
#pragma GCC unroll 4
        for (int p = 0; p < pieces; p++) {
            sums[h][p] = piece_load(item->queries + clamp_head(item, head + h) * item->stride + channel +
                                    p * PIECE_LANES);
        }
    }
    for (int64_t n = 0; n < count; n++) {
        const float *key = item->block[n] + channel;
#pragma GCC unroll 4
        for (int p = 0; p < pieces; p++) {
            f32_piece value = piece_load(key + p * PIECE_LANES);
#pragma GCC unroll 4
            for (int h = 0; h < DOT_SIDE; h++) {
                sums[h][p] += value * weights[h][n];
            }
        }
    }
#pragma GCC unroll 4
    for (int h = 0; h < DOT_SIDE; h++) {
#pragma GCC unroll 4
        for (int p = 0; p < pieces; p++) {
            if (head + h < item->head_count) {
                piece_store(item->queries + (head + h) * item->stride + channel + p * PIECE_LANES,
                            sums[h][p]);
            }
        }
    }
}

/* Adds the decoded block of keys to the sums of all the item's heads. */
static void make_values(const struct item *item, int64_t first, int64_t count) {
    for (int64_t h = 0; h < item->head_count; h += DOT_SIDE) {
        int64_t c = 0;
        for (; c + TILE_B * PIECE_LANES <= item->stride; c += TILE_B * PIECE_LANES) {
            add_values(item, first, count, h, c, TILE_B);
        }
        for (; c < item->stride; c += PIECE_LANES) {
            add_values(item, first, count, h, c, 1);
        }
    }
}

static void write_head(const struct attention *attention, const struct item *item, int64_t head) {
    const struct tensor *out = &attention->args->out;
    int64_t at = head_element(attention, item, head);
    const float *sums = item->queries + head * item->stride;
    for (int64_t c = 0; c < item->width; c += LANES) {
        f32x16 value = lanes_load(sums + c) / item->denominators[head];
        if (item->width - c >= LANES) {
            lanes_write(out->dtype, out->data, at + c, value);
        } else {
            lanes_write_part(out->dtype, out->data, at + c, item->width - c, value);
        }
    }
}

static void attend(const void *context, int64_t index, void *workspace) {
    const struct attention *attention = context;
    const struct sparse_attention_args *args = attention->args;
    struct item item;
    lay_out(args, workspace, &item);
    item.row = index / attention->items_per_row;
    item.first_head = index % attention->items_per_row * attention->item_heads;
    int64_t left = args->queries.shape[1] - item.first_head;
    item.head_count = left < attention->item_heads ? left : attention->item_heads;
    item.key_count = attention_list_keys(args, item.row, item.keys);
    for (int64_t h = 0; h < item.head_count; h++) {
        lanes_decode_activation(args->queries.dtype, args->queries.data, head_element(attention, &item, h),
                                item.width, item.queries + h * item.stride);
    }
    for (int64_t n = 0; n < item.key_count; n += KEY_BLOCK) {
        make_logits(attention, &item, n, decode_block(attention, &item, n));
    }
    for (int64_t h = 0; h < item.head_count; h++) {
        float sink = attention_sink(args, item.first_head + h);
        item.denominators[h] =
            lanes_softmax_numerators(item.logits + h * item.key_stride, item.key_count, sink);
    }
    memset(item.queries, 0, (size_t)(item.head_count * item.stride) * sizeof *item.queries);
    for (int64_t n = 0; n < item.key_count; n += KEY_BLOCK) {
        make_values(&item, n, decode_block(attention, &item, n));
    }
    for (int64_t h = 0; h < item.head_count; h++) {
        write_head(attention, &item, h);
    }
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    struct item item;
    return thread_count * lay_out(arguments, NULL, &item);
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct sparse_attention_args *args = arguments;
    struct attention attention = {.args = args};
    int64_t heads = args->queries.shape[1];
    struct item item;
    attention.item_heads = attention_item_heads(env, args, DOT_SIDE);
    attention.items_per_row = (heads + attention.item_heads - 1) / attention.item_heads;
    kernel_for_each_item(env, args->batch->row_count * attention.items_per_row, attend, &attention,
                         env->workspace, lay_out(args, NULL, &item));
    return STATUS_OK;
}

const struct op_entry LANES_NAME(sparse_attention) = {.op = OP_SPARSE_ATTENTION,
                                                      LANES_ENTRY(sparse_attention),
                                                      .modes = OP_MODE_BOTH,
                                                      .run = run,
                                                      .workspace_bytes = workspace_bytes};
