/* Scores, selection by repeated maximum, weights. */
#include "ops/route_experts.h"

#include <math.h>

#include "ops/kernel_items.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_math.h"
#include "tensor/elements.h"

static float score_logit(enum route_score score, float logit) {
    double z = logit;
    if (score == ROUTE_SCORE_SIGMOID) {
        return (float)reference_sigmoid(z);
    }
    return (float)sqrt(z > 20.0 ? z : log1p(exp(z)));
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

/* keys: scores with the bias added; overwritten. */
static void pick_by_score(float *keys, int64_t experts, int64_t picks, int32_t *picked) {
    for (int64_t k = 0; k < picks; k++) {
        int64_t best = 0;
        for (int64_t e = 1; e < experts; e++) {
            if (keys[e] > keys[best]) {
                best = e;
            }
        }
        picked[k] = (int32_t)best;
        keys[best] = -INFINITY;
    }
}

static void route_row(const void *context, int64_t row, void *workspace) {
    const struct route_experts_args *args = context;
    int64_t experts = args->logits.shape[1];
    int64_t picks = args->experts.shape[1];
    float *scores = workspace;
    float *keys = scores + experts;
    int32_t *picked = (int32_t *)args->experts.data + row * picks;
    float *weights = (float *)args->weights.data + row * picks;
    reference_read(&args->logits, row * experts, experts, scores);
    for (int64_t e = 0; e < experts; e++) {
        keys[e] = 0.0f;
    }
    if (args->bias != NULL) {
        weight_decode_row(args->bias, 0, keys);
    }
    for (int64_t e = 0; e < experts; e++) {
        scores[e] = score_logit(args->score, scores[e]);
        keys[e] += scores[e];
    }
    if (args->table.data != NULL) {
        pick_by_table(args, row, picked);
    } else {
        pick_by_score(keys, experts, picks, picked);
    }
    double sum = 0.0;
    for (int64_t k = 0; k < picks; k++) {
        sum += scores[picked[k]];
    }
    for (int64_t k = 0; k < picks; k++) {
        weights[k] = (float)(scores[picked[k]] / sum * args->scaling);
    }
}

static size_t row_workspace(const struct route_experts_args *args) {
    return kernel_float_bytes(2 * args->logits.shape[1]);
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    return thread_count * row_workspace(arguments);
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct route_experts_args *args = arguments;
    kernel_for_each_item(env, args->logits.shape[0], route_row, args, env->workspace, row_workspace(args));
    return STATUS_OK;
}

const struct op_entry route_experts_reference = {
    .op = OP_ROUTE_EXPERTS,
    .name = "route_experts_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run,
    .workspace_bytes = workspace_bytes,
};
