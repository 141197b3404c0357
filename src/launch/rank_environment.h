/*
 * What a process learns from its environment about the job that it is in; the one place that reads it.
 */
#ifndef SLUICE_LAUNCH_RANK_ENVIRONMENT_H
#define SLUICE_LAUNCH_RANK_ENVIRONMENT_H

#include <stdbool.h>

/* Set by the launcher for the ranks: where to connect, and in hexadecimal the key of a job without a secret.
 */
#define RANK_ENVIRONMENT_CONTROL "SLUICE_JOB_CONTROL"
#define RANK_ENVIRONMENT_KEY "SLUICE_JOB_KEY"

struct rank_environment {
    bool is_rank; /* mpirun or srun started this process, with others or alone */
    int rank;
    int rank_count;
    const char *control; /* NULL: nobody supervises; lives as long as the environment */
    const char *key;     /* the same */
};

struct rank_environment rank_environment_read(void);

#endif
