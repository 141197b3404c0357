/* Costs come from the model's list of tensors, so that no layer's kind is known here. */
#include "engine/stage_cut.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/string_buffer.h"
#include "engine/engine_core.h"
#include "model/step_work.h"
#include "parallel/partition.h"

enum { LIST_ARENA_BLOCK_BYTES = 1 << 20, DESIGN_DRAFTS = 1, BLOCKS_BESIDE_LAYERS = 3 };

/* Weights by where they are: layers, then these. */
struct stage_weights {
    struct weight_work *layers; /* [layer_count] */
    struct weight_work *first;
    struct weight_work *last;
    struct weight_work *draft;
};

static struct weight_work *weights_of(const struct stage_weights *weights, const struct tensor_spec *spec) {
    switch (spec->stage) {
    case STAGE_OF_LAYER:
        return &weights->layers[spec->layer];
    case STAGE_FIRST:
    case STAGE_FIRST_AND_DRAFT:
        return weights->first;
    case STAGE_LAST:
        return weights->last;
    case STAGE_DRAFT:
        break;
    }
    return weights->draft;
}

static enum status sum_weights(struct model *model, const struct stage_weights *weights) {
    struct arena arena;
    arena_init(&arena, LIST_ARENA_BLOCK_BYTES);
    struct tensor_spec_list list = {.arena = &arena};
    enum status status = model->family->list_tensors(model, NULL, &list);
    for (size_t i = 0; i < list.count && status == STATUS_OK; i++) {
        weight_work_add(model, &list.specs[i], weights_of(weights, &list.specs[i]));
    }
    arena_deinit(&arena);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

/* Bytes that so many rows read of a layer. */
static double layer_cost(const struct model *model, const struct weight_work *work, int64_t rows) {
    double experts = step_work_distinct_experts(model->expert_count, model->expert_picks, rows);
    return work->dense_bytes + (double)rows * work->lookup_bytes + experts * work->expert_bytes;
}

static void fill_costs(const struct model *model, const struct stage_weights *weights,
                       const struct sluice_engine_options *options, double *layer_costs,
                       struct partition_input *out) {
    int groups = engine_core_in_flight(options);
    int drafts = options->draft.limit < DESIGN_DRAFTS ? options->draft.limit : DESIGN_DRAFTS;
    int64_t sequences = (options->sequence_limit + groups - 1) / groups;
    int64_t rows = sequences * (1 + drafts);
    for (int l = 0; l < model->layer_count; l++) {
        layer_costs[l] = layer_cost(model, &weights->layers[l], rows);
    }
    out->layer_count = model->layer_count;
    out->layer_costs = layer_costs;
    out->first_cost = (double)rows * weights->first->lookup_bytes;
    out->last_cost = weights->last->head_bytes +
                     drafts * (layer_cost(model, weights->draft, sequences) + weights->last->head_bytes);
}

static void report(const struct partition_input *input, int stages, const int *first_layers,
                   double imbalance) {
    struct string_buffer text = {0};
    for (int s = 0; s < stages; s++) {
        string_buffer_append_format(&text, "%s%d (%.0f MB)", s == 0 ? "" : ", ",
                                    first_layers[s + 1] - first_layers[s],
                                    partition_stage_cost(input, stages, first_layers, s) / 1e6);
    }
    log_write(LOG_INFO, "engine", "layers of the stages: %s a step; the slowest has %.2f times the mean",
              string_buffer_text(&text), imbalance);
    string_buffer_deinit(&text);
}

static enum status choose(struct model *model, const struct sluice_engine_options *options,
                          struct weight_work *works, double *layer_costs, int *first_layers,
                          double *imbalance) {
    int stages = options->parallel.pipeline;
    const char *named = options->parallel.layer_partition;
    struct weight_work *behind = works + model->layer_count;
    const struct stage_weights weights = {
        .layers = works, .first = &behind[0], .last = &behind[1], .draft = &behind[2]};
    struct partition_input input = {0};
    TRY(sum_weights(model, &weights));
    fill_costs(model, &weights, options, layer_costs, &input);
    TRY(named[0] != '\0' ? partition_parse(named, model->layer_count, stages, first_layers)
                         : partition_choose(&input, stages, first_layers));
    *imbalance = partition_imbalance(&input, stages, first_layers);
    if (stages > 1) {
        report(&input, stages, first_layers, *imbalance);
    }
    return STATUS_OK;
}

enum status stage_cut_choose(struct model *model, const struct sluice_engine_options *options,
                             int *first_layers, double *imbalance) {
    size_t layers = (size_t)model->layer_count;
    struct weight_work *works = calloc(layers + BLOCKS_BESIDE_LAYERS, sizeof *works);
    double *layer_costs = calloc(layers, sizeof *layer_costs);
    enum status status = STATUS_OK;
    CHECK_MEMORY_GOTO(works);
    CHECK_MEMORY_GOTO(layer_costs);
    TRY_GOTO(choose(model, options, works, layer_costs, first_layers, imbalance));
fail:
    free(works);
    free(layer_costs);
    return status;
}
