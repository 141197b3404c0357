/* Keys by address, and the split into items. */
#include "backends/cpu/attention_keys.h"

#include "tensor/elements.h"

/* Entries 0..count-1; returns count. */
static int64_t list_all_entries(const struct state_rows *entries, int64_t slot, int64_t count,
                                const unsigned char **keys) {
    int64_t run;
    for (int64_t first = 0; first < count; first += run) {
        const unsigned char *row = state_rows_at_entry(entries, slot, first);
        run = state_rows_run(entries, first, count - first);
        for (int64_t i = 0; i < run; i++) {
            keys[first + i] = row + (size_t)i * entries->row_bytes;
        }
    }
    return count;
}

int64_t attention_list_keys(const struct sparse_attention_args *args, int64_t row,
                            const unsigned char **keys) {
    const struct batch_view *batch = args->batch;
    int64_t segment = batch->row_segment[row];
    int64_t slot = batch->segment_slot[segment];
    int64_t position = batch->positions[row];
    int64_t first = position < args->window ? 0 : position - args->window + 1;
    int64_t count = 0;
    for (int64_t p = first; p <= position; p++) {
        keys[count++] = chunk_rows_at(&args->window_rows, batch, segment, p);
    }
    if (args->selection.rank == 0) {
        int64_t visible = args->ratio == 0 ? 0 : (position + 1) / args->ratio;
        return count + list_all_entries(&args->entries, slot, visible, keys + count);
    }
    int64_t limit = args->selection.shape[1];
    const int32_t *selection = (const int32_t *)args->selection.data + row * limit;
    for (int64_t i = 0; i < limit; i++) {
        if (selection[i] >= 0) {
            keys[count++] = state_rows_at_entry(&args->entries, slot, selection[i]);
        }
    }
    return count;
}

float attention_sink(const struct sparse_attention_args *args, int64_t head) {
    const struct weight *sink = args->sink;
    float value;
    elements_decode(sink->dtype, (const char *)sink->data + (size_t)head * dtype_bytes(sink->dtype), 1,
                    &value);
    return value;
}

int64_t attention_item_heads(const struct kernel_env *env, const struct sparse_attention_args *args,
                             int64_t tile) {
    int64_t heads = args->queries.shape[1];
    int64_t rows = args->batch->row_count;
    int64_t threads = env->pool == NULL ? 1 : worker_pool_thread_count(env->pool);
    if (threads == 1 || rows == 0 || rows >= 4 * threads) {
        return heads;
    }
    /* Every item decodes its row's keys anew: no more items than threads, but for a remainder. */
    int64_t groups = rows == 1 ? threads : (2 * threads + rows - 1) / rows;
    int64_t group_heads = (heads + groups - 1) / groups;
    return (group_heads + tile - 1) / tile * tile;
}
