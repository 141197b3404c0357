/* Scores on lanes, the best in one pass, weights. */
#include "ops/route_experts.h"

#include <math.h>

#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/lanes_entries.h"
#include "backends/cpu/lanes/row_blocks_lanes.h"
#include "tensor/elements.h"

/* log(1 + u) for u in 0..1 within 2 ULP: exact arguments f of log(1 + f), f in -0.3..0.42. */
LANES_INLINE f32_piece log_one_plus(f32_piece u) {
    const float ln2_high = 0.693359375f;
    const float ln2_low = -2.12194440e-4f;
    i32_piece is_small = u < 0x1.a82798p-2f; /* sqrt(2) - 1; above it (1 + u) / 2 is taken */
    f32_piece f = piece_select(is_small, u, (u - 1.0f) * 0.5f);
    f32_piece p = f * 7.0376836292e-2f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    f32_piece square = f * f;
    f32_piece rest = f * square * p;
    rest += piece_select(is_small, piece_splat(0.0f), piece_splat(ln2_low));
    rest -= 0.5f * square;
    return f + rest + piece_select(is_small, piece_splat(0.0f), piece_splat(ln2_high));
}

LANES_INLINE f32_piece square_root(f32_piece x) {
    float values[PIECE_LANES];
    memcpy(values, &x, sizeof values);
    for (int i = 0; i < PIECE_LANES; i++) {
        values[i] = sqrtf(values[i]);
    }
    memcpy(&x, values, sizeof x);
    return x;
}

/* sqrt(log(1 + exp(z))); far below zero that is exp(z / 2), which underflows later. */
LANES_INLINE f32_piece sqrt_softplus(f32_piece z) {
    f32_piece softplus = piece_max(z, piece_splat(0.0f)) + log_one_plus(piece_exp(-piece_magnitude(z)));
    return piece_select(z < -20.0f, piece_exp(0.5f * z), square_root(softplus));
}

/* scores = score(logits), keys = scores + bias; both in whole pieces. */
static void score_row(const struct route_experts_args *args, int64_t row, float *scores, float *keys) {
    int64_t experts = args->logits.shape[1];
    for (int64_t e = 0; e < experts; e += PIECE_LANES) {
        f32_piece logits = piece_read(DTYPE_F32, args->logits.data, row * experts + e, experts - e);
        f32_piece score = args->score == ROUTE_SCORE_SIGMOID ? piece_sigmoid(logits) : sqrt_softplus(logits);
        f32_piece key = score;
        if (args->bias != NULL) {
            key += piece_read(args->bias->dtype, args->bias->data, e, experts - e);
        }
        memcpy(scores + e, &score, sizeof score);
        memcpy(keys + e, &key, sizeof key);
    }
}

static void pick_by_table(const struct route_experts_args *args, int64_t row, int32_t *picked) {
    int64_t picks = args->experts.shape[1];
    int64_t id = args->token_ids[row];
    id = id < 0 ? 0 : id;
    id = id < args->table.shape[0] ? id : args->table.shape[0] - 1;
    for (int64_t k = 0; k < picks; k++) {
        picked[k] = (int32_t)elements_integer(args->table.dtype, args->table.data, id * picks + k);
    }
}

/* Keeps the best so far in order; an equal key goes behind, so that the lower expert wins. */
static void pick_by_score(const float *keys, int64_t experts, int64_t picks, int32_t *picked) {
    int64_t kept = 0;
    for (int64_t e = 0; e < experts; e++) {
        if (kept == picks && !(keys[e] > keys[picked[picks - 1]])) {
            continue;
        }
        int64_t at = kept < picks ? kept++ : picks - 1;
        for (; at > 0 && keys[e] > keys[picked[at - 1]]; at--) {
            picked[at] = picked[at - 1];
        }
        picked[at] = (int32_t)e;
    }
}

static int64_t padded_experts(const struct route_experts_args *args) {
    return (args->logits.shape[1] + LANES - 1) / LANES * LANES;
}

static void route_row(const void *context, int64_t row, void *workspace) {
    const struct route_experts_args *args = context;
    int64_t picks = args->experts.shape[1];
    float *scores = workspace;
    float *keys = scores + padded_experts(args);
    int32_t *picked = (int32_t *)args->experts.data + row * picks;
    float *weights = (float *)args->weights.data + row * picks;
    score_row(args, row, scores, keys);
    if (args->table.data != NULL) {
        pick_by_table(args, row, picked);
    } else {
        pick_by_score(keys, args->logits.shape[1], picks, picked);
    }
    double sum = 0.0;
    for (int64_t k = 0; k < picks; k++) {
        sum += (double)scores[picked[k]];
    }
    for (int64_t k = 0; k < picks; k++) {
        weights[k] = (float)((double)scores[picked[k]] / sum * (double)args->scaling);
    }
}

static size_t row_workspace(const struct route_experts_args *args) {
    return kernel_float_bytes(2 * padded_experts(args));
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    return thread_count * row_workspace(arguments);
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct route_experts_args *args = arguments;
    /* A score and its comparison cost as much as moving sixty-four bytes. */
    lanes_for_each_row(env, args->logits.shape[0], 64 * args->logits.shape[1], route_row, args,
                       env->workspace, row_workspace(args));
    return STATUS_OK;
}

const struct op_entry LANES_NAME(route_experts) = {.op = OP_ROUTE_EXPERTS,
                                                   LANES_ENTRY(route_experts),
                                                   .modes = OP_MODE_BOTH,
                                                   .run = run,
                                                   .workspace_bytes = workspace_bytes};
