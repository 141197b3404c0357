/* Choices are made in as many places as there are ranks, from the same numbers. */
#include "engine/rank_team_sharing.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/string_buffer.h"
#include "engine/executor_ranks.h"
#include "engine/stage_probe.h"

enum { POINTS = 2 };

static bool is_first(const struct rank_team_sharing *sharing) {
    return sharing->team.job == NULL || sharing->team.job->rank == 0;
}

/* Whether the ranks of a stage share rows at all. */
static bool shares_rows(const struct engine_core *sizes) {
    const struct sluice_parallel_options *parallel = &sizes->options.parallel;
    return parallel->tensor > 1 &&
           sizes->options.step_token_limit >= executor_ranks_shared_rows_min(parallel);
}

static int first_rank_of(const struct rank_team_sharing *sharing, int replica, int stage) {
    return mesh_rank_of(sharing->team.mesh, &(struct mesh_place){.data = replica, .pipeline = stage});
}

static bool is_local(const struct rank_team_sharing *sharing, int replica, int stage) {
    int first = first_rank_of(sharing, replica, stage);
    for (int i = 1; i < sharing->team.mesh->tensor && sharing->team.job != NULL; i++) {
        if (sharing->team.job->host_numbers[first + i] != sharing->team.job->host_numbers[first]) {
            return false;
        }
    }
    return true;
}

static bool are_all_local(const struct rank_team_sharing *sharing) {
    bool are_local = true;
    for (int replica = 0; replica < sharing->team.mesh->data; replica++) {
        for (int stage = 0; stage < sharing->team.mesh->pipeline; stage++) {
            are_local = are_local && is_local(sharing, replica, stage);
        }
    }
    return are_local;
}

static struct sharing_rates rates_of(const struct rank_team_sharing *sharing, int replica, int stage) {
    bool is_in_host = is_local(sharing, replica, stage);
    struct sharing_rates rates = device_profile_sharing_rates(&sharing->device, is_in_host);
    if (!is_in_host && rates.link_bytes_per_second == 0.0) {
        const struct sluice_job *job = sharing->team.job;
        struct job_link link =
            job_links_slowest(job->links, job->size, job->host_numbers,
                              first_rank_of(sharing, replica, stage), sharing->team.mesh->tensor);
        rates.link_bytes_per_second = link.bytes_per_second;
        rates.link_latency_seconds = link.latency_seconds;
    }
    return rates;
}

/* Steps of one row read, those of a prompt compute. */
static enum status measure(const struct rank_team_sharing *sharing, const struct engine_core *sizes,
                           const struct stage_bytes *bytes, double *layer_seconds,
                           struct device_profile *out) {
    const struct model *model = sizes->model;
    struct stage_probe probe = {&sizes->options, model, sharing->team.threads_per_rank};
    const struct stage_point points[POINTS] = {stage_point_of_decoding(1, 0),
                                               stage_point_of_prompt(sizes->options.step_token_limit)};
    struct stage_costs costs[POINTS] = {{.layers = layer_seconds},
                                        {.layers = layer_seconds + model->layer_count}};
    struct step_work work[POINTS] = {{0}};
    double seconds[POINTS] = {0};
    TRY(stage_probe_measure(&probe, bytes, points, POINTS, costs));
    for (int i = 0; i < POINTS; i++) {
        for (int l = 0; l < model->layer_count; l++) {
            struct step_work of_layer = stage_point_layer_work(&points[i], model, bytes, l);
            work[i].bytes += of_layer.bytes;
            work[i].operations += of_layer.operations;
            seconds[i] += costs[i].layers[l];
        }
    }
    stage_probe_split(&work[0], seconds[0], &work[1], seconds[1], &out->read_bytes_per_second,
                      &out->operations_per_second);
    out->read_share = 1.0;
    out->compute_share = 1.0;
    return STATUS_OK;
}

