/*
 * A service whose engines are worker processes: they are started, watched, and started again, and what they
 * had not finished goes on where its tokens end.
 *
 * With several workers each is a replica with the whole model; a request goes to the one that knows its
 * beginning (engine/replica_router.h). When a worker dies, or does not answer, or makes no step with work at
 * hand, its requests go to the others at once, or wait until it is back. Tokens are never repeated or taken
 * back: a worker goes on from prompt and tokens with the same bits (drafts by rejection sampling excepted,
 * whose text depends on their number). A request over which two workers died without a new token in between
 * ends with PEER_LOST; so that it takes no others with it, requests over which one may have died come back
 * one at a time, the next when the one before has got on. When no worker comes back, all end with PEER_LOST.
 *
 * What only a worker can find wrong with a request comes as its end, with the status that submit would have
 * had: BAD_ARGUMENT, OUT_OF_RANGE, CONTEXT_FULL, UNSUPPORTED.
 */
#ifndef SLUICE_SERVER_SUPERVISOR_H
#define SLUICE_SERVER_SUPERVISOR_H

#include <sys/types.h>

#include "server/service.h"

/* A thread polls them all, and each may need a model of its own in memory. */
enum { SUPERVISOR_WORKERS_MAX = 64 };

/* Texts are borrowed as long as the supervisor lives. */
struct supervisor_options {
    const char *program;          /* of a worker: path of an executable */
    const char *const *arguments; /* its words, from its name on, then NULL */
    int worker_count;
    double ping_seconds;     /* between two questions whether a worker is alive */
    double deadline_seconds; /* for its answer: then it is killed */
    double step_seconds;     /* the same for a step while there are requests; 0: no limit */
    double start_seconds;    /* the same from its start until it is ready; 0: no limit */
    int restart_limit;       /* of a worker in a row, each up for less than a minute; then it stays down */
    double quit_seconds;     /* for workers to end once they are asked to: then they are killed */
    double restart_seconds;  /* before the first of them; doubles with each, up to half a minute */
};

/* One worker, pings each second with 30 s to answer, steps of 10 minutes, 10 restarts from 0.1 s on, 2 s to
 * end. */
struct supervisor_options supervisor_options_default(void);

/*
 * Starts the workers and waits until all are ready. If one cannot start, its error is returned and none is
 * left. Owned: close, once all generations have been released.
 */
enum status supervisor_open(const struct supervisor_options *options, struct service **out);

/*
 * What workers that are started from now on are given instead of the options' arguments, such as what the
 * first ones found out by themselves. Borrowed as long as the supervisor lives.
 */
void supervisor_set_arguments(struct service *service, const char *const *arguments);

/* The process of worker `index`, -1 while there is none; for reports and tests. */
pid_t supervisor_worker_pid(struct service *service, int index);

#endif
