/*
 * The forward pass, as calls of operations (spec deepseek-v4 sections 4 and 6).
 *
 * Shapes in comments: T rows of the step, D hidden, S streams, H heads, d head_dim, Q q_rank, G output
 * groups. Activations have the step's type; memory comes from the step arena and is released layer by layer.
 */
#include <math.h>

#include "model/deepseek_v4/deepseek_v4.h"
#include "ops/add_broadcast.h"
#include "ops/commit_rows.h"
#include "ops/compress_entries.h"
#include "ops/compressor_rows.h"
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
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/route_experts.h"
#include "ops/sparse_attention.h"
#include "ops/swiglu.h"
#include "parallel/collectives.h"

/* What the parts of one layer share during a step. */
struct layer_pass {
    const struct deepseek_v4 *model;
    const struct step *step;
    const struct deepseek_v4_layer *layer;
    const struct rope_table *rope;
};

static enum status norm(const struct layer_pass *pass, struct tensor x, const struct weight *weight) {
    return op_rms_norm(
        pass->step->queue,
        &(struct rms_norm_args){
            .out = x, .x = x, .weight = weight, .epsilon = (float)pass->model->config.norm_epsilon});
}

/* A new tensor (rows of x, weight.rows) of type `dtype` = weight x. */
static enum status linear(const struct layer_pass *pass, const struct weight *weight, struct tensor x,
                          enum dtype dtype, struct tensor *out) {
    STEP_TENSOR(pass->step, dtype, out, x.shape[0], weight->rows);
    return op_linear(pass->step->queue, &(struct linear_args){.out = *out, .x = x, .weight = weight});
}

/* The same where ranks may share the columns: `out` (rows, weight.rows) is the whole sum on each of them. */
static enum status linear_sum(const struct layer_pass *pass, const struct weight *weight, struct tensor x,
                              struct tensor *out) {
    struct tensor partial;
    TRY(linear(pass, weight, x, parallel_partial_dtype(pass->step), &partial));
    return parallel_sum(pass->step, partial, out);
}

/* Rotates x, seen as (T, heads, width). */
static enum status rotate(const struct layer_pass *pass, struct tensor x, int64_t heads, bool is_inverse) {
    struct tensor split = {.dtype = x.dtype, .rank = 3, .data = x.data};
    split.shape[0] = x.shape[0];
    split.shape[1] = heads;
    split.shape[2] = tensor_elements(&x) / (x.shape[0] * heads);
    return op_rope(pass->step->queue, &(struct rope_args){.x = split,
                                                          .positions = pass->step->batch->positions,
                                                          .table = pass->rope,
                                                          .is_inverse = is_inverse});
}

/* qr (T, Q): the normed low-rank query, which also feeds the indexer; q (T, H, d) (4.6). */
static enum status make_queries(const struct layer_pass *pass, struct tensor x, struct tensor *qr,
                                struct tensor *q) {
    const struct deepseek_v4_config *config = &pass->model->config;
    int64_t heads = pass->layer->q_up.rows / config->head_dim;
    TRY(linear(pass, &pass->layer->q_down, x, pass->step->activation, qr));
    TRY(norm(pass, *qr, &pass->layer->q_norm));
    TRY(linear(pass, &pass->layer->q_up, *qr, pass->step->activation, q));
    q->rank = 3;
    q->shape[1] = heads;
    q->shape[2] = config->head_dim;
    TRY(norm(pass, *q, NULL));
    return rotate(pass, *q, heads, false);
}

/* Rows of this step as the window ring stores them (4.6); they are committed after attention has read them.
 */
static enum status make_window_rows(const struct layer_pass *pass, struct tensor x, struct chunk_rows *out) {
    const struct state_rows *ring = &pass->step->states[pass->layer->window_state];
    struct tensor kv; /* (T, d) */
    TRY(linear(pass, &pass->layer->kv, x, pass->step->activation, &kv));
    TRY(norm(pass, kv, &pass->layer->kv_norm));
    TRY(rotate(pass, kv, 1, false));
    void *rows;
    TRY(device_arena_alloc(pass->step->queue->arena, (size_t)x.shape[0] * ring->row_bytes, &rows));
    *out = (struct chunk_rows){.rows = rows, .ring = *ring};
    return op_encode_rows(pass->step->queue,
                          &(struct encode_rows_args){.x = kv, .layout = ring->layout, .out = rows});
}

static enum status commit(const struct layer_pass *pass, struct chunk_rows chunk) {
    return op_commit_rows(pass->step->queue,
                          &(struct commit_rows_args){.chunk = chunk, .batch = pass->step->batch});
}

