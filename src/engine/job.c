/* The leader's orders go over the group of all processes; each engine has groups of its own. */
#include "sluice/job.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/comm_mpi.h"
#include "engine/job_internal.h"
#include "engine/job_links.h"
#include "engine/rank_team.h"
#include "engine/rank_team_groups.h"
#include "lib/hash.h"
#include "lib/secret_file.h"

enum {
    ENGINES_AT_ONCE_MAX = (COMM_MPI_GROUP_IDS - 1) / JOB_GROUPS_PER_TEAM,
    REPLICA_TEXT_BYTES = 48,
};

/* Whose memory and cores are whose: processes that give their host the same name share it. */
static enum status learn_hosts(struct sluice_job *job) {
    size_t offsets[TEAM_RANKS_MAX + 1];
    struct job_host own = {.name = ""};
    gethostname(own.name, sizeof own.name - 1);
    for (int i = 0; i <= job->size; i++) {
        offsets[i] = (size_t)i * sizeof own;
    }
    job->hosts = calloc((size_t)job->size, sizeof *job->hosts);
    job->host_numbers = calloc((size_t)job->size, sizeof *job->host_numbers);
    CHECK_MEMORY(job->hosts);
    CHECK_MEMORY(job->host_numbers);
    TRY(comm_gather(job->world, NULL, &own, offsets, job->hosts));
    for (int rank = 0; rank < job->size; rank++) {
        int first = 0;
        while (strcmp(job->hosts[first].name, job->hosts[rank].name) != 0) {
            first++;
        }
        job->host_numbers[rank] = first;
    }
    return STATUS_OK;
}

/* Rank 0 tells of slow ones. */
static enum status look_at_links(struct sluice_job *job) {
    const char *names[TEAM_RANKS_MAX];
    struct string_buffer slow = {0};
    for (int rank = 0; rank < job->size; rank++) {
        names[rank] = job->hosts[rank].name;
    }
    TRY(job_links_measure(job->world, job->host_numbers, job->links));
    job_links_describe_slow(job->links, job->size, names, &slow);
    const char *line = string_buffer_text(&slow);
    for (size_t length; job->rank == 0 && (length = strcspn(line, "\n")) > 0; line += length + 1) {
        log_write(LOG_WARNING, "job", "%.*s", (int)length, line);
    }
    string_buffer_deinit(&slow);
    return STATUS_OK;
}

int job_host_rank_count(const struct sluice_job *job) {
    int count = 0;
    for (int rank = 0; rank < job->size; rank++) {
        count += job->host_numbers[rank] == job->host_numbers[job->rank];
    }
    return count;
}

static enum status join(struct sluice_job *job, const struct sluice_job_options *options) {
    job->deadline_seconds = options->deadline_seconds > 0 ? options->deadline_seconds : JOB_DEADLINE_SECONDS;
    if (options->peer_secret_file != NULL) {
        TRY(secret_file_read(options->peer_secret_file, &job->secret));
    }
    TRY(comm_mpi_start(JOB_START_FACTOR * job->deadline_seconds, &job->world));
    job->rank = comm_rank(job->world);
    job->size = comm_size(job->world);
    CHECK(job->size <= TEAM_RANKS_MAX, STATUS_UNSUPPORTED, "the job has %d processes; 1 to %d are possible",
          job->size, TEAM_RANKS_MAX);
    comm_set_deadline(job->world, JOB_START_FACTOR * job->deadline_seconds);
    comm_set_idle_deadline(job->world, COMM_NO_DEADLINE_SECONDS);
    comm_set_name(job->world, "all processes of the job");
    TRY(learn_hosts(job));
    if (job_host_rank_count(job) < job->size) {
        TRY(comm_mpi_keep_moving(job->world));
        TRY(look_at_links(job));
    }
    return STATUS_OK;
}