/* What is not measured stays unknown, and the log says why. */
static enum status measure_device(struct rank_team_sharing *sharing, const struct engine_core *sizes) {
    struct stage_bytes bytes;
    const struct stage_memory memory = {.states = &sizes->state_table, .pool = sizes->states.options};
    size_t layers = (size_t)sizes->model->layer_count;
    double *seconds = calloc(POINTS * layers, sizeof *seconds);
    CHECK_MEMORY(seconds);
    enum status status =
        stage_bytes_sum(sizes->model, (enum numerics)sizes->options.numerics, &memory, &bytes);
    if (status == STATUS_OK && measure(sharing, sizes, &bytes, seconds, &sharing->device) != STATUS_OK) {
        log_write(LOG_INFO, "engine", "how fast ranks read and compute is not known: %s",
                  error_last()->message);
    }
    stage_bytes_deinit(&bytes);
    free(seconds);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status rank_team_sharing_find(struct rank_team_sharing *sharing, const struct engine_core *sizes) {
    const struct sluice_parallel_options *parallel = &sizes->options.parallel;
    bool is_asked = parallel->row_gather != SLUICE_ROW_GATHER_AUTO &&
                    parallel->shared_experts != SLUICE_SHARED_EXPERTS_AUTO;
    sharing->device = device_profile_default();
    sharing->gathers_late = calloc((size_t)sizes->model->layer_count + 1, sizeof *sharing->gathers_late);
    CHECK_MEMORY(sharing->gathers_late);
    if (!is_first(sharing) || !shares_rows(sizes)) {
        return STATUS_OK;
    }
    if (sizes->options.device_profile != NULL) {
        return device_profile_read(sizes->options.device_profile, &sharing->device);
    }
    return is_asked || are_all_local(sharing) ? STATUS_OK : measure_device(sharing, sizes);
}

enum status rank_team_sharing_share(struct rank_team_sharing *sharing) {
    return sharing->team.job == NULL
               ? STATUS_OK
               : comm_broadcast_host(sharing->team.everyone, 0, &sharing->device, sizeof sharing->device);
}

bool rank_team_sharing_has_whole_experts(const struct rank_team_sharing *sharing,
                                         const struct engine_core *sizes, int replica, int stage) {
    struct sharing_rates rates = rates_of(sharing, replica, stage);
    return executor_ranks_have_whole_experts(&sizes->options.parallel, sizes->model,
                                             sizes->options.step_token_limit, &rates);
}

/* Numbers that are known, of the first stage. */
static void append_rates(const struct rank_team_sharing *sharing, struct string_buffer *out) {
    struct sharing_rates rates = rates_of(sharing, 0, 0);
    const struct {
        const char *format;
        double number;
    } known[] = {{" a link of %.3g GB/s", rates.link_bytes_per_second / 1e9},
                 {" reading at %.3g GB/s", rates.read_bytes_per_second / 1e9},
                 {" %.3g T operations/s", rates.operations_per_second / 1e12}};
    const char *separator = ":";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].number > 0.0) {
            string_buffer_append_format(out, "%s", separator);
            string_buffer_append_format(out, known[i].format, known[i].number);
            separator = ",";
        }
    }
}

static void report(const struct rank_team_sharing *sharing, const struct engine_core *sizes) {
    const struct sluice_parallel_options *parallel = &sizes->options.parallel;
    struct string_buffer text = {0};
    int layers = sizes->model->layer_count;
    int late = 0;
    int whole = 0;
    for (int l = 0; l < layers; l++) {
        late += sharing->gathers_late[l];
    }
    for (int s = 0; s < sharing->team.mesh->pipeline; s++) {
        whole += rank_team_sharing_has_whole_experts(sharing, sizes, 0, s);
    }
    string_buffer_append_format(
        &text,
        "attention gathers late in %d layers and early in %d%s, shared experts are whole in %d of %d "
        "stages%s; ",
        late, layers - late, parallel->row_gather == SLUICE_ROW_GATHER_AUTO ? "" : " as was asked for", whole,
        sharing->team.mesh->pipeline,
        parallel->shared_experts == SLUICE_SHARED_EXPERTS_AUTO ? "" : " as was asked for");
    string_buffer_append_format(&text, "%s",
                                sizes->options.device_profile != NULL ? "by the profile"
                                : are_all_local(sharing)              ? "messages are copies"
                                                                      : "measured");
    append_rates(sharing, &text);
    log_write(LOG_INFO, "engine", "shared rows: %s", string_buffer_text(&text));
    string_buffer_deinit(&text);
}

/* The draft layer is on the last stage. */
void rank_team_sharing_choose(struct rank_team_sharing *sharing, const struct engine_core *sizes,
                              const int *first_layers) {
    const struct model *model = sizes->model;
    enum dtype activation = numerics_activation_dtype((enum numerics)sizes->options.numerics);
    int replica =
        sharing->team.job == NULL ? 0 : mesh_place_of(sharing->team.mesh, sharing->team.job->rank).data;
    int stage = 0;
    for (int layer = 0; layer <= model->layer_count; layer++) {
        while (stage < sharing->team.mesh->pipeline - 1 && layer >= first_layers[stage + 1]) {
            stage++;
        }
        struct attention_rows rows;
        struct sharing_rates rates = rates_of(sharing, replica, stage);
        model->family->describe_attention_rows(model, activation, layer, &rows);
        sharing->gathers_late[layer] = executor_ranks_gathers_late(&sizes->options.parallel, &rates, &rows);
    }
    if (is_first(sharing) && shares_rows(sizes)) {
        report(sharing, sizes);
    }
}

void rank_team_sharing_deinit(struct rank_team_sharing *sharing) {
    free(sharing->gathers_late);
    sharing->gathers_late = NULL;
}
