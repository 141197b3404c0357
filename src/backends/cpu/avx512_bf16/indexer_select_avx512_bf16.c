/*
 * Scores of the indexer on bf16 dot products, for FP4 keys (exact in bf16).
 *
 * Lanes are heads, sixteen at a time: a key's channel pairs are broadcast against queries that lie by pairs.
 * So no lanes are summed for a product; a score sums its heads by lanes (head mod 16), then by the adjacent
 * tree.
 */
#include "ops/indexer_select.h"

#include <immintrin.h>

#include "backends/cpu/avx512_bf16/avx512_bf16_entries.h"
#include "backends/cpu/avx512_bf16/bf16_decode.h"
#include "backends/cpu/indexer_waves.h"
#include "backends/cpu/lanes/lanes.h"

enum {
    KEYS = 16,         /* of a tile */
    USUAL_WIDTH = 128, /* of the models: compiled as a constant */
};

/* A thread's scratch. */
struct scratch {
    int64_t heads;
    int64_t width;
    uint16_t *panel;   /* decoded keys: [INDEXER_BLOCK_ENTRIES][width], in the order of weight_decode.h */
    uint32_t *queries; /* of one row: [heads / 16][width / 2][16] pairs of channels in the same order */
    float *weights;    /* [heads] */
};

/* Lays the scratch out from `memory`; returns its bytes. */
static size_t lay_out(const struct indexer_select_args *args, void *memory, struct scratch *scratch) {
    size_t heads = (size_t)args->queries.shape[1];
    size_t width = (size_t)args->queries.shape[2];
    uintptr_t at = (uintptr_t)memory;
    scratch->heads = (int64_t)heads;
    scratch->width = (int64_t)width;
    scratch->panel = (uint16_t *)at;
    at += INDEXER_BLOCK_ENTRIES * width * sizeof *scratch->panel;
    scratch->queries = (uint32_t *)at;
    at += heads * width / 2 * sizeof *scratch->queries;
    scratch->weights = (float *)at;
    return at + heads * sizeof *scratch->weights - (uintptr_t)memory;
}

/* Lays one head's query by pairs of channels: 0 and 2, 4 and 6, ..., then 1 and 3, ... of each chunk. */
static void pack_query(const uint16_t *query, int64_t width, uint32_t *out) {
    for (int64_t chunk = 0; chunk < width; chunk += CHUNK) {
        for (int64_t i = 0; i < CHUNK / 4; i++) {
            const uint16_t *four = query + chunk + 4 * i;
            uint32_t *even = out + (chunk / 2 + i) * LANES;
            even[0] = four[0] | (uint32_t)four[2] << 16;
            even[CHUNK / 4 * LANES] = four[1] | (uint32_t)four[3] << 16;
        }
    }
}

/* Scores of sixteen keys for the row in scratch. */
static inline __attribute__((always_inline)) f32x16 score_tile(const struct scratch *scratch,
                                                               const uint16_t *keys, int64_t width) {
    f32x16 scores[KEYS];
    for (int k = 0; k < KEYS; k++) {
        scores[k] = (f32x16){0};
    }
    for (int64_t h = 0; h < scratch->heads; h += LANES) {
        __m512 products[KEYS];
#pragma GCC unroll 16
        for (int k = 0; k < KEYS; k++) {
            products[k] = _mm512_setzero_ps();
        }
        const uint32_t *queries = scratch->queries + h * width / 2;
        for (int64_t pair = 0; pair < width / 2; pair++) {
            __m512bh query = (__m512bh)_mm512_loadu_si512(queries + pair * LANES);
#pragma GCC unroll 16
            for (int k = 0; k < KEYS; k++) {
                int32_t both;
                memcpy(&both, keys + k * width + 2 * pair, sizeof both);
                products[k] = _mm512_dpbf16_ps(products[k], query, (__m512bh)_mm512_set1_epi32(both));
            }
        }
        f32x16 weights = lanes_load(scratch->weights + h);
#pragma GCC unroll 16
        for (int k = 0; k < KEYS; k++) {
            scores[k] += lanes_max((f32x16)products[k], lanes_splat(0.0f)) * weights;
        }
    }
    return lanes_sum_each(scores);
}

static void decode_panel(const struct indexer_select_args *args, const struct indexer_block *block,
                         const struct scratch *scratch) {
    const unsigned char *rows[INDEXER_BLOCK_ENTRIES];
    __m512i table = fp4_table_load();
    indexer_list_keys(args, block, rows);
    for (int64_t j = 0; j < block->entry_count; j++) {
        bf16_decode_index_row(table, &args->keys.layout, rows[j], scratch->panel + j * scratch->width);
    }
    /* Tiles of keys reach past the last one. */
    for (int64_t j = block->entry_count; j % KEYS != 0; j++) {
        memset(scratch->panel + j * scratch->width, 0, (size_t)scratch->width * sizeof *scratch->panel);
    }
}

static void score_row(const struct scratch *scratch, int64_t count, float *scores) {
    for (int64_t j = 0; j < count; j += KEYS) {
        const uint16_t *keys = scratch->panel + j * scratch->width;
        f32x16 tile = scratch->width == USUAL_WIDTH ? score_tile(scratch, keys, USUAL_WIDTH)
                                                    : score_tile(scratch, keys, scratch->width);
        int64_t left = count - j;
        memcpy(scores + j, &tile, (size_t)(left < KEYS ? left : KEYS) * sizeof *scores);
    }
}

static void score_block(const struct indexer_select_args *args, const struct indexer_block *block,
                        void *memory) {
    struct scratch scratch;
    lay_out(args, memory, &scratch);
    decode_panel(args, block, &scratch);
    for (int64_t r = 0; r < block->row_count; r++) {
        int64_t row = block->first_row + r;
        for (int64_t h = 0; h < scratch.heads; h++) {
            const uint16_t *query =
                (const uint16_t *)args->queries.data + (row * scratch.heads + h) * scratch.width;
            pack_query(query, scratch.width,
                       scratch.queries + h / LANES * LANES * scratch.width / 2 + h % LANES);
        }
        indexer_head_weights(args, row, scratch.weights);
        score_row(&scratch, block->entry_count, block->scores + r * block->row_stride);
    }
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    struct scratch scratch;
    return indexer_waves_workspace(arguments, thread_count, lay_out(arguments, NULL, &scratch));
}

static bool can_run(const void *arguments) {
    const struct indexer_select_args *args = arguments;
    return args->queries.dtype == DTYPE_BF16 && args->queries.shape[1] % LANES == 0 &&
           bf16_takes_index_row(&args->keys.layout);
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    struct scratch scratch;
    return indexer_waves_run(env, arguments, score_block, lay_out(arguments, NULL, &scratch));
}

const struct op_entry indexer_select_avx512_bf16 = {
    .op = OP_INDEXER_SELECT,
    AVX512_BF16_ENTRY(indexer_select),
    .modes = OP_MODE_NATIVE,
    .run = run,
    .workspace_bytes = workspace_bytes,
    .can_run = can_run,
};
