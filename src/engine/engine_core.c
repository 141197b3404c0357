/* Opening a model: configuration, checkpoint, weights, sizes, memory, in that order. */
#include "engine/engine_core.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu_topology.h"
#include "base/memory_available.h"
#include "engine/context_search.h"
#include "engine/draft_controller.h"
#include "engine/memory_plan.h"
#include "engine/model_digest.h"
#include "engine/prefix_part.h"
#include "engine/rank_team.h"
#include "engine/rank_timeline.h"
#include "engine/scheduler.h"
#include "engine/trace_file.h"
#include "engine/trace_remains.h"
#include "lib/json.h"
#include "model/model_registry.h"
#include "parallel/layout_check.h"

enum {
    MODEL_ARENA_BLOCK_BYTES = 1 << 20,
    CONFIG_BYTES_MAX = 16 << 20,
    CONTEXT_TOKENS_DEFAULT = 4096,
    STEP_TOKENS_DEFAULT = 512,
    PAGE_TOKENS_DEFAULT = 128,
    LOGIT_ROWS_AT_ONCE = 16,
    SNAPSHOTS_BESIDE_SEQUENCES = 4,
    DRAFTS_IF_POSSIBLE = 3,
    RECORDS_PER_ROUND = 4,  /* with orders about prefixes */
    TRACE_EVENTS = 1 << 17, /* of a rank: 6 MB, some 20000 ticks */
};

struct sluice_engine_options sluice_engine_options_default(void) {
    return (struct sluice_engine_options){
        .device = "cpu",
        .cpu_features = "auto",
        .numerics = SLUICE_NUMERICS_NATIVE,
        .step_token_limit = STEP_TOKENS_DEFAULT,
        .sequence_limit = 1,
        .page_tokens = PAGE_TOKENS_DEFAULT,
        .has_prefix_cache = true,
        .draft = {.is_adaptive = true},
        .parallel = {.pipeline = 1, .tensor = 1, .has_expert_parallelism = true},
    };
}

static enum status check_options(const struct sluice_engine_options *options) {
    CHECK(options->model_directory != NULL, STATUS_BAD_ARGUMENT, "no model directory was given");
    CHECK(options->device != NULL && options->cpu_features != NULL, STATUS_BAD_ARGUMENT,
          "no device or no set of processor features was given");
    CHECK(options->step_token_limit >= 1 && options->step_token_limit <= (1 << 20), STATUS_OUT_OF_RANGE,
          "step_token_limit is %d, expected 1 to %d", options->step_token_limit, 1 << 20);
    CHECK(options->sequence_limit >= 1 && options->sequence_limit <= 4096, STATUS_OUT_OF_RANGE,
          "sequence_limit is %d, expected 1 to 4096", options->sequence_limit);
    CHECK(options->step_token_limit >= options->sequence_limit, STATUS_OUT_OF_RANGE,
          "a step of at most %d tokens is too small for %d requests that run at once: each needs one",
          options->step_token_limit, options->sequence_limit);
    TRY(layout_check_page_tokens(options->page_tokens));
    CHECK(options->thread_count >= 0 && options->thread_count <= 1024, STATUS_OUT_OF_RANGE,
          "thread_count is %d, expected 0 to 1024", options->thread_count);
    CHECK(options->snapshot_limit >= 0 && options->snapshot_limit <= (1 << 20), STATUS_OUT_OF_RANGE,
          "snapshot_limit is %d, expected 0 to %d", options->snapshot_limit, 1 << 20);
    CHECK(options->draft.limit >= SLUICE_DRAFTS_IF_POSSIBLE &&
              options->draft.limit <= SLUICE_DRAFT_POSITIONS_MAX,
          STATUS_OUT_OF_RANGE, "the limit of drafts is %d, expected 0 to %d", options->draft.limit,
          SLUICE_DRAFT_POSITIONS_MAX);
    CHECK(options->parallel.data >= 0, STATUS_OUT_OF_RANGE,
          "%d replicas were asked for, expected 0 or 1 for one, or how many share the experts",
          options->parallel.data);
    CHECK(options->parallel.in_flight >= 0 && options->parallel.in_flight <= DRAFT_TICKS_UNDER_WAY_MAX,
          STATUS_OUT_OF_RANGE,
          "%d steps were to be under way at once; 1 to %d are possible, or 0 for as many as stages",
          options->parallel.in_flight, DRAFT_TICKS_UNDER_WAY_MAX);
    return STATUS_OK;
}

