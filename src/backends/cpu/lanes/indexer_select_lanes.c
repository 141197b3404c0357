/*
 * Scores of the indexer in fp32 lanes: each dot product is one of dot_tile_lanes.h, heads are added in their
 * order.
 */
#include "ops/indexer_select.h"

#include "backends/cpu/indexer_waves.h"
#include "backends/cpu/lanes/dot_tile_lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/row_decode_lanes.h"

/* A thread's scratch. */
struct scratch {
    int64_t heads;
    int64_t width;
    int64_t stride; /* width padded */
    float *panel;   /* decoded keys: [INDEXER_BLOCK_ENTRIES][stride] */
    float *queries; /* of one row: [heads][stride] */
    float *weights; /* [heads] */
};

/* Lays the scratch out from `memory`; returns its bytes. */
static size_t lay_out(const struct indexer_select_args *args, void *memory, struct scratch *scratch) {
    scratch->heads = args->queries.shape[1];
    scratch->width = args->queries.shape[2];
    scratch->stride = lanes_padded(scratch->width);
    uintptr_t at = (uintptr_t)memory;
    scratch->panel = (float *)at;
    at += (size_t)(INDEXER_BLOCK_ENTRIES * scratch->stride) * sizeof(float);
    scratch->queries = (float *)at;
    at += (size_t)(scratch->heads * scratch->stride) * sizeof(float);
    scratch->weights = (float *)at;
    return at + (size_t)scratch->heads * sizeof(float) - (uintptr_t)memory;
}

static f32x4 relu(f32x4 value) {
    i32x4 bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= (i32x4)(value > 0.0f);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Scores of four keys for the row in scratch. */
static f32x4 score_tile(const struct scratch *scratch, const float *const *keys) {
    f32x4 scores = {0};
    for (int64_t h = 0; h < scratch->heads; h += DOT_SIDE) {
        const float *queries[DOT_SIDE];
        f32x4 products[DOT_SIDE];
        for (int64_t i = 0; i < DOT_SIDE; i++) {
            int64_t head = h + i < scratch->heads ? h + i : scratch->heads - 1;
            queries[i] = scratch->queries + head * scratch->stride;
        }
        lanes_dot_tile(queries, keys, scratch->stride, products);
        for (int64_t i = 0; i < DOT_SIDE && h + i < scratch->heads; i++) {
            scores += relu(products[i]) * scratch->weights[h + i];
        }
    }
    return scores;
}

static void score_block(const struct indexer_select_args *args, const struct indexer_block *block,
                        void *memory) {
    struct scratch scratch;
    lay_out(args, memory, &scratch);
    const unsigned char *rows[INDEXER_BLOCK_ENTRIES];
    const float *keys[INDEXER_BLOCK_ENTRIES];
    indexer_list_keys(args, block, rows);
    for (int64_t j = 0; j < block->entry_count; j++) {
        keys[j] = lanes_decode_row(&args->keys.layout, rows[j], scratch.panel + j * scratch.stride);
    }
    /* Tiles of keys reach past the last one. */
    for (int64_t j = block->entry_count; j % DOT_SIDE != 0; j++) {
        keys[j] = keys[block->entry_count - 1];
    }
    for (int64_t r = 0; r < block->row_count; r++) {
        int64_t row = block->first_row + r;
        for (int64_t h = 0; h < scratch.heads; h++) {
            lanes_decode_activation(args->queries.dtype, args->queries.data,
                                    (row * scratch.heads + h) * scratch.width, scratch.width,
                                    scratch.queries + h * scratch.stride);
        }
        indexer_head_weights(args, row, scratch.weights);
        float *scores = block->scores + r * block->row_stride;
        for (int64_t j = 0; j < block->entry_count; j += DOT_SIDE) {
            f32x4 tile = score_tile(&scratch, keys + j);
            int64_t left = block->entry_count - j;
            memcpy(scores + j, &tile, (size_t)(left < DOT_SIDE ? left : DOT_SIDE) * sizeof *scores);
        }
    }
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    struct scratch scratch;
    return indexer_waves_workspace(arguments, thread_count, lay_out(arguments, NULL, &scratch));
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    struct scratch scratch;
    return indexer_waves_run(env, arguments, score_block, lay_out(arguments, NULL, &scratch));
}

const struct op_entry LANES_NAME(indexer_select) = {.op = OP_INDEXER_SELECT,
                                                    LANES_ENTRY(indexer_select),
                                                    .modes = OP_MODE_BOTH,
                                                    .run = run,
                                                    .workspace_bytes = workspace_bytes};
