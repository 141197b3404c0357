/* Costs come from the model's lists of tensors and states, so that no layer's kind is known here. */
#include "engine/stage_cut.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/string_buffer.h"
#include "engine/device_profile.h"
#include "engine/engine_core.h"
#include "engine/stage_bytes.h"
#include "parallel/partition.h"

enum { DESIGN_DRAFTS = 1, POINTS_MAX = 2 };

/* The measured cut replaces the counted one if that is slower by so much. */
static const double GAIN_LEAST = 1.03;

/* What a cut is made from. */
struct cutting {
    struct model *model;
    const struct sluice_engine_options *options;
    const struct stage_memory *memory;
    const struct device_profile *profile; /* NULL: none was given */
    struct stage_bytes bytes;
    struct stage_point points[POINTS_MAX]; /* of the objective; two if there are two kinds of steps */
    int point_count;
    struct stage_costs costs[POINTS_MAX];
    const char *source; /* of the costs */
    bool has_seconds;   /* they are seconds */
    struct partition_load loads[POINTS_MAX];
    struct partition_input input;
};

/* A cut that was found, and what memory had to do with it. */
struct found_cut {
    int *first_layers;
    bool is_limited; /* another would be better */
    bool lacks_memory;
    bool weighs_drafts; /* steps with drafts had a say beside those without */
    bool is_kept;       /* it is the counted one, and the measured one is hardly better */
};

static void add_decoding(struct cutting *cutting, int drafts) {
    int groups = engine_core_in_flight(cutting->options);
    int64_t sequences = (cutting->options->sequence_limit + groups - 1) / groups;
    cutting->points[cutting->point_count++] = stage_point_of_decoding(sequences, drafts);
}

static void add_points(struct cutting *cutting) {
    const struct sluice_draft_options *draft = &cutting->options->draft;
    if (cutting->options->parallel.objective == SLUICE_STAGES_FOR_PREFILL) {
        cutting->points[cutting->point_count++] = stage_point_of_prompt(cutting->options->step_token_limit);
    } else if (draft->limit > 0 && draft->is_adaptive) {
        add_decoding(cutting, 0);
        add_decoding(cutting, DESIGN_DRAFTS);
    } else {
        add_decoding(cutting, draft->limit);
    }
}

/* Seconds by the profile, if there is one: reading and computing overlap. */
static double count(const struct cutting *cutting, const struct stage_point *point, struct step_work work) {
    const struct device_profile *profile = cutting->profile;
    if (profile != NULL) {
        return fmax(device_profile_read_seconds(profile, work.bytes),
                    device_profile_compute_seconds(profile, work.operations));
    }
    return point->is_prompt ? work.operations : work.bytes;
}

static void count_costs(struct cutting *cutting) {
    cutting->has_seconds = cutting->profile != NULL;
    cutting->source = cutting->has_seconds ? "by the profile" : "counted";
    for (int i = 0; i < cutting->point_count; i++) {
        const struct stage_point *point = &cutting->points[i];
        struct stage_costs *costs = &cutting->costs[i];
        for (int l = 0; l < cutting->model->layer_count; l++) {
            costs->layers[l] =
                count(cutting, point, stage_point_layer_work(point, cutting->model, &cutting->bytes, l));
        }
        costs->first = count(cutting, point, stage_point_first_work(point, &cutting->bytes));
        costs->last = count(cutting, point, stage_point_last_work(point, cutting->model, &cutting->bytes));
    }
}

