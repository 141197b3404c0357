/* Waves of rows: scores by blocks of entries, then the choice by rows. */
#include "backends/cpu/indexer_waves.h"

#include "backends/cpu/select_largest.h"
#include "ops/kernel_items.h"
#include "tensor/elements.h"
#include "tensor/number_format.h"

enum { WAVE_ROWS = 16 };

struct wave {
    const struct indexer_select_args *args;
    indexer_score *score;
    int64_t first_row;
    int64_t row_count;
    float *scores; /* [row_count][row_stride]; orders once a block is done */
    int64_t row_stride;
};

static int64_t visible_entries(const struct indexer_select_args *args, int64_t row) {
    return (args->batch->positions[row] + 1) / args->ratio;
}

static int64_t row_stride(const struct indexer_select_args *args) {
    return (args->keys.rows_per_slot + 15) & ~(int64_t)15;
}

static size_t scores_bytes(const struct indexer_select_args *args) {
    int64_t rows = args->batch->row_count < WAVE_ROWS ? args->batch->row_count : WAVE_ROWS;
    return (size_t)(rows * row_stride(args)) * sizeof(float);
}

static size_t thread_bytes(size_t scratch_bytes) {
    size_t counters = SELECT_COUNTERS * sizeof(uint32_t);
    size_t bytes = scratch_bytes > counters ? scratch_bytes : counters;
    return kernel_workspace_bytes(bytes);
}

size_t indexer_waves_workspace(const struct indexer_select_args *args, unsigned thread_count,
                               size_t scratch_bytes) {
    return scores_bytes(args) + thread_count * thread_bytes(scratch_bytes);
}

/* The block of entries for rows of one segment that have to choose; they end at row `end`. */
static void score_segment(const struct wave *wave, int64_t row, int64_t end, int64_t first_entry,
                          void *scratch) {
    const struct indexer_select_args *args = wave->args;
    int64_t limit = args->selection.shape[1];
    /* Positions rise within a segment. */
    while (row < end && (visible_entries(args, row) <= limit || visible_entries(args, row) <= first_entry)) {
        row++;
    }
    if (row == end) {
        return;
    }
    int64_t left = visible_entries(args, end - 1) - first_entry;
    struct indexer_block block = {
        .first_row = row,
        .row_count = end - row,
        .slot = args->batch->segment_slot[args->batch->row_segment[row]],
        .first_entry = first_entry,
        .entry_count = left < INDEXER_BLOCK_ENTRIES ? left : INDEXER_BLOCK_ENTRIES,
        .scores = wave->scores + (row - wave->first_row) * wave->row_stride + first_entry,
        .row_stride = wave->row_stride,
    };
    wave->score(args, &block, scratch);
    for (int64_t i = 0; i < block.row_count; i++) {
        select_make_orders(block.scores + i * block.row_stride, block.entry_count);
    }
}

static void score_block(const void *context, int64_t index, void *scratch) {
    const struct wave *wave = context;
    const int32_t *row_segment = wave->args->batch->row_segment;
    int64_t wave_end = wave->first_row + wave->row_count;
    int64_t end;
    for (int64_t row = wave->first_row; row < wave_end; row = end) {
        for (end = row + 1; end < wave_end && row_segment[end] == row_segment[row]; end++) {
        }
        score_segment(wave, row, end, index * INDEXER_BLOCK_ENTRIES, scratch);
    }
}

static void choose_row(const void *context, int64_t index, void *scratch) {
    const struct wave *wave = context;
    int64_t row = wave->first_row + index;
    int64_t limit = wave->args->selection.shape[1];
    int64_t visible = visible_entries(wave->args, row);
    int32_t *selection = (int32_t *)wave->args->selection.data + row * limit;
    if (visible > limit) {
        const void *orders = wave->scores + index * wave->row_stride;
        if (limit > 0) {
            select_largest(orders, visible, limit, scratch, selection);
        }
        return;
    }
    for (int64_t i = 0; i < limit; i++) {
        selection[i] = i < visible ? (int32_t)i : -1;
    }
}

/* Blocks of entries that some row of the wave has to choose from. */
static int64_t block_count(const struct wave *wave) {
    int64_t most = 0;
    for (int64_t row = wave->first_row; row < wave->first_row + wave->row_count; row++) {
        int64_t visible = visible_entries(wave->args, row);
        if (visible > wave->args->selection.shape[1] && visible > most) {
            most = visible;
        }
    }
    return (most + INDEXER_BLOCK_ENTRIES - 1) / INDEXER_BLOCK_ENTRIES;
}

enum status indexer_waves_run(const struct kernel_env *env, const struct indexer_select_args *args,
                              indexer_score *score, size_t scratch_bytes) {
    int64_t rows = args->batch->row_count;
    char *scratch = (char *)env->workspace + scores_bytes(args);
    struct wave wave = {
        .args = args, .score = score, .scores = env->workspace, .row_stride = row_stride(args)};
    for (int64_t first = 0; first < rows; first += WAVE_ROWS) {
        wave.first_row = first;
        wave.row_count = rows - first < WAVE_ROWS ? rows - first : WAVE_ROWS;
        int64_t blocks = block_count(&wave);
        if (blocks == 0) {
            /* Nothing to choose from: not worth waking threads for. */
            for (int64_t i = 0; i < wave.row_count; i++) {
                choose_row(&wave, i, scratch);
            }
            continue;
        }
        kernel_for_each_item(env, blocks, score_block, &wave, scratch, thread_bytes(scratch_bytes));
        kernel_for_each_item(env, wave.row_count, choose_row, &wave, scratch, thread_bytes(scratch_bytes));
    }
    return STATUS_OK;
}

void indexer_list_keys(const struct indexer_select_args *args, const struct indexer_block *block,
                       const unsigned char **keys) {
    int64_t run;
    for (int64_t j = 0; j < block->entry_count; j += run) {
        const unsigned char *row = state_rows_at_entry(&args->keys, block->slot, block->first_entry + j);
        run = state_rows_run(&args->keys, block->first_entry + j, block->entry_count - j);
        for (int64_t i = 0; i < run; i++) {
            keys[j + i] = row + (size_t)i * args->keys.row_bytes;
        }
    }
}

void indexer_head_weights(const struct indexer_select_args *args, int64_t row, float *out) {
    const struct tensor *weights = &args->head_weights;
    int64_t heads = weights->shape[1];
    elements_decode(weights->dtype,
                    (const char *)weights->data + (size_t)(row * heads) * dtype_bytes(weights->dtype), heads,
                    out);
    for (int64_t h = 0; h < heads; h++) {
        float scaled = out[h] * args->weight_scale;
        out[h] = weights->dtype == DTYPE_BF16 ? bf16_round(scaled) : scaled;
    }
}
