/*
 * The process's part in a job of several ranks (docs/parallel.md): it runs a command alone, starts a job and
 * waits for its end, leads one, or follows.
 */
#ifndef SLUICE_CLI_RANKS_H
#define SLUICE_CLI_RANKS_H

#include <stdbool.h>

#include "cli/option_table.h"
#include "launch/control_link.h"
#include "sluice/job.h"

enum cli_role {
    CLI_ROLE_ALONE,    /* ranks, if there are several, are threads */
    CLI_ROLE_LAUNCHER, /* the job is over */
    CLI_ROLE_LEADER,
    CLI_ROLE_FOLLOWER,
};

struct cli_ranks {
    enum cli_role role;
    struct control_link *link; /* NULL: nobody supervises */
    struct sluice_job *job;    /* of a leader or follower */
    int exit_code;             /* of a launcher */
};

/*
 * Takes the part that options and environment say, and for a launcher runs the job. A failed job is
 * PEER_LOST, or USAGE for its exit code, with the sentence of who failed.
 */
enum status cli_ranks_enter(const struct cli_options *options, struct cli_ranks *out);

/* For a follower: does what the leader does, until it leaves. */
enum status cli_ranks_follow(struct cli_ranks *ranks, const struct cli_options *options);

/*
 * Leaves the job after `status`. A rank that is supervised tells that instead of printing it: then this does
 * not return after a failure.
 */
void cli_ranks_leave(struct cli_ranks *ranks, enum status status, int exit_code);

#endif
