/* Opening a model: configuration, checkpoint, weights, state, executor, in that order. */
#include "sluice/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu_topology.h"
#include "engine/engine_internal.h"
#include "lib/json.h"
#include "model/model_registry.h"

enum {
    MODEL_ARENA_BLOCK_BYTES = 1 << 20,
    CONFIG_BYTES_MAX = 16 << 20,
    CONTEXT_TOKENS_DEFAULT = 4096,
    CHUNK_TOKENS_DEFAULT = 512,
    LOGIT_ROWS_AT_ONCE = 16,
    PAGE_TOKENS = 128,
};

struct sluice_engine_options sluice_engine_options_default(void) {
    return (struct sluice_engine_options){
        .device = "cpu",
        .cpu_features = "auto",
        .numerics = SLUICE_NUMERICS_NATIVE,
        .chunk_tokens = CHUNK_TOKENS_DEFAULT,
        .session_count = 1,
    };
}

static enum status check_options(const struct sluice_engine_options *options) {
    CHECK(options->model_directory != NULL, STATUS_BAD_ARGUMENT, "no model directory was given");
    CHECK(options->device != NULL && options->cpu_features != NULL, STATUS_BAD_ARGUMENT,
          "no device or no set of processor features was given");
    CHECK(options->chunk_tokens >= 1 && options->chunk_tokens <= (1 << 20), STATUS_OUT_OF_RANGE,
          "chunk_tokens is %d, expected 1 to %d", options->chunk_tokens, 1 << 20);
    CHECK(options->session_count >= 1 && options->session_count <= 4096, STATUS_OUT_OF_RANGE,
          "session_count is %d, expected 1 to 4096", options->session_count);
    CHECK(options->thread_count >= 0 && options->thread_count <= 1024, STATUS_OUT_OF_RANGE,
          "thread_count is %d, expected 0 to 1024", options->thread_count);
    CHECK(options->draft_limit >= 0 && options->draft_limit <= 64, STATUS_OUT_OF_RANGE,
          "draft_limit is %d, expected 0 to 64", options->draft_limit);
    return STATUS_OK;
}

/* Works out the context length once the model's limit is known. */
static enum status settle_context(struct sluice_engine *engine) {
    int64_t limit = engine->model->position_limit;
    int64_t *context = &engine->options.context_tokens;
    if (*context == 0) {
        *context = limit < CONTEXT_TOKENS_DEFAULT ? limit : CONTEXT_TOKENS_DEFAULT;
    }
    CHECK(*context >= 1 && *context <= limit, STATUS_OUT_OF_RANGE,
          "a context of %lld tokens was asked for, but the model allows 1 to %lld (max_position_embeddings)",
          (long long)*context, (long long)limit);
    if (engine->options.chunk_tokens > *context) {
        engine->options.chunk_tokens = (int)*context;
    }
    return STATUS_OK;
}

static enum status create_model(struct sluice_engine *engine, const struct json *config) {
    const struct model_family *family;
    struct model_request request = {.draft_limit = engine->options.draft_limit};
    TRY(model_family_find(config, &family));
    TRY(family->create(&engine->model_arena, config, &request, &engine->model));
    return settle_context(engine);
}

static enum status create_device(struct sluice_engine *engine) {
    unsigned threads = (unsigned)engine->options.thread_count;
    TRY(backend_find(engine->options.device, &engine->backend));
    TRY(engine->backend->device_create(&engine->device));
    TRY(device_stream_create(engine->device, &engine->stream));
    TRY(worker_pool_create(threads == 0 ? worker_pool_cores_allowed() : threads, &engine->pool));
    return STATUS_OK;
}