/* Works out the context length once the model's limit is known; one that fits is found later. */
static enum status settle_context(struct engine_core *core) {
    int64_t limit = core->model->position_limit;
    int64_t *context = &core->options.context_tokens;
    core->fits_context = *context == SLUICE_CONTEXT_THAT_FITS;
    if (*context == 0 || core->fits_context) {
        *context = limit < CONTEXT_TOKENS_DEFAULT ? limit : CONTEXT_TOKENS_DEFAULT;
    }
    CHECK(*context >= 1 && *context <= limit, STATUS_OUT_OF_RANGE,
          "a context of %lld tokens was asked for, but the model allows 1 to %lld (max_position_embeddings)",
          (long long)*context, (long long)limit);
    /* No step is longer than all requests together. */
    int64_t most = (core->fits_context ? limit : *context) * core->options.sequence_limit;
    if (core->options.step_token_limit > most) {
        core->options.step_token_limit = (int)most;
    }
    return STATUS_OK;
}

static struct model_stage stage_of(const struct shard_layout *layout) {
    int stage = layout->place.pipeline;
    return (struct model_stage){.first_layer = layout->first_layers[stage],
                                .end_layer = layout->first_layers[stage + 1],
                                .is_first = stage == 0,
                                .is_last = stage == layout->mesh.pipeline - 1};
}

static enum status create_model(struct engine_core *core, const struct json *config) {
    const struct model_family *family;
    int *limit = &core->options.draft.limit;
    struct model_request request = {.draft_limit = *limit < 0 ? 0 : *limit};
    struct model_stage stage;
    if (core->layout != NULL) {
        stage = stage_of(core->layout);
        request.stage = &stage;
    }
    TRY(model_family_find(config, &family));
    TRY(family->create(&core->model_arena, config, &request, &core->model));
    if (*limit < 0 && core->model->has_draft_layer) {
        request.draft_limit = DRAFTS_IF_POSSIBLE;
        TRY(family->create(&core->model_arena, config, &request, &core->model));
    }
    *limit = request.draft_limit;
    return settle_context(core);
}

static enum status create_device(struct engine_core *core) {
    unsigned threads = (unsigned)core->options.thread_count;
    TRY(backend_find(core->options.device, &core->backend));
    TRY(core->backend->device_create(&core->device));
    TRY(device_stream_create(core->device, &core->stream));
    return worker_pool_create(threads == 0 ? worker_pool_cores_allowed() : threads, &core->pool);
}

uint64_t engine_core_available_bytes(void) {
    return memory_available_bytes("/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup");
}

/* Copies of all weights may take what pages would find: a tenth is left to others. */
static struct load_options load_options_of(const struct engine_core *core) {
    struct load_options options = {.layout = core->layout};
    if (core->options.weights == SLUICE_WEIGHTS_COPIED) {
        uint64_t available = engine_core_available_bytes();
        uint64_t limit = core->options.memory_limit_bytes;
        options.copies_all = true;
        options.copy_limit_bytes = limit == 0 ? available - available / 10 : limit;
    }
    return options;
}

