/*
 * The forward pass, as calls of operations (spec deepseek-v4 sections 4 and 6).
 *
 * Shapes in comments: T rows of the step, t rows that are this rank's own between attentions, D hidden, S
 * streams, H heads, d head_dim, Q q_rank, G output groups. Activations have the step's type; memory comes
 * from the step arena and is released layer by layer.
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
#include "parallel/expert_trip.h"

/* What the parts of one layer share during a step. */
struct layer_pass {
    const struct deepseek_v4 *model;
    const struct step *step;
    const struct deepseek_v4_layer *layer;
    const struct rope_table *rope;
    int number; /* of the layer; the draft layer comes behind the others */
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

/* The same where ranks may share the columns: `out` (t, weight.rows) is the whole sum. */
static enum status linear_sum(const struct layer_pass *pass, const struct weight *weight,
                              const struct placed_rows *x, struct placed_rows *out) {
    struct tensor y;
    struct placed_rows product;
    TRY(linear(pass, weight, x->tensor, parallel_product_dtype(pass->step, weight), &y));
    TRY(parallel_tag_product(pass->step, weight, x, y, &product));
    return parallel_sum_rows(pass->step, &product, out);
}

/*
 * A first projection of attention: of the rows that x has, then of all. y: as x, normed if there is a norm;
 * all: (T, weight.rows).
 */
static enum status project(const struct layer_pass *pass, const struct weight *weight,
                           const struct weight *norm_weight, const struct placed_rows *x,
                           struct placed_rows *y, struct tensor *all) {
    struct tensor product;
    TRY(linear(pass, weight, x->tensor, pass->step->activation, &product));
    TRY(norm(pass, product, norm_weight));
    *y = placed_rows_like(x, product);
    return parallel_complete_rows(pass->step, y, all);
}

/* Rotates x, seen as (batch rows, heads, width). */
static enum status rotate(const struct layer_pass *pass, struct tensor x, int64_t heads,
                          const struct batch_view *batch, bool is_inverse) {
    struct tensor split = {.dtype = x.dtype, .rank = 3, .data = x.data};
    split.shape[0] = x.shape[0];
    split.shape[1] = heads;
    split.shape[2] = tensor_row_elements(&x) / heads;
    return op_rope(pass->step->queue, &(struct rope_args){.x = split,
                                                          .positions = batch->positions,
                                                          .table = pass->rope,
                                                          .is_inverse = is_inverse});
}

/* qr (.., Q), rows as x: the normed low-rank query, which also feeds the indexer; q (T, H, d) (4.6). */
static enum status make_queries(const struct layer_pass *pass, const struct placed_rows *x,
                                struct placed_rows *qr, struct tensor *q) {
    const struct deepseek_v4_config *config = &pass->model->config;
    int64_t heads = pass->layer->q_up.rows / config->head_dim;
    struct tensor all_qr;
    TRY(project(pass, &pass->layer->q_down, &pass->layer->q_norm, x, qr, &all_qr));
    TRY(linear(pass, &pass->layer->q_up, all_qr, pass->step->activation, q));
    q->rank = 3;
    q->shape[1] = heads;
    q->shape[2] = config->head_dim;
    TRY(norm(pass, *q, NULL));
    return rotate(pass, *q, heads, pass->step->batch, false);
}

/* Rows of this step as the window ring stores them (4.6); they are committed after attention has read them.
 */
static enum status make_window_rows(const struct layer_pass *pass, const struct placed_rows *x,
                                    struct chunk_rows *out) {
    const struct state_rows *ring = &pass->step->states[pass->layer->window_state];
    struct placed_rows own_kv;
    struct tensor kv; /* (T, d) */
    TRY(project(pass, &pass->layer->kv, &pass->layer->kv_norm, x, &own_kv, &kv));
    TRY(rotate(pass, kv, 1, pass->step->batch, false));
    void *rows;
    TRY(device_arena_alloc(pass->step->queue->arena, (size_t)kv.shape[0] * ring->row_bytes, &rows));
    *out = (struct chunk_rows){.rows = rows, .ring = *ring};
    return op_encode_rows(pass->step->queue,
                          &(struct encode_rows_args){.x = kv, .layout = ring->layout, .out = rows});
}

static enum status commit(const struct layer_pass *pass, struct chunk_rows chunk) {
    return op_commit_rows(pass->step->queue,
                          &(struct commit_rows_args){.chunk = chunk, .batch = pass->step->batch});
}

/* A compressor's projection in fp32: of the rows that x has, then of all (T, weight.rows). */
static enum status project_raw(const struct layer_pass *pass, const struct weight *weight,
                               const struct placed_rows *x, struct tensor *all) {
    struct tensor product;
    TRY(linear(pass, weight, x->tensor, DTYPE_F32, &product));
    struct placed_rows y = placed_rows_like(x, product);
    return parallel_complete_rows(pass->step, &y, all);
}

/* Runs a compressor: raw rows of this step, entries of the blocks that they finish, commit (4.9). */
static enum status compress(const struct layer_pass *pass, const struct deepseek_v4_compressor *compressor,
                            const struct placed_rows *x, bool is_index) {
    const struct step *step = pass->step;
    struct tensor values;
    struct tensor scores;
    struct tensor raw; /* (T, values and scores) */
    TRY(project_raw(pass, &compressor->values, x, &values));
    TRY(project_raw(pass, &compressor->gate, x, &scores));
    STEP_TENSOR(step, DTYPE_F32, &raw, values.shape[0], 2 * compressor->values.rows);
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

/* Scores of own rows: selection (t, index_topk) from x (t, D) and qr (t, Q). */
static enum status select_own(const struct layer_pass *pass, struct tensor x, struct tensor qr,
                              struct tensor *selection) {
    const struct deepseek_v4_config *config = &pass->model->config;
    const struct deepseek_v4_indexer *indexer = &pass->layer->indexer;
    const struct step *step = pass->step;
    struct batch_view batch = parallel_own_batch(step);
    struct tensor queries; /* (t, index heads, index dim) */
    struct tensor weights; /* (t, index heads) */
    TRY(linear(pass, &indexer->queries, qr, step->activation, &queries));
    TRY(rotate(pass, queries, config->index_head_count, &batch, false));
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
                                                   .batch = &batch,
                                                   .ratio = pass->layer->ratio,
                                                   .weight_scale = (float)scale});
}

