/*
 * All kinds and points are timed in turn and again, and the fastest time of each counts: the first turn reads
 * the weights, and a moment in which the machine does something else bends nothing.
 */
#include "engine/stage_probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend_registry.h"
#include "base/clock.h"
#include "engine/engine_core.h"
#include "engine/profile_rounds.h"

enum {
    TURNS_LEAST = 3,
    TURNS_MOST = 40,
    POSITION_MAX = 1024,
    SEQUENCES_MAX = 32,
    LAYER_BYTES_MAX = 512 << 20,
};

static const double LAYER_OPERATIONS_MAX = 4e9;
static const double TURNS_SECONDS = 0.03; /* after so long no other turn begins */

/* A step that is run. */
struct timing {
    struct stage_point point;
    struct stage_costs seconds; /* the fastest; layers: of the first of each kind */
};

/* The steps that are run for a point. */
struct point_timing {
    struct timing large; /* the point, or what is run in its place */
    struct timing small; /* a single sequence or row, if the point is too large, and so is nothing else */
    bool has_small;
};

struct probe_run {
    const struct stage_probe *probe;
    const struct stage_bytes *bytes;
    int *kinds; /* [layer_count]: the first layer that counts the same */
    int end_layer;
    int64_t position; /* where sequences are */
    struct point_timing *timings;
    int timing_count;
    struct engine_core *core;
    struct round_runner *runner;
    struct profile_rounds rounds;
};

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Whether no layer reads or computes too much at a point, and a prompt has room. */
static bool is_small_enough(const struct stage_probe *probe, const struct stage_bytes *bytes,
                            const struct stage_point *point) {
    if (point->sequences > SEQUENCES_MAX ||
        (point->is_prompt && point->rows_each > probe->options->context_tokens)) {
        return false;
    }
    for (int l = 0; l < probe->model->layer_count; l++) {
        struct step_work work = stage_point_layer_work(point, probe->model, bytes, l);
        if (work.bytes > LAYER_BYTES_MAX || work.operations > LAYER_OPERATIONS_MAX) {
            return false;
        }
    }
    return true;
}

/* What grows with the step: its sequences, of a prompt its rows. */
static int64_t size_of(const struct stage_point *point) {
    return point->is_prompt ? point->rows_each : point->sequences;
}

static struct stage_point with_size(const struct stage_point *point, int64_t size) {
    return point->is_prompt ? stage_point_of_prompt(size) : stage_point_of_decoding(size, point->drafts);
}

struct stage_point stage_probe_reduce(const struct stage_probe *probe, const struct stage_bytes *bytes,
                                      const struct stage_point *point) {
    struct stage_point reduced = *point;
    while (size_of(&reduced) > 1 && !is_small_enough(probe, bytes, &reduced)) {
        reduced = with_size(point, size_of(&reduced) / 2);
    }
    return reduced;
}

double stage_probe_extrapolate(const struct step_work *small, double small_seconds,
                               const struct step_work *large, double large_seconds,
                               const struct step_work *wanted) {
    double determinant = small->bytes * large->operations - large->bytes * small->operations;
    double of_byte = small_seconds * large->operations - large_seconds * small->operations;
    double of_operation = small->bytes * large_seconds - large->bytes * small_seconds;
    bool has_both = determinant != 0.0;
    if (has_both && of_byte / determinant >= 0.0 && of_operation / determinant >= 0.0) {
        return (wanted->bytes * of_byte + wanted->operations * of_operation) / determinant;
    }
    bool is_by_operations = large->operations > 0.0 && has_both && of_byte / determinant < 0.0;
    double times = is_by_operations   ? wanted->operations / large->operations
                   : large->bytes > 0 ? wanted->bytes / large->bytes
                                      : 1.0;
    return large_seconds * times;
}

void stage_probe_split(const struct step_work *small, double small_seconds, const struct step_work *large,
                       double large_seconds, double *bytes_per_second, double *operations_per_second) {
    const struct step_work reading = {.bytes = small->bytes};
    const struct step_work computing = {.operations = large->operations};
    double read = stage_probe_extrapolate(small, small_seconds, large, large_seconds, &reading);
    double compute = stage_probe_extrapolate(small, small_seconds, large, large_seconds, &computing);
    *bytes_per_second = small->bytes / (read > 0.0 ? read : small_seconds);
    *operations_per_second = large->operations / (compute > 0.0 ? compute : large_seconds);
}

static bool counts_the_same(const struct stage_bytes *bytes, int a, int b) {
    return memcmp(&bytes->layers[a], &bytes->layers[b], sizeof bytes->layers[a]) == 0 &&
           bytes->layer_bytes[a] == bytes->layer_bytes[b] &&
           bytes->layer_page_bytes[a] == bytes->layer_page_bytes[b];
}

static void find_kinds(struct probe_run *run) {
    for (int l = 0; l < run->probe->model->layer_count; l++) {
        int first = 0;
        while (!counts_the_same(run->bytes, first, l)) {
            first++;
        }
        run->kinds[l] = first;
        run->end_layer = first == l ? l + 1 : run->end_layer;
    }
}