/* Costs as they are now. */
static void fill_input(struct cutting *cutting) {
    const struct stage_memory *memory = cutting->memory;
    const struct stage_bytes *bytes = &cutting->bytes;
    bool is_for_state = cutting->options->parallel.objective == SLUICE_STAGES_FOR_STATE;
    for (int i = 0; i < cutting->point_count; i++) {
        const struct stage_costs *costs = &cutting->costs[i];
        cutting->loads[i] = (struct partition_load){.layer_costs = costs->layers,
                                                    .first_cost = costs->first,
                                                    .last_cost = costs->last,
                                                    .tokens = stage_point_tokens(cutting->points[i].drafts)};
    }
    cutting->input = (struct partition_input){
        .layer_count = cutting->model->layer_count,
        .layer_costs = cutting->loads[0].layer_costs,
        .first_cost = cutting->loads[0].first_cost,
        .last_cost = cutting->loads[0].last_cost,
        .other = cutting->point_count > 1 ? &cutting->loads[1] : NULL,
        .layer_bytes = bytes->layer_bytes,
        .first_bytes = bytes->first_bytes,
        .last_bytes = bytes->last_bytes,
        .byte_limits = memory->byte_limits,
        .objective = is_for_state ? PARTITION_BY_PAGES : PARTITION_BY_COST,
        .layer_page_bytes = bytes->layer_page_bytes,
        .last_page_bytes = bytes->last_page_bytes,
        .dependencies = cutting->model->dependencies,
        .dependency_count = cutting->model->dependency_count,
    };
}

static const char *const objective_words[] = {[SLUICE_STAGES_FOR_DECODE] = "decoding",
                                              [SLUICE_STAGES_FOR_PREFILL] = "prompts",
                                              [SLUICE_STAGES_FOR_STATE] = "most tokens of state"};

/* Why the cut is as it is. */
static void report(const struct cutting *cutting, int stages, const int *first_layers, const char *reason,
                   double imbalance) {
    struct string_buffer text = {0};
    const char *unit = cutting->has_seconds ? "ms" : cutting->points[0].is_prompt ? "G operations" : "MB";
    double scale = cutting->has_seconds ? 1e-3 : cutting->points[0].is_prompt ? 1e9 : 1e6;
    for (int s = 0; s < stages; s++) {
        string_buffer_append_format(&text, "%s%d (%.*f %s)", s == 0 ? "" : ", ",
                                    first_layers[s + 1] - first_layers[s], cutting->has_seconds ? 2 : 0,
                                    partition_stage_cost(&cutting->input, stages, first_layers, s) / scale,
                                    unit);
    }
    log_write(LOG_INFO, "engine",
              "layers of the stages: %s a step%s, %s; %s; the slowest has %.2f times the mean",
              string_buffer_text(&text), cutting->point_count > 1 ? " without drafts" : "", cutting->source,
              reason, imbalance);
    string_buffer_deinit(&text);
}