/* selection (T, index_topk): the compressed entries that each row attends to (4.10). */
static enum status select_entries(const struct layer_pass *pass, const struct placed_rows *x,
                                  const struct placed_rows *qr, struct tensor *selection) {
    struct placed_rows own_x;
    struct placed_rows own_qr;
    struct tensor of_own;
    TRY(compress(pass, &pass->layer->indexer.compressor, x, true));
    TRY(parallel_reduce_to_own(pass->step, x, &own_x));
    TRY(parallel_reduce_to_own(pass->step, qr, &own_qr));
    TRY(select_own(pass, own_x.tensor, own_qr.tensor, &of_own));
    struct placed_rows selected = placed_rows_like(&own_x, of_own);
    return parallel_complete_rows(pass->step, &selected, selection);
}

/* o (T, H, d) to out (t, D) through the grouped low-rank projection (4.8). */
static enum status project_output(const struct layer_pass *pass, struct tensor o, struct placed_rows *out) {
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
    struct placed_rows flat = {.tensor = tensor_reshape(&u, u.shape[0], u.shape[1] * u.shape[2]),
                               .layout = ROWS_FULL};
    return linear_sum(pass, &pass->layer->output_up, &flat, out);
}

/* Attention of one layer: x (t, D) normed, out (t, D) (4.6 to 4.10). */
static enum status attend(const struct layer_pass *pass, const struct placed_rows *x,
                          struct placed_rows *out) {
    const struct deepseek_v4_config *config = &pass->model->config;
    const struct deepseek_v4_layer *layer = pass->layer;
    const struct step *step = pass->step;
    struct placed_rows rows;
    struct placed_rows qr;
    struct tensor q;
    struct chunk_rows window_rows;
    struct tensor selection = {.rank = 0};
    struct state_rows entries = {0};
    TRY(parallel_rows_for_attention(step, pass->number, x, &rows));
    TRY(make_queries(pass, &rows, &qr, &q));
    TRY(make_window_rows(pass, &rows, &window_rows));
    if (layer->ratio != 0) {
        /* Before attention: a token sees the entry that it completes. */
        TRY(compress(pass, &layer->compressor, &rows, false));
        entries = step->states[layer->compressor.entry_state];
    }
    if (layer->ratio == RATIO_INDEXED) {
        TRY(select_entries(pass, &rows, &qr, &selection));
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
    TRY(rotate(pass, q, q.shape[1], step->batch, true));
    return project_output(pass, q, out);
}

/* The first half of the shared expert: x (t, D) to what its last product takes (4.11). */
static enum status gate_shared_expert(const struct layer_pass *pass, const struct placed_rows *x,
                                      struct placed_rows *out) {
    const struct deepseek_v4_layer *layer = pass->layer;
    struct placed_rows rows;
    struct tensor gate;
    struct tensor up;
    TRY(parallel_rows_for_product(pass->step, &layer->shared_down, x, &rows));
    TRY(linear(pass, &layer->shared_gate, rows.tensor, x->tensor.dtype, &gate));
    TRY(linear(pass, &layer->shared_up, rows.tensor, x->tensor.dtype, &up));
    TRY(op_swiglu(
        pass->step->queue,
        &(struct swiglu_args){
            .out = gate, .gate = gate, .up = up, .clamp = (float)pass->model->config.swiglu_limit}));
    *out = placed_rows_like(&rows, gate);
    return STATUS_OK;
}

/* Picks experts (t, K) and their weights for x (t, D) (4.11). */
static enum status route(const struct layer_pass *pass, struct tensor x, struct tensor *experts,
                         struct tensor *weights) {
    const struct deepseek_v4_config *config = &pass->model->config;
    const struct deepseek_v4_layer *layer = pass->layer;
    struct batch_view batch = parallel_own_batch(pass->step);
    struct tensor logits; /* (t, E) */
    TRY(linear(pass, &layer->router, x, DTYPE_F32, &logits));
    STEP_TENSOR(pass->step, DTYPE_I32, experts, x.shape[0], config->expert_picks);
    STEP_TENSOR(pass->step, DTYPE_F32, weights, x.shape[0], config->expert_picks);
    struct route_experts_args args = {.experts = *experts, .weights = *weights, .logits = logits};
    args.score = ROUTE_SCORE_SQRT_SOFTPLUS;
    args.scaling = (float)config->routed_scaling;
    args.token_ids = batch.token_ids;
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

/*
 * The mixture of experts: x (t, D) normed, out (t, D) (4.11). The shared expert is computed while rows and
 * results of the others are under way.
 */
static enum status run_experts(const struct layer_pass *pass, const struct placed_rows *x,
                               struct placed_rows *out) {
    const struct deepseek_v4_config *config = &pass->model->config;
    const struct deepseek_v4_layer *layer = pass->layer;
    struct tensor experts;
    struct tensor weights;
    struct tensor routed; /* (t, K, D) */
    TRY(route(pass, x->tensor, &experts, &weights));
    STEP_TENSOR(pass->step, x->tensor.dtype, &routed, x->tensor.shape[0], config->expert_picks,
                config->hidden_size);
    int64_t first = pass->model->base.first_expert;
    struct expert_weights bank = {.gate = layer->expert_gate + first,
                                  .up = layer->expert_up + first,
                                  .down = layer->expert_down + first,
                                  .count = pass->model->base.held_experts,
                                  .first = first};
    struct expert_trip trip;
    struct placed_rows hidden;
    TRY(parallel_send_to_experts(
        pass->step, x,
        &(struct moe_experts_args){.out = routed,
                                   .x = x->tensor,
                                   .experts = experts,
                                   .weights = weights,
                                   .bank = &bank,
                                   .clamp = (float)config->swiglu_limit},
        &(struct layer_experts){.layer = pass->number, .count = config->expert_count}, &trip));
    TRY(gate_shared_expert(pass, x, &hidden));
    TRY(parallel_run_experts(&trip));
    TRY(linear_sum(pass, &layer->shared_down, &hidden, out));
    TRY(parallel_take_results(&trip));
    return op_moe_combine(
        pass->step->queue,
        &(struct moe_combine_args){.out = out->tensor, .routed = routed, .shared = out->tensor});
}

/* What goes into a sublayer, and what its result is written back with (4.1). */
struct sublayer_input {
    struct placed_rows x; /* (t, D) normed */
    struct tensor post;   /* (t, S) */
    struct tensor comb;   /* (t, S, S) */
};

static enum status enter_sublayer(const struct layer_pass *pass, const struct placed_rows *streams,
                                  const struct deepseek_v4_mix *mix, const struct weight *norm_weight,
                                  struct sublayer_input *out) {
    const struct deepseek_v4_config *config = &pass->model->config;
    const struct step *step = pass->step;
    int64_t rows = streams->tensor.shape[0];
    TRY(parallel_expect_own(step, streams, "streams of a layer"));
    out->x = *streams;
    STEP_TENSOR(step, streams->tensor.dtype, &out->x.tensor, rows, config->hidden_size);
    STEP_TENSOR(step, DTYPE_F32, &out->post, rows, config->stream_count);
    STEP_TENSOR(step, DTYPE_F32, &out->comb, rows, config->stream_count, config->stream_count);
    TRY(op_hyper_connection_pre(step->queue, &(struct hyper_connection_pre_args){
                                                 .out = out->x.tensor,
                                                 .post = out->post,
                                                 .comb = out->comb,
                                                 .streams = streams->tensor,
                                                 .mix = &mix->mix,
                                                 .base = &mix->base,
                                                 .scale = &mix->scale,
                                                 .sinkhorn_iterations = (int)config->sinkhorn_iterations,
                                                 .gate_epsilon = (float)config->hyper_epsilon,
                                                 .norm_epsilon = (float)config->norm_epsilon,
                                             }));
    return norm(pass, out->x.tensor, norm_weight);
}

/* One sublayer around its hyper-connection, in place on the streams (t, S, D) (4.1). */
static enum status run_sublayer(const struct layer_pass *pass, const struct placed_rows *streams,
                                const struct deepseek_v4_mix *mix, const struct weight *norm_weight,
                                enum status (*sublayer)(const struct layer_pass *, const struct placed_rows *,
                                                        struct placed_rows *)) {
    struct op_queue *queue = pass->step->queue;
    size_t mark = device_arena_mark(queue->arena);
    struct sublayer_input input;
    struct placed_rows branch;
    TRY(enter_sublayer(pass, streams, mix, norm_weight, &input));
    TRY(sublayer(pass, &input.x, &branch));
    TRY(parallel_expect_own(pass->step, &branch, "a sublayer's result"));
    TRY(op_hyper_connection_post(queue, &(struct hyper_connection_post_args){.streams = streams->tensor,
                                                                             .branch = branch.tensor,
                                                                             .post = input.post,
                                                                             .comb = input.comb}));
    device_arena_release(queue->arena, mark);
    return STATUS_OK;
}

static enum status run_layer(const struct layer_pass *pass, const struct placed_rows *streams) {
    const struct deepseek_v4_layer *layer = pass->layer;
    TRY(run_sublayer(pass, streams, &layer->attention_mix, &layer->attention_norm, attend));
    return run_sublayer(pass, streams, &layer->ffn_mix, &layer->ffn_norm, run_experts);
}

/* The streams (t, S, D) that a boundary carries. */
static struct placed_rows streams_of(const struct boundary *boundary) {
    return (struct placed_rows){
        .tensor = boundary->tensors[0], .layout = boundary->layout, .shares = boundary->shares};
}

enum status deepseek_v4_forward_embed(const struct model *base, const struct step *step,
                                      struct boundary *boundary) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    struct batch_view batch = parallel_own_batch(step);
    struct placed_rows streams = streams_of(boundary);
    TRY(parallel_expect_own(step, &streams, "streams of the first layer"));
    return op_embedding(
        step->queue,
        &(struct embedding_args){.out = streams.tensor, .table = &model->embedding, .ids = batch.token_ids});
}

enum status deepseek_v4_forward_layers(const struct model *base, const struct step *step,
                                       struct boundary *boundary, int first, int end) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    struct placed_rows streams = streams_of(boundary);
    for (int l = first; l < end; l++) {
        const struct deepseek_v4_layer *layer = &model->layers[l];
        struct layer_pass pass = {.model = model, .step = step, .layer = layer, .number = l};
        pass.rope = layer->ratio == 0 ? &model->plain_rope : &model->compress_rope;
        TRY(run_layer(&pass, &streams));
    }
    return STATUS_OK;
}