enum sluice_status sluice_job_join(const struct sluice_job_options *options, struct sluice_job **out) {
    *out = NULL;
    struct sluice_job *job = calloc(1, sizeof *job);
    enum status status = STATUS_OUT_OF_MEMORY;
    if (job != NULL) {
        status = join(job, options);
    }
    if (status != STATUS_OK) {
        if (job != NULL && job->world != NULL) {
            comm_abort(job->world, error_last()->message);
        }
        job_free(&job);
        return (enum sluice_status)error_forward(status, ERROR_HERE);
    }
    *out = job;
    return SLUICE_OK;
}

void job_free(struct sluice_job **job_pointer) {
    struct sluice_job *job = *job_pointer;
    *job_pointer = NULL;
    if (job != NULL) {
        comm_destroy(&job->world);
        string_buffer_deinit(&job->secret);
        free(job->hosts);
        free(job->host_numbers);
        free(job);
    }
}

int sluice_job_rank(const struct sluice_job *job) {
    return job->rank;
}

int sluice_job_size(const struct sluice_job *job) {
    return job->size;
}

void sluice_job_describe(struct sluice_job *job, char *text, size_t bytes) {
    int stage_count = atomic_load(&job->stage_count);
    int replica_count = atomic_load(&job->replica_count);
    const char *operation = atomic_load(&job->watch.operation);
    char replica[REPLICA_TEXT_BYTES] = "";
    if (stage_count == 0) {
        snprintf(text, bytes, "no engine open");
        return;
    }
    if (replica_count > 1) {
        snprintf(replica, sizeof replica, "replica %d of %d, ", atomic_load(&job->replica), replica_count);
    }
    snprintf(text, bytes, "%sstage %d of %d, tick %llu, %s%s", replica, atomic_load(&job->stage), stage_count,
             (unsigned long long)atomic_load(&job->watch.tick),
             operation == NULL ? "computing" : "waiting in ", operation == NULL ? "" : operation);
}

enum status job_order_engine(struct sluice_job *job, const struct sluice_engine_options *options,
                             struct job_order *out) {
    *out = (struct job_order){
        .numerics = (int32_t)options->numerics,
        .weights = (int32_t)options->weights,
        .thread_count = options->thread_count,
        .step_token_limit = options->step_token_limit,
        .sequence_limit = options->sequence_limit,
        .page_tokens = options->page_tokens,
        .has_prefix_cache = options->has_prefix_cache,
        .snapshot_limit = options->snapshot_limit,
        .draft_limit = options->draft.limit,
        .has_trace = options->trace_path != NULL,
        .trace_continues = options->trace_continues,
        .parallel = options->parallel,
        .context_tokens = options->context_tokens,
        .prefix_cache_disk_bytes = options->prefix_cache_disk_bytes,
        .number = job->order_count++,
    };
    const char *directory = options->prefix_cache_directory == NULL ? "" : options->prefix_cache_directory;
    CHECK(strlen(directory) < sizeof out->prefix_cache_directory, STATUS_BAD_ARGUMENT,
          "the path of the prefix cache's directory has %zu bytes, at most %zu fit: choose a shorter one",
          strlen(directory), sizeof out->prefix_cache_directory - 1);
    out->parallel.job = NULL;
    snprintf(out->device, sizeof out->device, "%s", options->device);
    snprintf(out->cpu_features, sizeof out->cpu_features, "%s", options->cpu_features);
    snprintf(out->prefix_cache_directory, sizeof out->prefix_cache_directory, "%s", directory);
    TRY(hash_random_bytes(out->nonce, sizeof out->nonce));
    TRY(comm_broadcast_host(job->world, 0, out, sizeof *out));
    return STATUS_OK;
}

enum status job_make_group(struct sluice_job *job, const struct job_order *order, int kind, const int *ranks,
                           int count, struct comm **out) {
    int first_id = 1 + (int)(order->number % ENGINES_AT_ONCE_MAX) * JOB_GROUPS_PER_TEAM;
    return comm_mpi_group(job->world, ranks, count, first_id + kind, out);
}