/* Runs a compressor: raw rows of this step, entries of the blocks that they finish, commit (4.9). */
static enum status compress(const struct layer_pass *pass, const struct deepseek_v4_compressor *compressor,
                            struct tensor x, bool is_index) {
    const struct step *step = pass->step;
    struct tensor values;
    struct tensor scores;
    struct tensor raw; /* (T, values and scores) */
    TRY(linear(pass, &compressor->values, x, DTYPE_F32, &values));
    TRY(linear(pass, &compressor->gate, x, DTYPE_F32, &scores));
    STEP_TENSOR(step, DTYPE_F32, &raw, x.shape[0], 2 * compressor->values.rows);
    TRY(op_compressor_rows(step->queue, &(struct compressor_rows_args){.out = raw,
                                                                       .values = values,
                                                                       .scores = scores,
                                                                       .bias = &compressor->bias,
                                                                       .positions = step->batch->positions}));
    struct chunk_rows chunk = {.rows = raw.data, .ring = step->states[compressor->raw_state]};
    TRY(op_compress_entries(step->queue, &(struct compress_entries_args){
                                             .raw = chunk,
                                             .entries = step->states[compressor->entry_state],
                                             .batch = step->batch,
                                             .norm = &compressor->norm,
                                             .rope = pass->rope,
                                             .rounding = step->activation,
                                             .ratio = pass->layer->ratio,
                                             .width = compressor->norm.columns,
                                             .has_overlap = pass->layer->ratio == RATIO_INDEXED,
                                             .has_hadamard = is_index,
                                             .epsilon = (float)pass->model->config.norm_epsilon,
                                         }));
    return commit(pass, chunk);
}

/* selection (T, index_topk): the compressed entries that each row attends to (4.10). */
static enum status select_entries(const struct layer_pass *pass, struct tensor x, struct tensor qr,
                                  struct tensor *selection) {
    const struct deepseek_v4_config *config = &pass->model->config;
    const struct deepseek_v4_indexer *indexer = &pass->layer->indexer;
    const struct step *step = pass->step;
    struct tensor queries; /* (T, index heads, index dim) */
    struct tensor weights; /* (T, index heads) */
    TRY(compress(pass, &indexer->compressor, x, true));
    TRY(linear(pass, &indexer->queries, qr, step->activation, &queries));
    TRY(rotate(pass, queries, config->index_head_count, false));
    queries.rank = 3;
    queries.shape[1] = config->index_head_count;
    queries.shape[2] = config->index_head_dim;
    TRY(op_indexer_rotate(step->queue, &(struct indexer_rotate_args){.x = queries}));
    TRY(linear(pass, &indexer->head_weights, x, step->activation, &weights));
    STEP_TENSOR(step, DTYPE_I32, selection, x.shape[0], config->index_limit);
    double scale = 1.0 / sqrt((double)config->index_head_dim) / sqrt((double)config->index_head_count);
    return op_indexer_select(
        step->queue, &(struct indexer_select_args){.selection = *selection,
                                                   .queries = queries,
                                                   .head_weights = weights,
                                                   .keys = step->states[indexer->compressor.entry_state],
                                                   .batch = step->batch,
                                                   .ratio = pass->layer->ratio,
                                                   .weight_scale = (float)scale});
}

/* o (T, H, d) to out (T, D) through the grouped low-rank projection (4.8). */
static enum status project_output(const struct layer_pass *pass, struct tensor o, struct tensor *out) {
    const struct deepseek_v4_config *config = &pass->model->config;
    int64_t groups = pass->layer->output_down.rows / config->output_rank;
    struct tensor u; /* (T, G, rank) */
    STEP_TENSOR(pass->step, o.dtype, &u, o.shape[0], groups, config->output_rank);
    struct tensor grouped = o;
    grouped.shape[1] = groups;
    grouped.shape[2] = pass->layer->output_down.columns;
    TRY(op_grouped_linear(
        pass->step->queue,
        &(struct grouped_linear_args){.out = u, .x = grouped, .weight = &pass->layer->output_down}));
    struct tensor flat = tensor_reshape(&u, u.shape[0], u.shape[1] * u.shape[2]);
    return linear_sum(pass, &pass->layer->output_up, flat, out);
}