/* logits (n, V) of picked rows of streams (.., S, D) by a head's own mix and norm and the shared matrix
 * (4.4). */
static enum status run_head(const struct deepseek_v4 *model, const struct step *step, struct tensor streams,
                            const struct picked_rows *picked, const struct deepseek_v4_mix *mix,
                            const struct weight *norm_weight, struct tensor *logits) {
    struct layer_pass pass = {.model = model, .step = step};
    struct tensor y;   /* (own ones of n, D) */
    struct tensor all; /* (n, D) */
    STEP_TENSOR(step, streams.dtype, &y, picked->own_count, model->config.hidden_size);
    TRY(op_hyper_connection_head(step->queue, &(struct hyper_connection_head_args){
                                                  .out = y,
                                                  .streams = streams,
                                                  .rows = picked->rows,
                                                  .mix = &mix->mix,
                                                  .base = &mix->base,
                                                  .scale = &mix->scale,
                                                  .gate_epsilon = (float)model->config.hyper_epsilon,
                                                  .norm_epsilon = (float)model->config.norm_epsilon,
                                              }));
    TRY(norm(&pass, y, norm_weight));
    TRY(parallel_gather_picked(step, picked, y, &all));
    return op_linear(step->queue, &(struct linear_args){.out = *logits, .x = all, .weight = &model->head});
}