static enum status load_weights(struct engine_core *core, struct checkpoint **checkpoint) {
    struct tensor_spec_list *list = &core->tensors;
    struct tensor_probe probe = checkpoint_probe(*checkpoint);
    const struct model_family *family = core->model->family;
    list->arena = &core->model_arena;
    CHECK(
        core->layout == NULL || !core->layout->has_movable_experts || device_reads_host_memory(core->device),
        STATUS_UNSUPPORTED,
        "experts can move where weights are read from the files' maps, which the device \"%s\" does not do: "
        "leave --enable-eplb out",
        core->options.device);
    TRY(family->list_tensors(core->model, &probe, list));
    struct loaded_tensor *loaded = calloc(list->count, sizeof *loaded);
    CHECK_MEMORY(loaded);
    const struct load_options options = load_options_of(core);
    enum status status =
        checkpoint_load(checkpoint, list, &options, core->device, core->stream, loaded, &core->weights);
    if (status == STATUS_OK) {
        status = family->bind(core->model, list, loaded);
    }
    free(loaded);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

int32_t engine_core_draft_window(const struct engine_core *core) {
    int64_t rows = 0;
    for (int i = 0; i < core->state_table.count; i++) {
        const struct state_kind *kind = &core->state_table.kinds[i];
        if (kind->is_draft && kind->rows > rows) {
            rows = kind->rows;
        }
    }
    return (int32_t)rows;
}

bool engine_core_has_disk(const struct sluice_engine_options *options) {
    return options->has_prefix_cache && options->prefix_cache_directory != NULL;
}

int32_t engine_core_snapshot_count(const struct engine_core *core) {
    const struct sluice_engine_options *options = &core->options;
    if (!options->has_prefix_cache) {
        return 0;
    }
    return options->snapshot_limit != 0 ? options->snapshot_limit
                                        : 2 * options->sequence_limit + SNAPSHOTS_BESIDE_SEQUENCES;
}

/* Without a device sizes only. */
static enum status size_states(struct engine_core *core) {
    struct state_pool_options pool = {
        .sequence_slot_count = core->options.sequence_limit,
        .snapshot_slot_count = engine_core_snapshot_count(core),
        .context_tokens = core->options.context_tokens,
        .page_tokens = core->options.page_tokens,
    };
    return state_pool_init(&core->states, core->device, &core->state_table,
                           (enum numerics)core->options.numerics, &pool);
}

static enum status describe_states(struct engine_core *core) {
    core->state_table.arena = &core->model_arena;
    TRY(core->model->family->list_states(core->model, &core->state_table));
    return size_states(core);
}

static enum status create_executor(struct engine_core *core, struct executor_ranks *ranks) {
    int rows = core->options.step_token_limit;
    struct executor_options options = {
        .model = core->model,
        .backend = core->backend,
        .device = core->device,
        .stream = core->stream,
        .pool = core->pool,
        .states = &core->states,
        .trace = core->trace,
        .cpu_features = core->options.cpu_features,
        .numerics = (enum numerics)core->options.numerics,
        .row_limit = rows,
        .segment_limit = core->options.sequence_limit,
        .logit_row_limit = rows < LOGIT_ROWS_AT_ONCE ? rows : LOGIT_ROWS_AT_ONCE,
        .saved_row_limit = engine_core_snapshot_count(core) == 0
                               ? 0
                               : core->options.sequence_limit + engine_core_snapshot_count(core),
        .ranks = ranks,
    };
    return executor_create(&options, &core->executor);
}

enum status engine_core_set_context(struct engine_core *core, int64_t context_tokens) {
    executor_destroy(&core->executor);
    state_pool_deinit(&core->states);
    core->options.context_tokens = context_tokens;
    core->facts.context_tokens = context_tokens;
    TRY(size_states(core));
    return core->device == NULL ? STATUS_OK : create_executor(core, core->ranks);
}

struct plan_bounds engine_core_plan_bounds(const struct sluice_engine_options *options) {
    int64_t pages = (options->context_tokens + options->page_tokens - 1) / options->page_tokens;
    return (struct plan_bounds){
        .row_limit = options->step_token_limit,
        .logit_row_limit =
            round_logit_row_limit(options->sequence_limit, options->draft.limit, options->step_token_limit),
        .segment_limit = options->sequence_limit,
        .page_update_limit = (int32_t)(3 * options->sequence_limit * pages),
        .slot_operation_limit = SCHEDULER_OPERATIONS_PER_SLOT * options->sequence_limit,
        .token_limit = (int32_t)options->context_tokens,
        .page_limit = (int32_t)pages,
    };
}

int engine_core_in_flight(const struct sluice_engine_options *options) {
    return options->parallel.in_flight == 0 ? options->parallel.pipeline : options->parallel.in_flight;
}

int engine_core_round_limit(const struct sluice_engine_options *options) {
    int groups = engine_core_in_flight(options);
    return groups > 1 && groups < DRAFT_TICKS_UNDER_WAY_MAX ? groups + 1 : groups;
}

int engine_core_record_limit(const struct sluice_engine_options *options) {
    return engine_core_round_limit(options) * (engine_core_has_disk(options) ? RECORDS_PER_ROUND : 1);
}

struct round_runner_options engine_core_runner_options(const struct engine_core *core) {
    return (struct round_runner_options){
        .executor = core->executor,
        .ranks = core->ranks,
        .pool = core->pool,
        .trace = core->trace,
        .vocabulary_size = core->model->vocabulary_size,
        .sequence_limit = core->options.sequence_limit,
        .row_limit = core->options.step_token_limit,
        .draft_limit = core->options.draft.limit,
        .in_flight_limit = engine_core_round_limit(&core->options),
        .draft_sampling = (enum draft_sampling)core->options.draft.sampling,
    };
}

static size_t draft_weight_bytes(const struct engine_core *core) {
    size_t bytes = 0;
    for (size_t i = 0; i < core->tensors.count; i++) {
        const struct tensor_spec *spec = &core->tensors.specs[i];
        size_t elements = 1;
        for (int axis = 0; axis < spec->rank; axis++) {
            elements *= (size_t)spec->shape[axis];
        }
        bytes += spec->is_used && spec->stage == STAGE_DRAFT ? elements * dtype_bytes(spec->dtype) : 0;
    }
    return bytes;
}

/* The draft layer's rings, and in all other rings the rows that verified drafts need (M-22, M-23). */
static size_t draft_state_bytes(const struct engine_core *core) {
    size_t sequences = (size_t)core->options.sequence_limit;
    size_t slots = sequences + (size_t)engine_core_snapshot_count(core);
    size_t bytes = 0;
    for (int i = 0; i < core->states.count; i++) {
        const struct state_kind *kind = &core->state_table.kinds[i];
        int64_t rows = kind->is_draft ? kind->rows : core->options.draft.limit;
        if (kind->shape == STATE_RING) {
            bytes += (kind->snapshot_period == 0 ? slots : sequences) * (size_t)rows *
                     core->states.rows[i].row_bytes;
        }
    }
    return bytes;
}

static size_t draft_bytes(const struct engine_core *core, const struct round_runner_options *runner) {
    struct round_runner_options without = *runner;
    unsigned threads = worker_pool_thread_count(core->pool);
    without.draft_limit = 0;
    return draft_weight_bytes(core) + draft_state_bytes(core) + executor_draft_bytes(core->executor) +
           round_runner_bytes(runner, threads) - round_runner_bytes(&without, threads);
}

/* Everything but pages, in the ledger's words. */
static void fill_ledger(struct engine_core *core) {
    struct sluice_memory_ledger *ledger = &core->facts.memory;
    struct round_runner_options runner = engine_core_runner_options(core);
    ledger->mapped_weight_bytes = core->weights.mapped_bytes;
    ledger->copied_weight_bytes = core->weights.copied_bytes;
    ledger->slot_state_bytes = (size_t)core->options.sequence_limit * core->states.slot_bytes;
    ledger->snapshot_bytes = (size_t)engine_core_snapshot_count(core) * core->states.snapshot_bytes;
    ledger->step_bytes = executor_step_bytes(core->executor);
    ledger->host_bytes = round_runner_bytes(&runner, worker_pool_thread_count(core->pool)) +
                         executor_trace_bytes(core->executor);
    ledger->draft_bytes = core->options.draft.limit == 0 ? 0 : draft_bytes(core, &runner);
    ledger->page_tokens = core->options.page_tokens;
}

struct rank_memory engine_core_memory(struct engine_core *core) {
    const struct sluice_memory_ledger *ledger = &core->facts.memory;
    fill_ledger(core);
    core->available_bytes =
        core->available_bytes == 0 ? engine_core_available_bytes() : core->available_bytes;
    return (struct rank_memory){
        .fixed_bytes = state_pool_bytes(&core->states, 0) + ledger->copied_weight_bytes + ledger->step_bytes +
                       ledger->host_bytes,
        .page_bytes = core->states.page_bytes,
        .available_bytes = core->available_bytes,
        .ledger = *ledger,
    };
}

struct memory_plan_input engine_core_wanted_memory(const struct engine_core *core) {
    return (struct memory_plan_input){
        .limit_bytes = core->options.memory_limit_bytes,
        .page_tokens = core->options.page_tokens,
        .pages_per_sequence = core->states.pages_per_slot,
        .sequence_limit = core->options.sequence_limit,
        .has_prefix_cache = core->options.has_prefix_cache,
    };
}

enum status engine_core_alloc_states(struct engine_core *core, int32_t page_count) {
    struct sluice_memory_ledger *ledger = &core->facts.memory;
    if (engine_core_has_disk(&core->options)) {
        TRY(prefix_part_create(core, &core->prefixes));
        executor_set_prefixes(core->executor, core->prefixes);
    }
    ledger->page_count = page_count;
    TRY(state_pool_alloc(&core->states, page_count));
    ledger->page_state_bytes = core->states.bytes - ledger->slot_state_bytes - ledger->snapshot_bytes;
    ledger->token_capacity = (int64_t)page_count * ledger->page_tokens;
    /* With one node there is nothing to spread, and pages that nobody writes cost nothing. */
    if (device_reads_host_memory(core->device) && cpu_topology_memory_nodes("/sys/devices/system/node") > 1) {
        TRY(state_pool_spread(&core->states, core->pool));
    }
    return STATUS_OK;
}

/* Leaves the core with the longest context that fits, or the shortest of all: what lacks is said later. */
static enum status fit_context_alone(struct engine_core *core) {
    struct context_search search =
        context_search_begin(core->model->position_limit, core->options.page_tokens);
    bool fits = false;
    do {
        TRY(engine_core_set_context(core, context_search_tokens(&search)));
        struct rank_memory memory = engine_core_memory(core);
        struct memory_plan_input wanted = engine_core_wanted_memory(core);
        int32_t page_count;
        fits = rank_memory_agree(&memory, 1, &wanted, &page_count) == STATUS_OK;
    } while (context_search_tell(&search, fits));
    return fits ? STATUS_OK : engine_core_set_context(core, context_search_tokens(&search));
}

static enum status alloc_alone(struct engine_core *core) {
    if (core->fits_context) {
        TRY(fit_context_alone(core));
    }
    struct rank_memory memory = engine_core_memory(core);
    struct memory_plan_input wanted = engine_core_wanted_memory(core);
    int32_t page_count;
    TRY(rank_memory_agree(&memory, 1, &wanted, &page_count));
    return engine_core_alloc_states(core, page_count);
}

static void collect_facts(struct engine_core *core) {
    core->facts.vocabulary_size = core->model->vocabulary_size;
    core->facts.context_tokens = core->options.context_tokens;
    core->facts.layer_count = core->model->layer_count;
    core->facts.sequence_limit = core->options.sequence_limit;
    core->facts.draft_limit = core->options.draft.limit;
    core->facts.has_draft_layer = core->model->has_draft_layer;
    core->facts.tensor_count = core->tensors.count;
    core->facts.stage_imbalance = 1.0;
}

static enum status create_trace_in_file(struct engine_core *core, const struct trace_place *place) {
    struct trace_owner owner = {.process = (int32_t)getpid()};
    struct string_buffer path = {0};
    owner.team = core->ranks == NULL || core->ranks->epoch == 0 ? (uint64_t)owner.process
                                                                : UINT64_C(1) << 32 | core->ranks->epoch;
    trace_remains_name(core->options.trace_path, place->rank, &path);
    enum status status = string_buffer_check(&path);
    if (status == STATUS_OK) {
        status =
            tick_trace_create_in_file(place, &owner, TRACE_EVENTS, string_buffer_text(&path), &core->trace);
    }
    string_buffer_deinit(&path);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status engine_core_create_trace(struct engine_core *core) {
    const char *path = core->options.trace_path;
    const struct executor_ranks *ranks = core->ranks;
    struct trace_place place = {0};
    if (ranks != NULL) {
        place = (struct trace_place){.replica = ranks->replica, .rank = ranks->number, .stage = ranks->stage};
    }
    if (path == NULL) {
        return STATUS_OK;
    }
    if (place.rank == 0) {
        TRY(trace_file_prepare(path, core->options.trace_continues));
    }
    if (!core->options.trace_continues || !trace_remains_have_place(path)) {
        return tick_trace_create(&place, TRACE_EVENTS, &core->trace);
    }
    /* Others go on with the file if this process does not: what it records is to be there for them. */
    if (place.rank == 0) {
        trace_remains_add(path);
    }
    return create_trace_in_file(core, &place);
}

/* Everything but the state. */
static enum status build(const struct sluice_engine_options *options, const struct shard_layout *layout,
                         struct executor_ranks *ranks, const struct json *config,
                         struct checkpoint **checkpoint, struct engine_core **out) {
    enum status status = STATUS_OK;
    struct engine_core *core = calloc(1, sizeof *core);
    CHECK_MEMORY(core);
    core->options = *options;
    core->layout = layout;
    core->ranks = ranks;
    arena_init(&core->model_arena, MODEL_ARENA_BLOCK_BYTES);
    TRY_GOTO(create_model(core, config));
    if (checkpoint != NULL) {
        TRY_GOTO(engine_core_create_trace(core));
        TRY_GOTO(create_device(core));
        if (engine_core_has_disk(options)) {
            TRY_GOTO(model_digest_make(config, *checkpoint, core->digest));
        }
        TRY_GOTO(load_weights(core, checkpoint));
    }
    TRY_GOTO(describe_states(core));
    if (checkpoint != NULL) {
        TRY_GOTO(create_executor(core, ranks));
    }
    collect_facts(core);
    *out = core;
    return STATUS_OK;
fail:
    engine_core_close(&core);
    return status;
}

enum status engine_core_build(const struct sluice_engine_options *options, const struct json *config,
                              struct checkpoint **checkpoint, struct engine_core **out) {
    TRY(build(options, NULL, NULL, config, checkpoint, out));
    enum status status = alloc_alone(*out);
    if (status != STATUS_OK) {
        engine_core_close(out);
        return error_forward(status, ERROR_HERE);
    }
    return STATUS_OK;
}

static enum status open_files(const char *directory, struct json **config, struct checkpoint **checkpoint) {
    struct string_buffer path = {0};
    string_buffer_append_format(&path, "%s/config.json", directory);
    enum status status = string_buffer_check(&path);
    if (status == STATUS_OK) {
        status = json_parse_file(string_buffer_text(&path), CONFIG_BYTES_MAX, config);
    }
    string_buffer_deinit(&path);
    if (status == STATUS_OK) {
        status = checkpoint_open(directory, checkpoint);
    }
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

/* `layout` and `ranks` NULL: everything, on one rank. Without `has_weights` the configuration only. */
static enum status open_core(const struct sluice_engine_options *options, const struct shard_layout *layout,
                             struct executor_ranks *ranks, bool has_weights, struct engine_core **out) {
    struct json *config = NULL;
    struct checkpoint *checkpoint = NULL;
    *out = NULL;
    enum status status = check_options(options);
    if (status == STATUS_OK) {
        status = open_files(options->model_directory, &config, &checkpoint);
    }
    if (status == STATUS_OK) {
        status = layout == NULL && has_weights
                     ? engine_core_build(options, config, &checkpoint, out)
                     : build(options, layout, ranks, config, has_weights ? &checkpoint : NULL, out);
    }
    json_free(&config);
    checkpoint_close(&checkpoint);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status engine_core_open_rank(const struct sluice_engine_options *options,
                                  const struct shard_layout *layout, struct executor_ranks *ranks,
                                  struct engine_core **out) {
    return open_core(options, layout, ranks, true, out);
}

enum status engine_core_measure(const struct sluice_engine_options *options, struct engine_core **out) {
    return open_core(options, NULL, NULL, false, out);
}

enum status engine_core_open(const struct sluice_engine_options *options, struct engine_core **out) {
    CHECK(rank_team_replicas(&options->parallel) == 1, STATUS_UNSUPPORTED,
          "steps of %d replicas that share experts meet in each layer: one replica cannot run alone here, "
          "leave -dp out",
          options->parallel.data);
    return engine_core_open_replicas(options, out);
}

enum status engine_core_open_replicas(const struct sluice_engine_options *options,
                                      struct engine_core **cores) {
    const struct sluice_parallel_options *parallel = &options->parallel;
    const struct mesh_shape reserved = {.context = parallel->context > 1 ? parallel->context : 1};
    double started = clock_seconds();
    TRY(layout_check_reserved(&reserved));
    TRY(rank_team_size(parallel) == 1 ? open_core(options, NULL, NULL, true, cores)
                                      : rank_team_open(options, cores));
    (*cores)->facts.load_seconds = clock_seconds() - started;
    return STATUS_OK;
}

void engine_core_close(struct engine_core **core_pointer) {
    struct engine_core *core = *core_pointer;
    if (core != NULL && core->team != NULL) {
        *core_pointer = NULL;
        rank_team_close(&core->team);
        return;
    }
    if (core == NULL) {
        return;
    }
    if (core->trace != NULL && core->ranks == NULL) {
        rank_timeline_write(core->options.trace_path, &core->trace, 1);
    }
    tick_trace_destroy(&core->trace);
    prefix_part_destroy(&core->prefixes);
    executor_destroy(&core->executor);
    state_pool_deinit(&core->states);
    if (core->device != NULL) {
        weights_release(&core->weights, core->device);
    }
    worker_pool_destroy(&core->pool);
    device_stream_destroy(&core->stream);
    device_destroy(&core->device);
    arena_deinit(&core->model_arena);
    free(core);
    *core_pointer = NULL;
}