/* The best cut that fits. */
static enum status find_cut(const struct partition_input *input, int stages, struct found_cut *out) {
    struct partition_input unlimited = *input;
    size_t bytes = ((size_t)stages + 1) * sizeof *out->first_layers;
    int *without = malloc(bytes);
    CHECK_MEMORY(without);
    unlimited.layer_bytes = NULL;
    enum status status = partition_choose(&unlimited, stages, without);
    enum status limited =
        status == STATUS_OK ? partition_choose(input, stages, out->first_layers) : STATUS_OK;
    out->is_limited = limited == STATUS_OK && memcmp(out->first_layers, without, bytes) != 0;
    out->lacks_memory = limited == STATUS_OUT_OF_MEMORY;
    if (out->lacks_memory) {
        memcpy(out->first_layers, without, bytes);
    }
    if (status == STATUS_OK) {
        status = partition_weighs_other(out->lacks_memory ? &unlimited : input, stages, &out->weighs_drafts);
    }
    free(without);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

/* From here on costs are seconds, and the cut is the better one of both, if measuring works. */
static enum status improve_cut(struct cutting *cutting, const struct stage_meter *meter, int stages,
                               struct found_cut *cut) {
    enum status status = meter->measure(meter->context, &cutting->bytes, cutting->points,
                                        cutting->point_count, cutting->costs);
    if (status != STATUS_OK) {
        log_write(LOG_INFO, "engine", "what the stages take is counted: %s", error_last()->message);
        count_costs(cutting);
        return STATUS_OK;
    }
    size_t bytes = ((size_t)stages + 1) * sizeof(int);
    struct found_cut measured = {.first_layers = calloc(1, bytes)};
    CHECK_MEMORY(measured.first_layers);
    cutting->has_seconds = true;
    cutting->source = "measured";
    fill_input(cutting);
    struct partition_input input = cutting->input;
    double loss = 1.0;
    status = find_cut(&input, stages, &measured);
    input.layer_bytes = measured.lacks_memory ? NULL : input.layer_bytes;
    if (status == STATUS_OK) {
        status = partition_loss(&input, stages, cut->first_layers, &loss);
    }
    cut->is_kept = loss <= GAIN_LEAST && memcmp(cut->first_layers, measured.first_layers, bytes) != 0;
    if (status == STATUS_OK && !cut->is_kept) {
        memcpy(cut->first_layers, measured.first_layers, bytes);
        cut->is_limited = measured.is_limited;
        cut->weighs_drafts = measured.weighs_drafts;
    }
    free(measured.first_layers);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

/* `reason` is a sentence's part of at most `reason_bytes`. */
static enum status choose_best(struct cutting *cutting, const struct stage_meter *meter, int stages,
                               int *first_layers, char *reason, size_t reason_bytes) {
    struct found_cut cut = {.first_layers = first_layers};
    TRY(find_cut(&cutting->input, stages, &cut));
    if (cut.lacks_memory) {
        log_write(LOG_WARNING, "engine", "%s", error_last()->message);
    }
    if (meter != NULL && stages > 1 && cutting->profile == NULL) {
        TRY(improve_cut(cutting, meter, stages, &cut));
    }
    snprintf(reason, reason_bytes, "cut for %s%s%s%s", objective_words[cutting->options->parallel.objective],
             cutting->point_count == 1 ? ""
             : cut.weighs_drafts       ? ", with drafts and without"
                                       : ", without drafts",
             cut.is_kept ? ", as counted, which the best by time beats by less than 3 %" : "",
             cut.lacks_memory ? ", though memory lacks"
             : cut.is_limited ? ", as far as memory allows"
                              : "");
    return STATUS_OK;
}

static enum status choose(struct cutting *cutting, const struct stage_meter *meter, int *first_layers,
                          double *imbalance) {
    const char *named = cutting->options->parallel.layer_partition;
    int stages = cutting->options->parallel.pipeline;
    char reason[160] = "as was asked for";
    add_points(cutting);
    count_costs(cutting);
    fill_input(cutting);
    TRY(named[0] != '\0' ? partition_read(&cutting->input, named, stages, first_layers)
                         : choose_best(cutting, meter, stages, first_layers, reason, sizeof reason));
    *imbalance = partition_imbalance(&cutting->input, stages, first_layers);
    if (stages > 1) {
        report(cutting, stages, first_layers, reason, *imbalance);
    }
    return STATUS_OK;
}

/* What costs come from must be there. */
static enum status read_profile(const char *path, struct device_profile *out) {
    TRY(device_profile_read(path, out));
    CHECK(
        out->read_bytes_per_second > 0.0 && out->operations_per_second > 0.0, STATUS_BAD_CONFIG,
        "%s lacks \"%s\", by which stages are cut: add it (`sluice bench --roofline` measures it), or leave "
        "--profile out and have the engine measure",
        path, out->read_bytes_per_second > 0.0 ? "operations_per_second" : "read_bytes_per_second");
    return STATUS_OK;
}

enum status stage_cut_choose(struct model *model, const struct sluice_engine_options *options,
                             const struct stage_memory *memory, const struct stage_meter *meter,
                             int *first_layers, double *imbalance) {
    struct cutting cutting = {.model = model, .options = options, .memory = memory};
    struct device_profile profile = device_profile_default();
    enum status status = STATUS_OK;
    if (options->device_profile != NULL && options->parallel.pipeline > 1) {
        TRY(read_profile(options->device_profile, &profile));
        cutting.profile = &profile;
    }
    for (int i = 0; i < POINTS_MAX; i++) {
        cutting.costs[i].layers = calloc((size_t)model->layer_count, sizeof(double));
        CHECK_MEMORY_GOTO(cutting.costs[i].layers);
    }
    TRY_GOTO(stage_bytes_sum(model, (enum numerics)options->numerics, memory, &cutting.bytes));
    TRY_GOTO(choose(&cutting, meter, first_layers, imbalance));
fail:
    stage_bytes_deinit(&cutting.bytes);
    for (int i = 0; i < POINTS_MAX; i++) {
        free(cutting.costs[i].layers);
    }
    return status;
}
