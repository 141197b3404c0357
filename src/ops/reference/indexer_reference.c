/* The indexer's query transform and its choice of entries. */
#include "ops/indexer_rotate.h"
#include "ops/indexer_select.h"
#include "ops/kernel_items.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_math.h"
#include "tensor/quantize.h"

static void rotate_head(const struct indexer_rotate_args *args, int64_t head, float *values, bool rounds) {
    int64_t width = args->x.shape[2];
    reference_read(&args->x, head * width, width, values);
    reference_hadamard(values, width);
    reference_round(args->x.dtype, values, width);
    if (rounds) {
        act4_round(values, width, ACT4_BLOCK);
    }
    reference_write(&args->x, head * width, width, values);
}

static void rotate_head_ideal(const void *context, int64_t head, void *workspace) {
    rotate_head(context, head, workspace, false);
}

static void rotate_head_native(const void *context, int64_t head, void *workspace) {
    rotate_head(context, head, workspace, true);
}

static size_t rotate_workspace(const void *arguments, unsigned thread_count) {
    const struct indexer_rotate_args *args = arguments;
    return thread_count * kernel_float_bytes(args->x.shape[2]);
}

static enum status run_rotate_ideal(const struct kernel_env *env, const void *arguments) {
    const struct indexer_rotate_args *args = arguments;
    kernel_for_each_item(env, args->x.shape[0] * args->x.shape[1], rotate_head_ideal, args, env->workspace,
                         kernel_float_bytes(args->x.shape[2]));
    return STATUS_OK;
}

static enum status run_rotate_native(const struct kernel_env *env, const void *arguments) {
    const struct indexer_rotate_args *args = arguments;
    kernel_for_each_item(env, args->x.shape[0] * args->x.shape[1], rotate_head_native, args, env->workspace,
                         kernel_float_bytes(args->x.shape[2]));
    return STATUS_OK;
}

/* A candidate beats another if its score is larger, or equal at a lower index. */
struct candidate {
    float score;
    int32_t index;
};

static bool is_better(struct candidate a, struct candidate b) {
    return a.score > b.score || (a.score == b.score && a.index < b.index);
}

/* Restores the heap whose root is the worst kept candidate, after the root changed. */
static void sift_down(struct candidate *heap, int64_t count, int64_t at) {
    for (;;) {
        int64_t worst = at;
        for (int64_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++) {
            if (is_better(heap[worst], heap[child])) {
                worst = child;
            }
        }
        if (worst == at) {
            return;
        }
        struct candidate swapped = heap[at];
        heap[at] = heap[worst];
        heap[worst] = swapped;
        at = worst;
    }
}

/* Scores of one row's visible entries, one float per entry. */
static void score_entries(const struct indexer_select_args *args, int64_t row, int64_t slot, int64_t visible,
                          float *queries, float *scores) {
    int64_t heads = args->queries.shape[1];
    int64_t width = args->queries.shape[2];
    float *weights = queries + heads * width;
    float *key = weights + heads;
    reference_read(&args->queries, row * heads * width, heads * width, queries);
    reference_read(&args->head_weights, row * heads, heads, weights);
    for (int64_t h = 0; h < heads; h++) {
        weights[h] *= args->weight_scale;
    }
    reference_round(args->head_weights.dtype, weights, heads);
    for (int64_t j = 0; j < visible; j++) {
        row_decode(&args->keys.layout, state_rows_at_entry(&args->keys, slot, j), key);
        double score = 0.0;
        for (int64_t h = 0; h < heads; h++) {
            double product = reference_dot(queries + h * width, key, width);
            score += product > 0.0 ? product * weights[h] : 0.0;
        }
        scores[j] = (float)score;
    }
}

/* Indices of the `limit` best of `visible` scores, ascending; `heap` holds `limit` candidates. */
static void choose_entries(const float *scores, int64_t visible, int64_t limit, struct candidate *heap,
                           unsigned char *is_chosen) {
    for (int64_t j = 0; j < visible; j++) {
        struct candidate candidate = {scores[j], (int32_t)j};
        is_chosen[j] = 0;
        if (j < limit) {
            heap[j] = candidate;
            if (j == limit - 1) {
                for (int64_t at = limit / 2; at >= 0; at--) {
                    sift_down(heap, limit, at);
                }
            }
        } else if (is_better(candidate, heap[0])) {
            heap[0] = candidate;
            sift_down(heap, limit, 0);
        }
    }
    int64_t kept = visible < limit ? visible : limit;
    for (int64_t i = 0; i < kept; i++) {
        is_chosen[heap[i].index] = 1;
    }
}

/* Bytes of one thread's workspace: floats, then candidates, then flags. */
static size_t select_floats(const struct indexer_select_args *args) {
    int64_t heads = args->queries.shape[1];
    int64_t width = args->queries.shape[2];
    return kernel_float_bytes(heads * width + heads + width + args->keys.rows_per_slot);
}

static size_t select_row_workspace(const struct indexer_select_args *args) {
    size_t bytes = select_floats(args) + (size_t)args->selection.shape[1] * sizeof(struct candidate);
    bytes += (size_t)args->keys.rows_per_slot;
    return kernel_workspace_bytes(bytes);
}

static void select_row(const void *context, int64_t row, void *workspace) {
    const struct indexer_select_args *args = context;
    int64_t limit = args->selection.shape[1];
    int64_t visible = (args->batch->positions[row] + 1) / args->ratio;
    int32_t *selection = (int32_t *)args->selection.data + row * limit;
    float *queries = workspace;
    float *scores = queries + args->queries.shape[1] * (args->queries.shape[2] + 1) + args->queries.shape[2];
    struct candidate *heap = (struct candidate *)(void *)((char *)workspace + select_floats(args));
    unsigned char *is_chosen = (unsigned char *)(heap + limit);
    int64_t slot = args->batch->segment_slot[args->batch->row_segment[row]];
    score_entries(args, row, slot, visible, queries, scores);
    choose_entries(scores, visible, limit, heap, is_chosen);
    int64_t count = 0;
    for (int64_t j = 0; j < visible; j++) {
        if (is_chosen[j]) {
            selection[count++] = (int32_t)j;
        }
    }
    for (; count < limit; count++) {
        selection[count] = -1;
    }
}

static size_t select_workspace(const void *arguments, unsigned thread_count) {
    return thread_count * select_row_workspace(arguments);
}

static enum status run_select(const struct kernel_env *env, const void *arguments) {
    const struct indexer_select_args *args = arguments;
    kernel_for_each_item(env, args->batch->row_count, select_row, args, env->workspace,
                         select_row_workspace(args));
    return STATUS_OK;
}

const struct op_entry indexer_rotate_ideal_reference = {
    .op = OP_INDEXER_ROTATE,
    .name = "indexer_rotate_ideal_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_IDEAL,
    .run = run_rotate_ideal,
    .workspace_bytes = rotate_workspace,
};
const struct op_entry indexer_rotate_native_reference = {
    .op = OP_INDEXER_ROTATE,
    .name = "indexer_rotate_native_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_NATIVE,
    .run = run_rotate_native,
    .workspace_bytes = rotate_workspace,
};
const struct op_entry indexer_select_reference = {
    .op = OP_INDEXER_SELECT,
    .name = "indexer_select_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run_select,
    .workspace_bytes = select_workspace,
};
