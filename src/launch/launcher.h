/*
 * Starts a job's ranks by mpirun, watches over them and ends with them.
 *
 * The ranks are this program again, with the same command line. Rank 0 gets this process's standard streams
 * and its terminal, so that it behaves as if it had been started alone. One per process; it must have no
 * other threads.
 */
#ifndef SLUICE_LAUNCH_LAUNCHER_H
#define SLUICE_LAUNCH_LAUNCHER_H

#include "launch/job_supervisor.h"

struct launcher_options {
    int rank_count;
    const char *hosts;       /* "a,b": ranks are dealt out in this order; NULL: this host; borrowed */
    const char *network;     /* "10.0.0.0/24": for all traffic between hosts; needed with hosts */
    const char *secret_file; /* NULL: the ranks get a random key */
    double deadline_seconds;
};

/*
 * Runs the job to its end. `verdict` says how it went: an exit code, and a sentence if a rank or mpirun is to
 * blame. Errors are those of starting.
 */
enum status launcher_run(const struct launcher_options *options, struct job_supervisor_verdict *verdict);

/* Words of the mpirun command line before the program, ended by NULL; owned: launcher_words_free. For tests.
 */
struct launcher_words {
    char *words[64];
    int count;
};
enum status launcher_write_words(const struct launcher_options *options, struct launcher_words *out);
void launcher_words_free(struct launcher_words *words);

#endif
