/* Costs come from the model's lists of tensors and states, so that no layer's kind is known here. */
#include "engine/stage_cut.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/string_buffer.h"
#include "engine/engine_core.h"
#include "engine/stage_bytes.h"
#include "model/step_work.h"
#include "parallel/partition.h"

enum { DESIGN_DRAFTS = 1 };

/* What a cut is made from. */
struct cutting {
    struct model *model;
    const struct sluice_engine_options *options;
    const struct stage_memory *memory;
    struct stage_bytes bytes;
    struct partition_load loads[2]; /* of the objective; the second one if there are two kinds of steps */
    double *costs[2];               /* [layer_count] of each */
    int load_count;
    struct partition_input input;
};

/* Bytes that so many rows read of a layer. */
static double layer_cost(const struct model *model, const struct weight_work *work, int64_t rows) {
    double experts = step_work_distinct_experts(model->expert_count, model->expert_picks, rows);
    return work->dense_bytes + (double)rows * work->lookup_bytes + experts * work->expert_bytes;
}

/* A decoding step in which every sequence has so many drafts. */
static void add_decode_load(struct cutting *cutting, int drafts) {
    const struct model *model = cutting->model;
    const struct stage_bytes *bytes = &cutting->bytes;
    int groups = engine_core_in_flight(cutting->options);
    int64_t sequences = (cutting->options->sequence_limit + groups - 1) / groups;
    int64_t rows = sequences * (1 + drafts);
    double *costs = cutting->costs[cutting->load_count];
    for (int l = 0; l < model->layer_count; l++) {
        costs[l] = layer_cost(model, &bytes->layers[l], rows);
    }
    cutting->loads[cutting->load_count++] = (struct partition_load){
        .layer_costs = costs,
        .first_cost = (double)rows * bytes->first->lookup_bytes,
        .last_cost = bytes->last->head_bytes +
                     drafts * (layer_cost(model, bytes->draft, sequences) + bytes->last->head_bytes)};
}

/* The largest step of a prompt, which computes its rows and one row of logits. */
static void add_prefill_load(struct cutting *cutting) {
    const struct model *model = cutting->model;
    double rows = cutting->options->step_token_limit;
    double *costs = cutting->costs[cutting->load_count];
    for (int l = 0; l < model->layer_count; l++) {
        const struct weight_work *work = &cutting->bytes.layers[l];
        costs[l] = rows * (work->dense_operations + (double)model->expert_picks * work->expert_operations);
    }
    cutting->loads[cutting->load_count++] =
        (struct partition_load){.layer_costs = costs, .last_cost = cutting->bytes.last->head_operations};
}

static void add_loads(struct cutting *cutting) {
    const struct sluice_draft_options *draft = &cutting->options->draft;
    if (cutting->options->parallel.objective == SLUICE_STAGES_FOR_PREFILL) {
        add_prefill_load(cutting);
    } else if (draft->limit > 0 && draft->is_adaptive) {
        add_decode_load(cutting, DESIGN_DRAFTS);
        add_decode_load(cutting, 0);
    } else {
        add_decode_load(cutting, draft->limit);
    }
}

static void fill_input(struct cutting *cutting) {
    const struct stage_memory *memory = cutting->memory;
    const struct stage_bytes *bytes = &cutting->bytes;
    bool is_for_state = cutting->options->parallel.objective == SLUICE_STAGES_FOR_STATE;
    cutting->input = (struct partition_input){
        .layer_count = cutting->model->layer_count,
        .layer_costs = cutting->loads[0].layer_costs,
        .first_cost = cutting->loads[0].first_cost,
        .last_cost = cutting->loads[0].last_cost,
        .other = cutting->load_count > 1 ? &cutting->loads[1] : NULL,
        .layer_bytes = bytes->layer_bytes,
        .first_bytes = bytes->first_bytes,
        .last_bytes = bytes->last_bytes,
        .byte_limits = memory->byte_limits,
        .objective = is_for_state ? PARTITION_BY_PAGES : PARTITION_BY_COST,
        .layer_page_bytes = bytes->layer_page_bytes,
        .last_page_bytes = bytes->last_page_bytes,
    };
}