/* Attention of one layer: x (T, D) normed, out (T, D) (4.6 to 4.10). */
static enum status attend(const struct layer_pass *pass, struct tensor x, struct tensor *out) {
    const struct deepseek_v4_config *config = &pass->model->config;
    const struct deepseek_v4_layer *layer = pass->layer;
    const struct step *step = pass->step;
    struct tensor qr;
    struct tensor q;
    struct chunk_rows window_rows;
    struct tensor selection = {.rank = 0};
    struct state_rows entries = {0};
    TRY(make_queries(pass, x, &qr, &q));
    TRY(make_window_rows(pass, x, &window_rows));
    if (layer->ratio != 0) {
        /* Before attention: a token sees the entry that it completes. */
        TRY(compress(pass, &layer->compressor, x, false));
        entries = step->states[layer->compressor.entry_state];
    }
    if (layer->ratio == RATIO_INDEXED) {
        TRY(select_entries(pass, x, qr, &selection));
    }
    TRY(op_sparse_attention(step->queue, &(struct sparse_attention_args){
                                             .out = q,
                                             .queries = q,
                                             .window_rows = window_rows,
                                             .entries = entries,
                                             .selection = selection,
                                             .sink = &layer->sink,
                                             .batch = step->batch,
                                             .window = config->window,
                                             .ratio = layer->ratio,
                                             .scale = (float)(1.0 / sqrt((double)config->head_dim))}));
    TRY(commit(pass, window_rows));
    TRY(rotate(pass, q, q.shape[1], true));
    return project_output(pass, q, out);
}

/* The shared expert: x (T, D) to out (T, D), clamped like the routed ones (4.11). */
static enum status run_shared_expert(const struct layer_pass *pass, struct tensor x, struct tensor *out) {
    const struct deepseek_v4_layer *layer = pass->layer;
    struct tensor gate;
    struct tensor up;
    TRY(linear(pass, &layer->shared_gate, x, x.dtype, &gate));
    TRY(linear(pass, &layer->shared_up, x, x.dtype, &up));
    TRY(op_swiglu(
        pass->step->queue,
        &(struct swiglu_args){
            .out = gate, .gate = gate, .up = up, .clamp = (float)pass->model->config.swiglu_limit}));
    return linear_sum(pass, &layer->shared_down, gate, out);
}

/* Picks experts (T, K) and their weights (4.11). */
static enum status route(const struct layer_pass *pass, struct tensor x, struct tensor *experts,
                         struct tensor *weights) {
    const struct deepseek_v4_config *config = &pass->model->config;
    const struct deepseek_v4_layer *layer = pass->layer;
    struct tensor logits; /* (T, E) */
    TRY(linear(pass, &layer->router, x, DTYPE_F32, &logits));
    STEP_TENSOR(pass->step, DTYPE_I32, experts, x.shape[0], config->expert_picks);
    STEP_TENSOR(pass->step, DTYPE_F32, weights, x.shape[0], config->expert_picks);
    struct route_experts_args args = {.experts = *experts, .weights = *weights, .logits = logits};
    args.score = ROUTE_SCORE_SQRT_SOFTPLUS;
    args.scaling = (float)config->routed_scaling;
    args.token_ids = pass->step->batch->token_ids;
    if (layer->is_hash_routed) {
        const struct weight *table = &layer->expert_table;
        args.table =
            (struct tensor){.dtype = table->dtype, .rank = 2, .data = (void *)(uintptr_t)table->data};
        args.table.shape[0] = table->rows;
        args.table.shape[1] = table->columns;
    } else {
        args.bias = &layer->router_bias;
    }
    return op_route_experts(pass->step->queue, &args);
}

/* The mixture of experts: x (T, D) normed, out (T, D) (4.11). */
static enum status run_experts(const struct layer_pass *pass, struct tensor x, struct tensor *out) {
    const struct deepseek_v4_config *config = &pass->model->config;
    const struct deepseek_v4_layer *layer = pass->layer;
    struct tensor experts;
    struct tensor weights;
    struct tensor routed; /* (T, K, D) */
    TRY(route(pass, x, &experts, &weights));
    STEP_TENSOR(pass->step, x.dtype, &routed, x.shape[0], config->expert_picks, config->hidden_size);
    int64_t first = pass->model->base.first_expert;
    struct expert_weights bank = {.gate = layer->expert_gate + first,
                                  .up = layer->expert_up + first,
                                  .down = layer->expert_down + first,
                                  .count = pass->model->base.held_experts,
                                  .first = first};
    TRY(parallel_moe_experts(pass->step,
                             &(struct moe_experts_args){.out = routed,
                                                        .x = x,
                                                        .experts = experts,
                                                        .weights = weights,
                                                        .bank = &bank,
                                                        .clamp = (float)config->swiglu_limit},
                             config->expert_count));
    TRY(run_shared_expert(pass, x, out));
    return op_moe_combine(pass->step->queue,
                          &(struct moe_combine_args){.out = *out, .routed = routed, .shared = *out});
}

