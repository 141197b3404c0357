/* After a lost rank nothing is ended in order: that could wait for the lost one. */
#include "cli/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/engine_options.h"
#include "launch/launcher.h"
#include "launch/rank_environment.h"
#include "lib/secret_file.h"

enum { EXIT_CODE_USAGE = 2, PREFIX_BYTES = 128 };

static enum status launch(const struct cli_options *options, int rank_count, struct cli_ranks *out) {
    const struct launcher_options launcher = {.rank_count = rank_count,
                                              .hosts = options->hosts,
                                              .network = options->rank_network,
                                              .secret_file = options->peer_secret_file,
                                              .deadline_seconds = options->deadline_seconds};
    struct job_supervisor_verdict verdict;
    out->role = CLI_ROLE_LAUNCHER;
    TRY(launcher_run(&launcher, &verdict));
    out->exit_code = verdict.exit_code;
    CHECK(verdict.sentence[0] == '\0', verdict.exit_code == EXIT_CODE_USAGE ? STATUS_USAGE : STATUS_PEER_LOST,
          "%s", verdict.sentence);
    return STATUS_OK;
}

/* Lines of other ranks than the first say whose they are. */
static void mark_lines(int rank) {
    char host[64] = "";
    char prefix[PREFIX_BYTES];
    gethostname(host, sizeof host - 1);
    snprintf(prefix, sizeof prefix, "rank %d on host %s: ", rank, host);
    if (rank > 0) {
        log_set_prefix(prefix);
    }
}

static enum status open_link(const struct cli_options *options, const struct rank_environment *environment,
                             struct control_link **out) {
    struct control_link_options link = {
        .address = environment->control, .rank = environment->rank, .rank_count = environment->rank_count};
    if (options->peer_secret_file != NULL) {
        TRY(secret_file_read(options->peer_secret_file, &link.key));
    } else {
        string_buffer_append_text(&link.key, environment->key == NULL ? "" : environment->key);
    }
    return control_link_open(&link, out);
}

static void describe_job(void *context, char *text, size_t bytes) {
    sluice_job_describe(context, text, bytes);
}

static enum status join(const struct cli_options *options, const struct rank_environment *environment,
                        struct cli_ranks *out) {
    out->role = environment->rank == 0 ? CLI_ROLE_LEADER : CLI_ROLE_FOLLOWER;
    mark_lines(environment->rank);
    if (environment->control != NULL) {
        TRY(open_link(options, environment, &out->link));
    }
    const struct sluice_job_options job = {.deadline_seconds = options->deadline_seconds,
                                           .peer_secret_file = options->peer_secret_file};
    TRY((enum status)sluice_job_join(&job, &out->job));
    if (out->link != NULL) {
        control_link_set_describe(out->link, describe_job, out->job);
    }
    return STATUS_OK;
}

/* As it was asked for; else several hosts need processes, and who was started as one is one. */
static enum status choose_processes(const struct cli_options *options,
                                    const struct rank_environment *environment, int64_t rank_count,
                                    bool *has_processes) {
    int64_t backend = options->distributed_executor_backend;
    CHECK(
        options->hosts == NULL || backend != CLI_BACKEND_THREADS, STATUS_USAGE,
        "ranks on the hosts of --hosts are processes, not threads: leave --distributed-executor-backend out");
    CHECK(options->hosts == NULL || rank_count > 1, STATUS_USAGE,
          "--hosts names hosts for several ranks, but there is one: add -pp or -tp");
    *has_processes = backend == CLI_BACKEND_MPI || backend == CLI_BACKEND_MP || options->hosts != NULL ||
                     (backend == CLI_BACKEND_AUTO && environment->is_rank && environment->rank_count > 1);
    return STATUS_OK;
}

enum status cli_ranks_enter(const struct cli_options *options, struct cli_ranks *out) {
    int64_t replicas = cli_replicas_share_experts(options) ? options->data_parallel_size : 1;
    int64_t rank_count = replicas * options->tensor_parallel_size * options->pipeline_parallel_size;
    struct rank_environment environment = rank_environment_read();
    bool has_processes = false;
    *out = (struct cli_ranks){.role = CLI_ROLE_ALONE};
    CHECK(options->data_parallel_size <= 1 || cli_replicas_share_experts(options), STATUS_USAGE,
          "%lld replicas that share nothing are several servers in one, which is for serve: add "
          "--enable-expert-parallel, or leave -dp out",
          (long long)options->data_parallel_size);
    TRY(choose_processes(options, &environment, rank_count, &has_processes));
    if (rank_count <= 1 || !has_processes) {
        return STATUS_OK;
    }
    CHECK(rank_count <= JOB_SUPERVISOR_RANKS_MAX, STATUS_USAGE,
          "%lld ranks were asked for; 1 to %d are possible: lower -tp, -pp or -dp", (long long)rank_count,
          JOB_SUPERVISOR_RANKS_MAX);
    return environment.is_rank ? join(options, &environment, out) : launch(options, (int)rank_count, out);
}

enum status cli_ranks_follow(struct cli_ranks *ranks, const struct cli_options *options) {
    struct cli_engine_options engine;
    TRY(cli_engine_options_read(options, 0, &engine));
    return (enum status)sluice_job_follow(ranks->job, &engine.engine);
}

void cli_ranks_leave(struct cli_ranks *ranks, enum status status, int exit_code) {
    char message[ERROR_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", status == STATUS_OK ? "" : error_last()->message);
    if (ranks->link != NULL) {
        control_link_set_describe(ranks->link, NULL, NULL);
    }
    if (status != STATUS_PEER_LOST) {
        sluice_job_leave(&ranks->job);
    }
    if (ranks->link != NULL && status == STATUS_OK) {
        control_link_leave(&ranks->link, exit_code);
    } else if (ranks->link != NULL) {
        fflush(NULL);
        control_link_fail(&ranks->link, exit_code, status, message);
        _exit(exit_code);
    }
}