static enum status load_weights(struct sluice_engine *engine, struct checkpoint **checkpoint) {
    struct tensor_spec_list *list = &engine->tensors;
    struct tensor_probe probe = checkpoint_probe(*checkpoint);
    const struct model_family *family = engine->model->family;
    list->arena = &engine->model_arena;
    TRY(family->list_tensors(engine->model, &probe, list));
    struct loaded_tensor *loaded = calloc(list->count, sizeof *loaded);
    CHECK_MEMORY(loaded);
    enum status status =
        checkpoint_load(checkpoint, list, engine->device, engine->stream, loaded, &engine->weights);
    if (status == STATUS_OK) {
        status = family->bind(engine->model, list, loaded);
    }
    free(loaded);
    engine->facts.tensor_count = list->count;
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status describe_states(struct sluice_engine *engine) {
    const struct sluice_engine_options *options = &engine->options;
    const struct state_pool_options pool = {
        .sequence_slot_count = options->session_count,
        .context_tokens = options->context_tokens,
        .page_tokens = PAGE_TOKENS,
    };
    engine->state_table.arena = &engine->model_arena;
    TRY(engine->model->family->list_states(engine->model, &engine->state_table));
    return state_pool_init(&engine->states, engine->device, &engine->state_table,
                           (enum numerics)options->numerics, &pool);
}

static enum status create_states(struct sluice_engine *engine) {
    const struct sluice_engine_options *options = &engine->options;
    TRY(state_pool_alloc(&engine->states, options->session_count * engine->states.pages_per_slot));
    /* With one node there is nothing to spread, and pages that nobody writes cost nothing. */
    if (device_reads_host_memory(engine->device) &&
        cpu_topology_memory_nodes("/sys/devices/system/node") > 1) {
        TRY(state_pool_spread(&engine->states, engine->pool));
    }
    TRY(state_pool_map_own_pages(&engine->states, engine->stream));
    engine->slot_is_used = calloc((size_t)options->session_count, sizeof *engine->slot_is_used);
    CHECK_MEMORY(engine->slot_is_used);
    return STATUS_OK;
}

static enum status create_executor(struct sluice_engine *engine) {
    struct executor_options options = {
        .model = engine->model,
        .backend = engine->backend,
        .device = engine->device,
        .stream = engine->stream,
        .pool = engine->pool,
        .states = &engine->states,
        .cpu_features = engine->options.cpu_features,
        .numerics = (enum numerics)engine->options.numerics,
        .row_limit = engine->options.chunk_tokens,
        .segment_limit = engine->options.session_count,
        .logit_row_limit = engine->options.chunk_tokens < LOGIT_ROWS_AT_ONCE ? engine->options.chunk_tokens
                                                                             : LOGIT_ROWS_AT_ONCE,
    };
    TRY(executor_create(&options, &engine->executor));
    return sampler_workspace_create((size_t)engine->model->vocabulary_size, &engine->sampler);
}

static void collect_facts(struct sluice_engine *engine) {
    struct sluice_engine_facts *facts = &engine->facts;
    facts->vocabulary_size = engine->model->vocabulary_size;
    facts->context_tokens = engine->options.context_tokens;
    facts->layer_count = engine->model->layer_count;
    facts->mapped_bytes = engine->weights.mapped_bytes;
    facts->copied_bytes = engine->weights.copied_bytes;
    facts->state_bytes = engine->states.bytes;
    facts->step_bytes = executor_step_bytes(engine->executor);
}

enum status engine_build(const struct sluice_engine_options *options, const struct json *config,
                         struct checkpoint **checkpoint, struct sluice_engine **out) {
    enum status status = STATUS_OK;
    struct sluice_engine *engine = calloc(1, sizeof *engine);
    CHECK_MEMORY(engine);
    engine->options = *options;
    arena_init(&engine->model_arena, MODEL_ARENA_BLOCK_BYTES);
    TRY_GOTO(create_model(engine, config));
    TRY_GOTO(create_device(engine));
    TRY_GOTO(load_weights(engine, checkpoint));
    TRY_GOTO(describe_states(engine));
    TRY_GOTO(create_executor(engine));
    TRY_GOTO(create_states(engine));
    collect_facts(engine);
    *out = engine;
    return STATUS_OK;
fail:
    sluice_engine_close(&engine);
    return status;
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

enum sluice_status sluice_engine_open(const struct sluice_engine_options *options,
                                      struct sluice_engine **out) {
    double started = clock_seconds();
    struct json *config = NULL;
    struct checkpoint *checkpoint = NULL;
    *out = NULL;
    enum status status = check_options(options);
    if (status == STATUS_OK) {
        status = open_files(options->model_directory, &config, &checkpoint);
    }
    if (status == STATUS_OK) {
        status = engine_build(options, config, &checkpoint, out);
    }
    json_free(&config);
    checkpoint_close(&checkpoint);
    if (status == STATUS_OK) {
        (*out)->facts.load_seconds = clock_seconds() - started;
    }
    return (enum sluice_status)status;
}

void sluice_engine_close(struct sluice_engine **engine_pointer) {
    struct sluice_engine *engine = *engine_pointer;
    if (engine == NULL) {
        return;
    }
    executor_destroy(&engine->executor);
    sampler_workspace_destroy(&engine->sampler);
    state_pool_deinit(&engine->states);
    if (engine->device != NULL) {
        weights_release(&engine->weights, engine->device);
    }
    worker_pool_destroy(&engine->pool);
    device_stream_destroy(&engine->stream);
    device_destroy(&engine->device);
    free(engine->slot_is_used);
    arena_deinit(&engine->model_arena);
    free(engine);
    *engine_pointer = NULL;
}

struct sluice_engine_facts sluice_engine_facts(const struct sluice_engine *engine) {
    return engine->facts;
}