/* What goes into a sublayer, and what its result is written back with (4.1). */
struct sublayer_input {
    struct tensor x;    /* (T, D) normed */
    struct tensor post; /* (T, S) */
    struct tensor comb; /* (T, S, S) */
};

static enum status enter_sublayer(const struct layer_pass *pass, struct tensor streams,
                                  const struct deepseek_v4_mix *mix, const struct weight *norm_weight,
                                  struct sublayer_input *out) {
    const struct deepseek_v4_config *config = &pass->model->config;
    const struct step *step = pass->step;
    int64_t rows = streams.shape[0];
    STEP_TENSOR(step, streams.dtype, &out->x, rows, config->hidden_size);
    STEP_TENSOR(step, DTYPE_F32, &out->post, rows, config->stream_count);
    STEP_TENSOR(step, DTYPE_F32, &out->comb, rows, config->stream_count, config->stream_count);
    TRY(op_hyper_connection_pre(step->queue, &(struct hyper_connection_pre_args){
                                                 .out = out->x,
                                                 .post = out->post,
                                                 .comb = out->comb,
                                                 .streams = streams,
                                                 .mix = &mix->mix,
                                                 .base = &mix->base,
                                                 .scale = &mix->scale,
                                                 .sinkhorn_iterations = (int)config->sinkhorn_iterations,
                                                 .gate_epsilon = (float)config->hyper_epsilon,
                                                 .norm_epsilon = (float)config->norm_epsilon,
                                             }));
    return norm(pass, out->x, norm_weight);
}

/* One sublayer around its hyper-connection, in place on the streams (T, S, D) (4.1). */
static enum status run_sublayer(const struct layer_pass *pass, struct tensor streams,
                                const struct deepseek_v4_mix *mix, const struct weight *norm_weight,
                                enum status (*sublayer)(const struct layer_pass *, struct tensor,
                                                        struct tensor *)) {
    struct op_queue *queue = pass->step->queue;
    size_t mark = device_arena_mark(queue->arena);
    struct sublayer_input input;
    struct tensor branch;
    TRY(enter_sublayer(pass, streams, mix, norm_weight, &input));
    TRY(sublayer(pass, input.x, &branch));
    TRY(op_hyper_connection_post(
        queue, &(struct hyper_connection_post_args){
                   .streams = streams, .branch = branch, .post = input.post, .comb = input.comb}));
    device_arena_release(queue->arena, mark);
    return STATUS_OK;
}

static enum status run_layer(const struct layer_pass *pass, struct tensor streams) {
    const struct deepseek_v4_layer *layer = pass->layer;
    TRY(run_sublayer(pass, streams, &layer->attention_mix, &layer->attention_norm, attend));
    return run_sublayer(pass, streams, &layer->ffn_mix, &layer->ffn_norm, run_experts);
}

enum status deepseek_v4_forward_embed(const struct model *base, const struct step *step,
                                      struct boundary *boundary) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    return op_embedding(step->queue, &(struct embedding_args){.out = boundary->tensors[0],
                                                              .table = &model->embedding,
                                                              .ids = step->batch->token_ids});
}

enum status deepseek_v4_forward_layers(const struct model *base, const struct step *step,
                                       struct boundary *boundary, int first, int end) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    for (int l = first; l < end; l++) {
        const struct deepseek_v4_layer *layer = &model->layers[l];
        struct layer_pass pass = {.model = model, .step = step, .layer = layer};
        pass.rope = layer->ratio == 0 ? &model->plain_rope : &model->compress_rope;
        TRY(run_layer(&pass, boundary->tensors[0]));
    }
    return STATUS_OK;
}

/* logits (n, V) of rows `rows` of streams (.., S, D) by a head's own mix and norm and the shared matrix
 * (4.4). */
static enum status run_head(const struct deepseek_v4 *model, const struct step *step, struct tensor streams,
                            const int32_t *rows, const struct deepseek_v4_mix *mix,
                            const struct weight *norm_weight, struct tensor *logits) {
    struct layer_pass pass = {.model = model, .step = step};
    struct tensor y; /* (n, D) */
    STEP_TENSOR(step, streams.dtype, &y, logits->shape[0], model->config.hidden_size);
    TRY(op_hyper_connection_head(step->queue, &(struct hyper_connection_head_args){
                                                  .out = y,
                                                  .streams = streams,
                                                  .rows = rows,
                                                  .mix = &mix->mix,
                                                  .base = &mix->base,
                                                  .scale = &mix->scale,
                                                  .gate_epsilon = (float)model->config.hyper_epsilon,
                                                  .norm_epsilon = (float)model->config.norm_epsilon,
                                              }));
    TRY(norm(&pass, y, norm_weight));
    return op_linear(step->queue, &(struct linear_args){.out = *logits, .x = y, .weight = &model->head});
}