static const char *const objective_words[] = {[SLUICE_STAGES_FOR_DECODE] = "decoding",
                                              [SLUICE_STAGES_FOR_PREFILL] = "prompts",
                                              [SLUICE_STAGES_FOR_STATE] = "most tokens of state"};

/* Why the cut is as it is. */
static void report(const struct cutting *cutting, int stages, const int *first_layers, const char *reason,
                   double imbalance) {
    struct string_buffer text = {0};
    enum sluice_stage_objective objective = cutting->options->parallel.objective;
    const char *unit = objective == SLUICE_STAGES_FOR_PREFILL ? "G operations" : "MB";
    double scale = objective == SLUICE_STAGES_FOR_PREFILL ? 1e9 : 1e6;
    for (int s = 0; s < stages; s++) {
        string_buffer_append_format(
            &text, "%s%d (%.0f %s)", s == 0 ? "" : ", ", first_layers[s + 1] - first_layers[s],
            partition_stage_cost(&cutting->input, stages, first_layers, s) / scale, unit);
    }
    log_write(LOG_INFO, "engine",
              "layers of the stages: %s a step%s; %s; the slowest has %.2f times the mean",
              string_buffer_text(&text), cutting->load_count > 1 ? " with a draft" : "", reason, imbalance);
    string_buffer_deinit(&text);
}

/* The best cut that fits; `reason` is a sentence's part of at most `reason_bytes`. */
static enum status find_cut(struct cutting *cutting, int stages, int *first_layers, char *reason,
                            size_t reason_bytes) {
    struct partition_input unlimited = cutting->input;
    size_t bytes = ((size_t)stages + 1) * sizeof *first_layers;
    int *without = malloc(bytes);
    CHECK_MEMORY(without);
    unlimited.layer_bytes = NULL;
    enum status status = partition_choose(&unlimited, stages, without);
    enum status limited =
        status == STATUS_OK ? partition_choose(&cutting->input, stages, first_layers) : STATUS_OK;
    bool is_changed = limited == STATUS_OK && memcmp(first_layers, without, bytes) != 0;
    const char *words = objective_words[cutting->options->parallel.objective];
    if (limited == STATUS_OUT_OF_MEMORY) {
        memcpy(first_layers, without, bytes);
        log_write(LOG_WARNING, "engine", "%s", error_last()->message);
    }
    snprintf(reason, reason_bytes, "cut for %s%s%s", words,
             cutting->load_count > 1 ? ", with drafts and without" : "",
             limited == STATUS_OUT_OF_MEMORY ? ", though memory lacks"
             : is_changed                    ? ", as far as memory allows"
                                             : "");
    free(without);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status choose(struct cutting *cutting, int *first_layers, double *imbalance) {
    const char *named = cutting->options->parallel.layer_partition;
    int stages = cutting->options->parallel.pipeline;
    char reason[128] = "as was asked for";
    add_loads(cutting);
    fill_input(cutting);
    TRY(named[0] != '\0' ? partition_parse(named, cutting->model->layer_count, stages, first_layers)
                         : find_cut(cutting, stages, first_layers, reason, sizeof reason));
    *imbalance = partition_imbalance(&cutting->input, stages, first_layers);
    if (stages > 1) {
        report(cutting, stages, first_layers, reason, *imbalance);
    }
    return STATUS_OK;
}

enum status stage_cut_choose(struct model *model, const struct sluice_engine_options *options,
                             const struct stage_memory *memory, int *first_layers, double *imbalance) {
    struct cutting cutting = {.model = model, .options = options, .memory = memory};
    enum status status = STATUS_OK;
    for (int i = 0; i < 2; i++) {
        cutting.costs[i] = calloc((size_t)model->layer_count, sizeof *cutting.costs[i]);
        CHECK_MEMORY_GOTO(cutting.costs[i]);
    }
    TRY_GOTO(stage_bytes_sum(model, (enum numerics)options->numerics, memory, &cutting.bytes));
    TRY_GOTO(choose(&cutting, first_layers, imbalance));
fail:
    stage_bytes_deinit(&cutting.bytes);
    free(cutting.costs[0]);
    free(cutting.costs[1]);
    return status;
}
