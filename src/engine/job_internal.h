/*
 * A job's inside, for engine/rank_team*.c: the group of all processes, and what the leader orders.
 */
#ifndef SLUICE_ENGINE_JOB_INTERNAL_H
#define SLUICE_ENGINE_JOB_INTERNAL_H

#include "comm/comm.h"
#include "engine/job_links.h"
#include "engine/rank_identity.h"
#include "sluice/job.h"

/* A replica's ranks are a group each, and there are as many replicas as ranks at most. */
enum {
    JOB_RANKS_MAX = 64,
    JOB_HOST_NAME_BYTES = 64,
    JOB_FEATURES_BYTES = 32,
    JOB_PATH_BYTES = 1024,
    JOB_GROUPS_PER_TEAM = 5 + JOB_RANKS_MAX,
    JOB_START_FACTOR = 20,
    JOB_DEADLINE_SECONDS = 30,
};

struct job_host {
    char name[JOB_HOST_NAME_BYTES];
};

/* From the leader to all others, as it is: they are the same build, or are refused right after. */
struct job_order {
    int32_t is_last; /* no engine: the leader leaves */
    int32_t numerics;
    int32_t weights;
    int32_t thread_count;
    int32_t step_token_limit;
    int32_t sequence_limit;
    int32_t page_tokens;
    int32_t has_prefix_cache;
    int32_t snapshot_limit;
    int32_t draft_limit;
    int32_t has_trace;
    int32_t trace_continues;
    int64_t context_tokens;
    uint64_t prefix_cache_disk_bytes;
    uint64_t number;                         /* of the engine, from 0 */
    struct sluice_parallel_options parallel; /* without the job, which is a pointer */
    char device[JOB_FEATURES_BYTES];
    char cpu_features[JOB_FEATURES_BYTES];
    char prefix_cache_directory[JOB_PATH_BYTES]; /* "": none; each host has its own */
    uint8_t nonce[RANK_NONCE_BYTES];
};

struct sluice_job {
    struct comm *world; /* orders, one thread at a time */
    int rank;
    int size;
    double deadline_seconds;
    struct comm_watch watch; /* this process's, for the control link */
    atomic_int stage;        /* of the last engine */
    atomic_int stage_count;
    atomic_int replica;
    atomic_int replica_count;
    struct string_buffer secret;
    struct job_host *hosts;               /* [size] */
    int32_t *host_numbers;                /* [size]: the first rank of the same host */
    struct job_link links[JOB_RANKS_MAX]; /* [size] between hosts, as seen at the start; none: one host */
    uint64_t order_count;
};

/* For the leader: makes the others open their part of an engine. `out`: the order that was given. */
enum status job_order_engine(struct sluice_job *job, const struct sluice_engine_options *options,
                             struct job_order *out);

/* The group that a team of the job needs: `kind` below JOB_GROUPS_PER_TEAM. As comm_mpi_group. */
enum status job_make_group(struct sluice_job *job, const struct job_order *order, int kind, const int *ranks,
                           int count, struct comm **out);

/* Leaves at once; nulls. */
void job_free(struct sluice_job **job);

/* Ranks on this process's host. */
int job_host_rank_count(const struct sluice_job *job);

#endif
