/*
 * Watches over the ranks of a job: who has come, who is there, why the job ends (spec parallelism 6.4).
 *
 * Every rank connects, proves that it belongs to the job, and says several times a second what it is at. A
 * rank that dies, is not heard of, fails or never comes is a fault: all others are told to end, and one
 * sentence names the rank, its host and what it was at. One thread; nothing blocks for longer than a small
 * message.
 */
#ifndef SLUICE_LAUNCH_JOB_SUPERVISOR_H
#define SLUICE_LAUNCH_JOB_SUPERVISOR_H

#include <poll.h>
#include <stdbool.h>

#include "launch/control_channel.h"

enum { JOB_SUPERVISOR_RANKS_MAX = 64, JOB_SUPERVISOR_CONNECTIONS_MAX = JOB_SUPERVISOR_RANKS_MAX + 16 };

struct job_supervisor;

struct job_supervisor_options {
    int rank_count;
    const struct string_buffer *key; /* borrowed */
    const char *build;               /* of the program, as ranks must have it */
    const char *network_address;     /* to listen at for ranks on other hosts; NULL: this host only */
    double start_seconds;            /* until all ranks must have come */
    double silence_seconds;          /* without a report a rank is lost */
    bool gives_streams;              /* standard streams to rank 0, the error stream to all on this host */
};

/* How the job ends. */
struct job_supervisor_verdict {
    bool is_over;
    int exit_code;
    char sentence[ERROR_MESSAGE_BYTES]; /* "" if all went as it should */
};

/* Listens. Owned: job_supervisor_destroy. */
enum status job_supervisor_create(const struct job_supervisor_options *options, struct job_supervisor **out);
void job_supervisor_destroy(struct job_supervisor **supervisor);

/* Where ranks connect to, as control_link_open takes it. Lives as long as the supervisor. */
const char *job_supervisor_address(const struct job_supervisor *supervisor);

/* What to poll for before the next job_supervisor_advance; at most JOB_SUPERVISOR_CONNECTIONS_MAX + 2. */
int job_supervisor_poll_files(const struct job_supervisor *supervisor, struct pollfd *files);

/* Takes what has come and looks at the clock. At least every 0.2 s. */
void job_supervisor_advance(struct job_supervisor *supervisor, struct job_supervisor_verdict *verdict);

/* The launcher knows a reason that no rank can tell: it counts unless there is one already. */
void job_supervisor_give_up(struct job_supervisor *supervisor, int exit_code, const char *sentence);

/* After a verdict: kills the ranks on this host that are still there; they may hang. */
void job_supervisor_kill_rest(const struct job_supervisor *supervisor);

/* Process of rank 0 once it has come, where it is on this host; 0 otherwise. */
int job_supervisor_leader_process(const struct job_supervisor *supervisor);

#endif
