/*
 * A job: the processes that run one model together, one for each rank (docs/parallel.md).
 *
 * mpirun or srun starts them, all with the same program, and each joins. The first one leads: it opens
 * engines whose options name the job and uses them as any other. The others follow: they open their part of
 * each engine and do as the leader does until it leaves. A program that does not want this opens engines
 * without a job; their ranks are threads.
 *
 * One job per process, joined once. The leader may use its engines from any thread.
 */
#ifndef SLUICE_JOB_H
#define SLUICE_JOB_H

#include "sluice/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_job;

struct sluice_job_options {
    double deadline_seconds;      /* that a rank may wait for another; 0: 30; twenty times that at a start */
    const char *peer_secret_file; /* ranks must know what it holds; NULL: nothing is asked; borrowed */
};

/*
 * Collective. Joins the job. UNSUPPORTED if this build has no MPI; PEER_LOST if the others cannot be reached.
 * Owned: sluice_job_leave.
 */
enum sluice_status sluice_job_join(const struct sluice_job_options *options, struct sluice_job **out);

int sluice_job_rank(const struct sluice_job *job);
int sluice_job_size(const struct sluice_job *job);

/*
 * For all ranks but 0. Opens this rank's part of every engine that the leader opens, from `options` of its
 * own and the sizes that the leader sends, and follows until the leader leaves (OK) or a rank is lost.
 */
enum sluice_status sluice_job_follow(struct sluice_job *job, const struct sluice_engine_options *options);

/*
 * What this process is at, in words ("stage 1 of 2, tick 57, waiting for rank 0 in comm_gather"), cut at
 * `bytes`. Any thread.
 */
void sluice_job_describe(struct sluice_job *job, char *text, size_t bytes);

/* Collective. The leader's engines must be closed; the others end their sluice_job_follow. Nulls. */
void sluice_job_leave(struct sluice_job **job);

#ifdef __cplusplus
}
#endif

#endif
