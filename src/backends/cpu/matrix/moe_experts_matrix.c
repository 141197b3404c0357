/*
 * Routed experts. (row, slot) pairs are sorted by expert; a block of gate rows and the same block of up rows
 * are multiplied with the expert's rows and become gated inner values; these are packed per pair; then blocks
 * of down rows.
 */
#include <string.h>

#include "backends/cpu/lanes/row_blocks_lanes.h"
#include "backends/cpu/matrix/matrix_kernel.h"
#include "backends/cpu/matrix/moe_pairs.h"
#include "ops/kernel_items.h"

struct moe_run {
    const struct matrix_kernel *kernel;
    const struct moe_experts_args *args;
    struct leaf_plan gate_leaves;
    struct leaf_plan down_leaves;
    bool rounds;
    struct moe_pairs pairs;
    char *packed;       /* (pairs in expert order, packed width): inputs of gate and up */
    char *inner;        /* (pairs in expert order, inner width): gated values of the activations' type */
    char *inner_packed; /* (pairs in expert order, packed inner width) */
    char *scratch;      /* per thread */
};

static int64_t width_of(const struct moe_experts_args *args) {
    return args->x.shape[1];
}

static int64_t inner_width_of(const struct moe_experts_args *args) {
    return args->bank->gate->rows;
}

static int64_t pair_count_of(const struct moe_experts_args *args) {
    return args->x.shape[0] * args->experts.shape[1];
}

/* Packs a row and copies it to each of its picks, so that an expert's inputs lie side by side. */
static void pack_row(const void *context, int64_t row, void *workspace) {
    (void)workspace;
    const struct moe_run *run = context;
    const struct tensor *x = &run->args->x;
    const struct weight *gate = run->args->bank->gate;
    int64_t width = width_of(run->args);
    int64_t picks = run->args->experts.shape[1];
    const int32_t *places = run->pairs.places + row * picks;
    const char *from = (const char *)x->data + (size_t)(row * width) * dtype_bytes(x->dtype);
    size_t bytes = run->kernel->packed_bytes(width);
    char *packed = NULL;
    for (int64_t k = 0; k < picks; k++) {
        char *to = run->packed + (size_t)(places[k] < 0 ? 0 : places[k]) * bytes;
        if (places[k] >= 0 && packed == NULL) {
            run->kernel->pack(gate, run->rounds && gate->format != WEIGHT_PLAIN, x->dtype, from, to);
            packed = to;
        } else if (places[k] >= 0) {
            memcpy(to, packed, bytes);
        }
    }
}

/* One active expert and one block of its inner rows; gate values wait here until the up values come. */
struct gate_block {
    const struct moe_run *run;
    int64_t first_place; /* of the expert's pairs */
    int64_t first_row;
    float *gates; /* (pairs of the expert, MATRIX_BLOCK_ROWS) */
};

static float *gates_at(const struct gate_block *block, int64_t input, int64_t row) {
    return block->gates + input * MATRIX_BLOCK_ROWS + (row - block->first_row);
}

static void keep_gates(const void *context, int64_t input, int64_t first_row, int64_t row_count,
                       const float *values) {
    memcpy(gates_at(context, input, first_row), values, (size_t)row_count * sizeof *values);
}

static void gate_up(const void *context, int64_t input, int64_t first_row, int64_t row_count,
                    const float *values) {
    const struct gate_block *block = context;
    const struct moe_run *run = block->run;
    int64_t place = block->first_place + input;
    int64_t pair = run->pairs.pairs[place];
    enum dtype dtype = run->args->x.dtype;
    size_t element = (size_t)(place * inner_width_of(run->args) + first_row);
    run->kernel->gate(gates_at(block, input, first_row), values, row_count, run->args->clamp,
                      ((const float *)run->args->weights.data)[pair], dtype,
                      run->inner + element * dtype_bytes(dtype));
}

static void run_gate_block(const void *context, int64_t item, void *workspace) {
    const struct moe_run *run = context;
    const struct expert_weights *bank = run->args->bank;
    int64_t inner_width = inner_width_of(run->args);
    int64_t slot = item / matrix_block_count(inner_width);
    int64_t block_index = item % matrix_block_count(inner_width);
    int64_t rows = matrix_block_rows(inner_width, block_index);
    int64_t expert = run->pairs.active[slot];
    int64_t first_pair = run->pairs.first[slot];
    int64_t count = run->pairs.first[slot + 1] - first_pair;
    const char *inputs = run->packed + (size_t)first_pair * run->kernel->packed_bytes(width_of(run->args));
    struct gate_block block = {.run = run, .first_place = first_pair};
    block.first_row = block_index * MATRIX_BLOCK_ROWS;
    block.gates = (float *)(void *)((char *)workspace + run->kernel->scratch_bytes(width_of(run->args)));
    run->kernel->multiply(&bank->gate[expert], &run->gate_leaves, block.first_row, rows, inputs, count,
                          workspace, &(struct matrix_sink){keep_gates, &block});
    run->kernel->multiply(&bank->up[expert], &run->gate_leaves, block.first_row, rows, inputs, count,
                          workspace, &(struct matrix_sink){gate_up, &block});
}

