/* `sluice plan`: the options as a planning job, and its report. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/engine_options.h"
#include "tools/plan_run.h"

static void read_layout(const struct cli_options *options, struct plan_request *request) {
    int tensor = (int)options->tensor_parallel_size;
    int data = (int)options->data_parallel_size;
    request->mesh = (struct mesh_shape){.data = data,
                                        .pipeline = (int)options->pipeline_parallel_size,
                                        .context = (int)options->context_parallel_size,
                                        .tensor = tensor};
    request->mesh.has_expert_parallelism =
        options->enable_expert_parallel_given ? options->enable_expert_parallel : data * tensor > 1;
    request->has_sequence_parallelism = options->sp != SLUICE_ROW_SHARING_OFF && tensor > 1;
    request->layer_partition = options->pp_layer_partition;
}

/* As the engine is told; what is left open it chooses itself, and so does the plan. */
static void read_sharing(const struct sluice_parallel_options *parallel, struct plan_request *request) {
    request->shared_rows_min = parallel->shared_rows_min;
    request->row_gather = parallel->row_gather;
    request->expert_exchange = parallel->expert_exchange;
    request->shared_experts = parallel->shared_experts;
}

/* A search has layouts of its own, so that a part of one would be passed over in silence. */
static enum status check_search(const struct cli_options *options, bool has_layout) {
    bool has_parts =
        options->enable_expert_parallel_given || options->sp_given || options->pp_layer_partition != NULL;
    CHECK(has_layout || !has_parts, STATUS_USAGE,
          "-ep, --sp and --pp-layer-partition are parts of a layout: name it by -tp, -pp or -dp");
    CHECK(!has_layout || options->scale == NULL, STATUS_USAGE,
          "--scale searches the layouts itself: leave out -tp, -pp and -dp");
    return STATUS_OK;
}

enum status command_plan(const struct cli_options *options, int word_count, char **words) {
    (void)word_count;
    (void)words;
    struct cli_engine_options engine;
    struct string_buffer report = {0};
    struct plan_job job = {.config_path = options->config,
                           .model_directory = options->model,
                           .request = plan_request_default(),
                           .scale = options->scale,
                           .is_json = options->json};
    TRY(cli_engine_options_read(options, 0, &engine));
    CHECK(options->max_model_len != OPTION_INT_WORD, STATUS_USAGE,
          "plan says for each context how many of its sequences fit: give --max-model-len as a number");
    job.machine = (struct plan_machine_request){.gpus = options->gpus,
                                                .hosts = options->hosts,
                                                .link = options->link,
                                                .profile = options->profile,
                                                .memory_share = options->gpu_memory_utilization};
    job.request.numerics = (enum numerics)engine.engine.numerics;
    job.request.context_tokens = options->max_model_len;
    job.request.sequence_limit = (int32_t)options->max_num_seqs;
    job.request.step_tokens = engine.engine.step_token_limit;
    job.request.draft_limit = engine.engine.draft.limit;
    job.request.chooses_drafts = engine.engine.draft.is_adaptive;
    job.request.objective = engine.engine.parallel.objective;
    job.request.has_movable_experts = engine.engine.parallel.has_movable_experts;
    job.request.expert_copies = engine.engine.parallel.expert_copies;
    job.request.page_tokens = options->block_size;
    job.request.groups_in_flight = (int)options->pp_inflight;
    job.request.boundary_buffers = (int)options->pp_buffers;
    job.request.has_prefix_cache = options->enable_prefix_caching;
    job.request.thread_count = options->threads > 0 ? (unsigned)options->threads : 1;
    job.has_layout = options->tensor_parallel_size_given || options->pipeline_parallel_size_given ||
                     options->data_parallel_size_given || options->context_parallel_size > 1;
    TRY(check_search(options, job.has_layout));
    read_layout(options, &job.request);
    read_sharing(&engine.engine.parallel, &job.request);
    enum status status = plan_run(&job, &report);
    if (status == STATUS_OK && fwrite(report.data, 1, report.length, stdout) != report.length) {
        status = error_raise(STATUS_IO, ERROR_HERE, "the report could not be written");
    }
    string_buffer_deinit(&report);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