enum status deepseek_v4_forward_head(const struct model *base, const struct step *step,
                                     const struct boundary *boundary, const struct picked_rows *picked,
                                     struct tensor *logits) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    return run_head(model, step, boundary->tensors[0], picked, &model->head_mix, &model->norm, logits);
}

static struct layer_pass draft_pass(const struct deepseek_v4 *model, const struct step *step) {
    return (struct layer_pass){.model = model,
                               .step = step,
                               .layer = &model->draft.layer,
                               .rope = &model->plain_rope,
                               .number = (int)model->config.layer_count};
}

/* The draft layer's input streams y (t, S, D): of rows in_rows of the streams and of the next tokens (6.1).
 */
static enum status make_draft_streams(const struct layer_pass *pass, const struct boundary *in,
                                      const int32_t *in_rows, struct tensor y) {
    const struct deepseek_v4 *model = pass->model;
    const struct deepseek_v4_draft *draft = &model->draft;
    const struct step *step = pass->step;
    int64_t rows = y.shape[0];
    int64_t hidden = model->config.hidden_size;
    struct batch_view batch = parallel_own_batch(step);
    struct tensor embedded; /* (t, 1, D) */
    struct tensor normed;   /* (t, S, D) */
    struct tensor projected;
    STEP_TENSOR(step, step->activation, &embedded, rows, 1, hidden);
    TRY(op_embedding(step->queue, &(struct embedding_args){
                                      .out = embedded, .table = &model->embedding, .ids = batch.token_ids}));
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
    struct placed_rows streams = streams_of(out);
    size_t mark = device_arena_mark(step->queue->arena);
    TRY(make_draft_streams(&pass, in, in_rows, streams.tensor));
    device_arena_release(step->queue->arena, mark);
    return run_layer(&pass, &streams);
}

enum status deepseek_v4_forward_draft_state(const struct model *base, const struct step *step,
                                            const struct boundary *in, const int32_t *in_rows) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    const struct deepseek_v4_layer *layer = &model->draft.layer;
    struct layer_pass pass = draft_pass(model, step);
    struct placed_rows y; /* (t, S, D) */
    struct sublayer_input input;
    struct chunk_rows window_rows;
    TRY(parallel_own_tensor(step, model->config.stream_count, model->config.hidden_size, &y));
    size_t mark = device_arena_mark(step->queue->arena);
    TRY(make_draft_streams(&pass, in, in_rows, y.tensor));
    device_arena_release(step->queue->arena, mark);
    TRY(enter_sublayer(&pass, &y, &layer->attention_mix, &layer->attention_norm, &input));
    TRY(make_window_rows(&pass, &input.x, &window_rows));
    return commit(&pass, window_rows);
}

enum status deepseek_v4_forward_draft_head(const struct model *base, const struct step *step,
                                           const struct boundary *boundary, const struct picked_rows *picked,
                                           struct tensor *logits) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    return run_head(model, step, boundary->tensors[0], picked, &model->draft.head_mix, &model->draft.norm,
                    logits);
}