static void pack_inner(const void *context, int64_t place, void *workspace) {
    (void)workspace;
    const struct moe_run *run = context;
    const struct weight *down = run->args->bank->down;
    enum dtype dtype = run->args->x.dtype;
    int64_t inner_width = inner_width_of(run->args);
    run->kernel->pack(down, run->rounds && down->format != WEIGHT_PLAIN, dtype,
                      run->inner + (size_t)(place * inner_width) * dtype_bytes(dtype),
                      run->inner_packed + (size_t)place * run->kernel->packed_bytes(inner_width));
}

struct down_block {
    const struct moe_run *run;
    const int32_t *pairs; /* of the expert */
};

static void store_down(const void *context, int64_t input, int64_t first_row, int64_t row_count,
                       const float *values) {
    const struct down_block *block = context;
    const struct tensor *out = &block->run->args->out;
    int64_t index = block->pairs[input] * out->shape[2] + first_row;
    block->run->kernel->store(out->dtype, out->data, index, row_count, values);
}

/* Item: one active expert, one block of its output rows. */
static void run_down_block(const void *context, int64_t item, void *workspace) {
    const struct moe_run *run = context;
    int64_t width = run->args->out.shape[2];
    int64_t slot = item / matrix_block_count(width);
    int64_t block_index = item % matrix_block_count(width);
    int64_t first_pair = run->pairs.first[slot];
    struct down_block block = {run, run->pairs.pairs + first_pair};
    run->kernel->multiply(
        &run->args->bank->down[run->pairs.active[slot]], &run->down_leaves, block_index * MATRIX_BLOCK_ROWS,
        matrix_block_rows(width, block_index),
        run->inner_packed + (size_t)first_pair * run->kernel->packed_bytes(inner_width_of(run->args)),
        run->pairs.first[slot + 1] - first_pair, workspace, &(struct matrix_sink){store_down, &block});
}

/* One thread's scratch: a block, and the gate values of all pairs at worst. */
static size_t thread_bytes(const struct matrix_kernel *kernel, const struct moe_experts_args *args) {
    size_t gate = kernel->scratch_bytes(width_of(args));
    size_t down = kernel->scratch_bytes(inner_width_of(args));
    gate += kernel_workspace_bytes((size_t)(pair_count_of(args) * MATRIX_BLOCK_ROWS) * sizeof(float));
    return gate > down ? gate : down;
}

/* Cuts the workspace into the run's parts; with `run` NULL only adds up its bytes, threads excluded. */
static size_t lay_out(const struct matrix_kernel *kernel, const struct moe_experts_args *args, char *memory,
                      struct moe_run *run) {
    size_t pairs = (size_t)pair_count_of(args);
    size_t offset = moe_pairs_bytes(args);
    size_t packed = offset;
    offset += pairs * kernel->packed_bytes(width_of(args));
    size_t inner = offset;
    offset += kernel_workspace_bytes(pairs * (size_t)inner_width_of(args) * dtype_bytes(args->x.dtype));
    size_t inner_packed = offset;
    offset += pairs * kernel->packed_bytes(inner_width_of(args));
    if (run != NULL) {
        run->packed = memory + packed;
        run->inner = memory + inner;
        run->inner_packed = memory + inner_packed;
        run->scratch = memory + offset;
    }
    return offset;
}

size_t matrix_moe_experts_workspace(const struct matrix_kernel *kernel, const struct moe_experts_args *args,
                                    unsigned thread_count) {
    return lay_out(kernel, args, NULL, NULL) + thread_count * thread_bytes(kernel, args);
}

enum status matrix_moe_experts_run(const struct matrix_kernel *kernel, bool rounds,
                                   const struct kernel_env *env, const struct moe_experts_args *args) {
    struct moe_run run = {.kernel = kernel, .args = args, .rounds = rounds};
    run.gate_leaves = matrix_leaves(args->bank->gate);
    run.down_leaves = matrix_leaves(args->bank->down);
    run.pairs = moe_pairs_sort(args, env->workspace);
    lay_out(kernel, args, env->workspace, &run);
    /* Those of experts in the bank. */
    int64_t pairs = run.pairs.first[run.pairs.active_count];
    lanes_for_each_row(env, args->x.shape[0], MATRIX_PACK_BYTES * width_of(args), pack_row, &run, NULL, 0);
    kernel_for_each_item(env, run.pairs.active_count * matrix_block_count(inner_width_of(args)),
                         run_gate_block, &run, run.scratch, thread_bytes(kernel, args));
    lanes_for_each_row(env, pairs, MATRIX_PACK_BYTES * inner_width_of(args), pack_inner, &run, NULL, 0);
    kernel_for_each_item(env, run.pairs.active_count * matrix_block_count(args->out.shape[2]), run_down_block,
                         &run, run.scratch, thread_bytes(kernel, args));
    return STATUS_OK;
}