static enum status plan_timing(const struct probe_run *run, const struct stage_point *point,
                               struct point_timing *out) {
    size_t layers = (size_t)run->probe->model->layer_count;
    out->large.point = stage_probe_reduce(run->probe, run->bytes, point);
    out->small.point = with_size(point, 1);
    out->has_small = size_of(&out->large.point) < size_of(point) && size_of(&out->large.point) > 1;
    out->large.seconds.layers = calloc(layers, sizeof(double));
    out->small.seconds.layers = calloc(layers, sizeof(double));
    CHECK_MEMORY(out->large.seconds.layers);
    CHECK_MEMORY(out->small.seconds.layers);
    return STATUS_OK;
}

static enum status plan_timings(struct probe_run *run, const struct stage_point *points, int count) {
    int64_t context = run->probe->options->context_tokens;
    run->position = smaller(context / 2, POSITION_MAX);
    run->timings = calloc((size_t)count, sizeof *run->timings);
    CHECK_MEMORY(run->timings);
    run->timing_count = count;
    for (int i = 0; i < count; i++) {
        TRY(plan_timing(run, &points[i], &run->timings[i]));
        run->position = smaller(run->position, larger(0, context - run->timings[i].large.point.rows_each));
    }
    return STATUS_OK;
}

static enum status check_device(const struct stage_probe *probe) {
    const struct backend *backend;
    struct device *device;
    TRY(backend_find(probe->options->device, &backend));
    TRY(backend->device_create(&device));
    bool is_mapped = device_reads_host_memory(device);
    device_destroy(&device);
    CHECK(is_mapped, STATUS_UNSUPPORTED, "layers would have to be copied to the device \"%s\" to be measured",
          probe->options->device);
    return STATUS_OK;
}

/* The engine's options, as far as a small engine that is alone has them. `rows_each`: the most of a step. */
static struct sluice_engine_options small_options(const struct probe_run *run, int64_t *rows_each) {
    struct sluice_engine_options options = *run->probe->options;
    options.sequence_limit = 1;
    options.step_token_limit = 1;
    *rows_each = 1;
    for (int i = 0; i < run->timing_count; i++) {
        const struct stage_point *point = &run->timings[i].large.point;
        options.sequence_limit = (int)larger(options.sequence_limit, point->sequences);
        options.step_token_limit = (int)larger(options.step_token_limit, stage_point_rows(point));
        *rows_each = larger(*rows_each, point->rows_each);
    }
    options.context_tokens =
        larger(run->position + *rows_each,
               smaller(run->position + *rows_each + options.page_tokens, options.context_tokens));
    options.parallel = sluice_engine_options_default().parallel;
    options.thread_count = run->probe->thread_count;
    options.weights = SLUICE_WEIGHTS_MAPPED;
    options.has_prefix_cache = false;
    options.prefix_cache_directory = NULL;
    options.trace_path = NULL;
    return options;
}

static enum status open_core(struct probe_run *run) {
    const int first_layers[] = {0, run->end_layer};
    const struct shard_layout layout = {
        .mesh = {.data = 1, .pipeline = 1, .context = 1, .tensor = 1},
        .first_layers = first_layers,
        .has_draft = run->probe->options->draft.limit > 0,
        .expert_count = (int)run->probe->model->expert_count,
    };
    int64_t rows_each;
    const struct sluice_engine_options options = small_options(run, &rows_each);
    TRY(engine_core_open_rank(&options, &layout, NULL, &run->core));
    run->core->layout = NULL; /* which ends here, and was for the loader */
    int64_t pages = run->core->states.pages_per_slot;
    const struct profile_rounds_options of_rounds = {
        .sequence_limit = options.sequence_limit,
        .row_limit = options.step_token_limit,
        .pages_per_sequence = (int32_t)pages,
        .first_position = (int32_t)run->position,
        .position_spread = (int32_t)larger(1, options.context_tokens - run->position - rows_each),
        .vocabulary_size = run->core->model->vocabulary_size,
    };
    TRY(engine_core_alloc_states(run->core, (int32_t)pages * options.sequence_limit));
    const struct round_runner_options of_runner = engine_core_runner_options(run->core);
    TRY(round_runner_create(&of_runner, &run->runner));
    return profile_rounds_init(&run->rounds, &of_rounds);
}

static double faster(double before, double seconds) {
    return before > 0.0 && before < seconds ? before : seconds;
}

/* Layers `first` to `end` - 1 of a step, and the embedding before them. */
static enum status time_layers(struct probe_run *run, const struct step_plan *step, int first, int end,
                               double *seconds) {
    executor_set_layers(run->core->executor, first, end);
    TRY(executor_step(run->core->executor, step, NULL));
    *seconds = faster(*seconds, executor_step_seconds(run->core->executor));
    return STATUS_OK;
}