/* An engine that this process has a part in. */
struct followed {
    struct followed *next;
    struct sluice_engine_options options;
    struct job_order order;
    pthread_t thread;
    enum status status;
    char message[ERROR_MESSAGE_BYTES];
};

static void *follow_engine(void *context) {
    struct followed *followed = context;
    followed->status = rank_team_follow(&followed->options, &followed->order);
    if (followed->status != STATUS_OK) {
        snprintf(followed->message, sizeof followed->message, "%s", error_last()->message);
        comm_abort(followed->options.parallel.job->world, followed->message);
    }
    return NULL;
}

/* Own options, but for what the leader has decided. */
static struct sluice_engine_options
options_of(struct sluice_job *job, const struct sluice_engine_options *own, const struct job_order *order) {
    struct sluice_engine_options options = *own;
    options.device = order->device;
    options.cpu_features = order->cpu_features;
    options.numerics = (enum sluice_numerics)order->numerics;
    options.weights = (enum sluice_weights)order->weights;
    options.thread_count = order->thread_count;
    options.context_tokens = order->context_tokens;
    options.step_token_limit = order->step_token_limit;
    options.sequence_limit = order->sequence_limit;
    options.page_tokens = order->page_tokens;
    options.has_prefix_cache = order->has_prefix_cache != 0;
    options.prefix_cache_directory =
        order->prefix_cache_directory[0] == '\0' ? NULL : order->prefix_cache_directory;
    options.prefix_cache_disk_bytes = order->prefix_cache_disk_bytes;
    options.snapshot_limit = order->snapshot_limit;
    options.draft = (struct sluice_draft_options){.limit = order->draft_limit};
    /* The leader writes it; what is recorded here lies beside it until then, if this process knows where. */
    const char *trace_path = own->trace_path == NULL ? "" : own->trace_path;
    options.trace_path = order->has_trace != 0 ? trace_path : NULL;
    options.trace_continues = order->trace_continues != 0;
    options.parallel = order->parallel;
    options.parallel.job = job;
    return options;
}

static enum status start_following(struct sluice_job *job, const struct sluice_engine_options *own,
                                   const struct job_order *order, struct followed **list) {
    struct followed *followed = calloc(1, sizeof *followed);
    CHECK_MEMORY(followed);
    followed->order = *order;
    followed->options = options_of(job, own, &followed->order);
    int error = pthread_create(&followed->thread, NULL, follow_engine, followed);
    if (error != 0) {
        free(followed);
        FAIL(STATUS_OUT_OF_MEMORY, "a thread for an engine cannot be started (error %d)", error);
    }
    followed->next = *list;
    *list = followed;
    return STATUS_OK;
}

static enum status join_followed(struct followed **list) {
    enum status status = STATUS_OK;
    while (*list != NULL) {
        struct followed *followed = *list;
        *list = followed->next;
        pthread_join(followed->thread, NULL);
        if (followed->status != STATUS_OK) {
            status = followed->status;
            error_raise(status, ERROR_HERE, "%s", followed->message);
        }
        free(followed);
    }
    return status;
}

enum sluice_status sluice_job_follow(struct sluice_job *job, const struct sluice_engine_options *options) {
    struct job_order order = {.is_last = 0};
    struct followed *list = NULL;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && order.is_last == 0) {
        status = comm_broadcast_host(job->world, 0, &order, sizeof order);
        if (status == STATUS_OK && order.is_last == 0) {
            status = start_following(job, options, &order, &list);
        }
    }
    enum status followed = join_followed(&list);
    return (enum sluice_status)(followed != STATUS_OK ? followed : status);
}

void sluice_job_leave(struct sluice_job **job) {
    struct job_order order = {.is_last = 1};
    if (*job != NULL && (*job)->rank == 0 &&
        comm_broadcast_host((*job)->world, 0, &order, sizeof order) != STATUS_OK) {
        log_write(LOG_WARNING, "job", "%s", error_last()->message);
    }
    job_free(job);
}