enum status deepseek_v4_forward_head(const struct model *base, const struct step *step,
                                     const struct boundary *boundary, const int32_t *rows,
                                     struct tensor *logits) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    return run_head(model, step, boundary->tensors[0], rows, &model->head_mix, &model->norm, logits);
}

static struct layer_pass draft_pass(const struct deepseek_v4 *model, const struct step *step) {
    return (struct layer_pass){
        .model = model, .step = step, .layer = &model->draft.layer, .rope = &model->plain_rope};
}

/* The draft layer's input streams y (T, S, D): of rows in_rows of the streams and of the next tokens (6.1).
 */
static enum status make_draft_streams(const struct layer_pass *pass, const struct boundary *in,
                                      const int32_t *in_rows, struct tensor y) {
    const struct deepseek_v4 *model = pass->model;
    const struct deepseek_v4_draft *draft = &model->draft;
    const struct step *step = pass->step;
    int64_t rows = y.shape[0];
    int64_t hidden = model->config.hidden_size;
    struct tensor embedded; /* (T, 1, D) */
    struct tensor normed;   /* (T, S, D) */
    struct tensor projected;
    STEP_TENSOR(step, step->activation, &embedded, rows, 1, hidden);
    TRY(op_embedding(step->queue, &(struct embedding_args){.out = embedded,
                                                           .table = &model->embedding,
                                                           .ids = step->batch->token_ids}));
    TRY(norm(pass, embedded, &draft->embedding_norm));
    TRY(linear(pass, &draft->embedding_projection, tensor_reshape(&embedded, rows, hidden), step->activation,
               &projected));
    STEP_TENSOR(step, step->activation, &normed, rows, model->config.stream_count, hidden);
    TRY(op_rms_norm(step->queue, &(struct rms_norm_args){.out = normed,
                                                         .x = in->tensors[0],
                                                         .rows = in_rows,
                                                         .weight = &draft->hidden_norm,
                                                         .epsilon = (float)model->config.norm_epsilon}));
    TRY(op_linear(step->queue, &(struct linear_args){.out = tensor_as_matrix(&y),
                                                     .x = tensor_as_matrix(&normed),
                                                     .weight = &draft->hidden_projection}));
    return op_add_broadcast(step->queue, &(struct add_broadcast_args){.out = y, .a = projected, .b = y});
}

enum status deepseek_v4_forward_draft(const struct model *base, const struct step *step,
                                      const struct boundary *in, const int32_t *in_rows,
                                      struct boundary *out) {
    struct layer_pass pass = draft_pass(deepseek_v4_of(base), step);
    size_t mark = device_arena_mark(step->queue->arena);
    TRY(make_draft_streams(&pass, in, in_rows, out->tensors[0]));
    device_arena_release(step->queue->arena, mark);
    return run_layer(&pass, out->tensors[0]);
}

enum status deepseek_v4_forward_draft_state(const struct model *base, const struct step *step,
                                            const struct boundary *in, const int32_t *in_rows) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    const struct deepseek_v4_layer *layer = &model->draft.layer;
    struct layer_pass pass = draft_pass(model, step);
    struct tensor y; /* (T, S, D) */
    struct sublayer_input input;
    struct chunk_rows window_rows;
    STEP_TENSOR(step, step->activation, &y, step->batch->row_count, model->config.stream_count,
                model->config.hidden_size);
    size_t mark = device_arena_mark(step->queue->arena);
    TRY(make_draft_streams(&pass, in, in_rows, y));
    device_arena_release(step->queue->arena, mark);
    TRY(enter_sublayer(&pass, y, &layer->attention_mix, &layer->attention_norm, &input));
    TRY(make_window_rows(&pass, input.x, &window_rows));
    return commit(&pass, window_rows);
}

enum status deepseek_v4_forward_draft_head(const struct model *base, const struct step *step,
                                           const struct boundary *boundary, const int32_t *rows,
                                           struct tensor *logits) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    return run_head(model, step, boundary->tensors[0], rows, &model->draft.head_mix, &model->draft.norm,
                    logits);
}