/* Times of layers have the embedding in them, those of the end too. */
static enum status time_point(struct probe_run *run, struct timing *timing) {
    const struct stage_point *point = &timing->point;
    const struct profile_shape shape = {.sequences = (int32_t)point->sequences,
                                        .rows = (int32_t)stage_point_rows(point),
                                        .verified_drafts = point->drafts,
                                        .next_drafts = point->drafts,
                                        .has_draft_layer = point->drafts > 0};
    struct round_plan plan = profile_rounds_plan(&run->rounds, &shape);
    struct step_plan step = plan.step;
    struct round_result result;
    step.logit_row_count = 0;
    TRY(time_layers(run, &step, 0, 0, &timing->seconds.first));
    for (int l = 0; l < run->end_layer; l++) {
        if (run->kinds[l] == l) {
            TRY(time_layers(run, &step, l, l + 1, &timing->seconds.layers[l]));
        }
    }
    executor_set_layers(run->core->executor, 0, 0);
    TRY(round_start(run->runner, &plan));
    TRY(round_finish(run->runner, &result));
    timing->seconds.last = faster(timing->seconds.last, result.step_seconds + result.draft_seconds);
    return STATUS_OK;
}

static enum status time_all(struct probe_run *run) {
    double end = clock_seconds() + TURNS_SECONDS;
    for (int turn = 0; turn < TURNS_MOST && (turn < TURNS_LEAST || clock_seconds() < end); turn++) {
        for (int i = 0; i < run->timing_count; i++) {
            TRY(time_point(run, &run->timings[i].large));
            TRY(run->timings[i].has_small ? time_point(run, &run->timings[i].small) : STATUS_OK);
        }
    }
    return STATUS_OK;
}

/* Embedding apart, every layer with the time of its kind. */
static void split_times(const struct probe_run *run, struct timing *timing) {
    struct stage_costs *seconds = &timing->seconds;
    for (int l = run->probe->model->layer_count - 1; l >= 0; l--) {
        seconds->layers[l] = fmax(seconds->layers[run->kinds[l]] - seconds->first, 0.0);
    }
    seconds->last = fmax(seconds->last - seconds->first, 0.0);
}

/* The point's times from those of the steps that were run: the same where the larger one is the point. */
static void extrapolate(const struct probe_run *run, const struct stage_point *point,
                        const struct point_timing *timing, struct stage_costs *out) {
    const struct stage_bytes *bytes = run->bytes;
    const struct model *model = run->probe->model;
    const struct timing *large = &timing->large;
    const struct timing *small = timing->has_small ? &timing->small : large;
    struct step_work work[3];
    for (int l = 0; l < model->layer_count; l++) {
        work[0] = stage_point_layer_work(&small->point, model, bytes, l);
        work[1] = stage_point_layer_work(&large->point, model, bytes, l);
        work[2] = stage_point_layer_work(point, model, bytes, l);
        out->layers[l] = stage_probe_extrapolate(&work[0], small->seconds.layers[l], &work[1],
                                                 large->seconds.layers[l], &work[2]);
    }
    work[0] = stage_point_first_work(&small->point, bytes);
    work[1] = stage_point_first_work(&large->point, bytes);
    work[2] = stage_point_first_work(point, bytes);
    out->first =
        stage_probe_extrapolate(&work[0], small->seconds.first, &work[1], large->seconds.first, &work[2]);
    work[0] = stage_point_last_work(&small->point, model, bytes);
    work[1] = stage_point_last_work(&large->point, model, bytes);
    work[2] = stage_point_last_work(point, model, bytes);
    out->last =
        stage_probe_extrapolate(&work[0], small->seconds.last, &work[1], large->seconds.last, &work[2]);
}

static enum status run_probe(struct probe_run *run, const struct stage_point *points, int count) {
    TRY(check_device(run->probe));
    run->kinds = calloc((size_t)run->probe->model->layer_count, sizeof *run->kinds);
    CHECK_MEMORY(run->kinds);
    find_kinds(run);
    TRY(plan_timings(run, points, count));
    TRY(open_core(run));
    return time_all(run);
}

static void close_probe(struct probe_run *run) {
    profile_rounds_deinit(&run->rounds);
    round_runner_destroy(&run->runner);
    engine_core_close(&run->core);
    for (int i = 0; i < run->timing_count; i++) {
        free(run->timings[i].large.seconds.layers);
        free(run->timings[i].small.seconds.layers);
    }
    free(run->timings);
    free(run->kinds);
}

enum status stage_probe_measure(void *probe, const struct stage_bytes *bytes,
                                const struct stage_point *points, int count, struct stage_costs *costs) {
    struct probe_run run = {.probe = probe, .bytes = bytes};
    enum status status = run_probe(&run, points, count);
    for (int i = 0; i < count && status == STATUS_OK; i++) {
        split_times(&run, &run.timings[i].large);
        split_times(&run, &run.timings[i].small);
        extrapolate(&run, &points[i], &run.timings[i], &costs[i]);
    }
    close_probe(&run);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
