/*
 * Watches over the ranks of a job: who has come, who is there, why the job ends (spec parallelism 6.4).
 *
 * Every rank connects, proves that it belongs to the job, and says each second what it is at. A rank that
 * dies, is not heard of, fails or never comes is a fault: all others are told to end, and one sentence names
 * the rank, its host and what it was at. One thread; nothing blocks for longer than a small message.
 */
#ifndef SLUICE_LAUNCH_SUPERVISOR_H
#define SLUICE_LAUNCH_SUPERVISOR_H

#include <poll.h>
#include <stdbool.h>

#include "launch/control_channel.h"

enum { SUPERVISOR_RANKS_MAX = 64, SUPERVISOR_CONNECTIONS_MAX = SUPERVISOR_RANKS_MAX + 16 };

struct supervisor;

struct supervisor_options {
    int rank_count;
    const struct string_buffer *key; /* borrowed */
    const char *build;               /* of the program, as ranks must have it */
    const char *network_address;     /* to listen at for ranks on other hosts; NULL: this host only */
    double start_seconds;            /* until all ranks must have come */
    double silence_seconds;          /* without a report a rank is lost */
    bool gives_streams;              /* standard streams to rank 0, the error stream to all on this host */
};

/* How the job ends. */
struct supervisor_verdict {
    bool is_over;
    int exit_code;
    char sentence[ERROR_MESSAGE_BYTES]; /* "" if all went as it should */
};

/* Listens. Owned: supervisor_destroy. */
enum status supervisor_create(const struct supervisor_options *options, struct supervisor **out);
void supervisor_destroy(struct supervisor **supervisor);

/* Where ranks connect to, as control_link_open takes it. Lives as long as the supervisor. */
const char *supervisor_address(const struct supervisor *supervisor);

/* What to poll for before the next supervisor_advance; at most SUPERVISOR_CONNECTIONS_MAX + 2. */
int supervisor_poll_files(const struct supervisor *supervisor, struct pollfd *files);

/* Takes what has come and looks at the clock. At least every 0.2 s. */
void supervisor_advance(struct supervisor *supervisor, struct supervisor_verdict *verdict);

/* The launcher knows a reason that no rank can tell: it counts unless there is one already. */
void supervisor_give_up(struct supervisor *supervisor, int exit_code, const char *sentence);

/* After a verdict: kills the ranks on this host that are still there; they may hang. */
void supervisor_kill_rest(const struct supervisor *supervisor);

/* Process of rank 0 once it has come, where it is on this host; 0 otherwise. */
int supervisor_leader_process(const struct supervisor *supervisor);

#endif
