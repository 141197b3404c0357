/*
 * Test programs whose ranks are processes of mpirun: rank 0 leads, the others follow it. Run by itself such a
 * program leads alone, and what ranks it asks for are threads.
 */
#ifndef SLUICE_TESTS_SUPPORT_JOB_FIXTURE_H
#define SLUICE_TESTS_SUPPORT_JOB_FIXTURE_H

#include "sluice/job.h"

/* Among the processes of mpirun; -1 without it. */
int job_fixture_rank(void);

/*
 * What main returns: joins, and on rank 0 calls `lead`, which returns how many tests failed, with the job, or
 * NULL without mpirun; elsewhere follows with the model in `directory`. After a failure rank 0 returns at
 * once, without leaving: an engine may be open, for whose end the others would wait, and mpirun ends them.
 */
int job_fixture_main(const char *directory, double deadline_seconds,
                     int (*lead)(void *context, struct sluice_job *job), void *context);

#endif
