/* The parts of a supervisor, for its own files. */
#ifndef SLUICE_SERVER_SUPERVISOR_INTERNAL_H
#define SLUICE_SERVER_SUPERVISOR_INTERNAL_H

#include <pthread.h>

#include "engine/replica_router.h"
#include "server/journal.h"
#include "server/supervisor.h"
#include "server/wire_connection.h"

enum slot_phase {
    SLOT_DOWN,     /* until restart_at */
    SLOT_STARTING, /* the process runs, the model is being opened */
    SLOT_READY,
    SLOT_GIVEN_UP, /* it died too often */
};

/* One worker's place. */
struct supervisor_slot {
    int index;
    enum slot_phase phase;
    pid_t pid; /* -1: none */
    struct wire_connection connection;
    struct journal_list sent; /* entries that it has and that are not over */
    /* The one of them over which a worker may have died: others like it wait until it has got on. */
    const struct journal_entry *on_probation; /* NULL: none */
    struct sluice_engine_facts facts;
    struct sluice_engine_stats stats; /* the last it sent */
    struct sluice_engine_stats past;  /* counters of its predecessors */
    double started_at;
    double pinged_at;
    double answered_at; /* the last ping that was answered, or the start */
    bool is_ping_open;
    double stepped_at; /* when steps were last seen to grow, or there was nothing to do */
    int failures;      /* deaths in a row */
    double restart_at;
    enum status fatal_status; /* what it said before it ended; OK: nothing */
    char why[640];            /* it is not ready */
};

struct supervisor {
    struct service service;
    struct supervisor_options options;
    pthread_t thread;
    int event; /* written to when there are wishes */

    pthread_mutex_t mutex; /* guards all that follows */
    pthread_cond_t started;
    struct supervisor_slot *slots; /* [worker_count] */
    struct journal_list queued;    /* entries that no worker has */
    struct id_table sent;          /* those that one has, by submission */
    struct journal_entry *first_wish;
    struct replica_router *router; /* once the workers are ready */
    uint64_t last_id;
    int64_t restarts;
    bool is_started; /* all workers were ready once */
    bool is_clearing;
    bool is_closing;
    enum status start_status; /* why it could not start */
    char start_message[640];
    char why[768]; /* the last answer of is_ready */
};

static inline struct supervisor *supervisor_of(struct service *service) {
    return (struct supervisor *)(void *)service;
}

/* Has the thread look at what is wished for. */
void supervisor_wake(struct supervisor *supervisor);

/* The thread: `context` is the supervisor. */
void *supervisor_run(void *context);

/* Whether a worker is ready; whether one is, or will be. The mutex is held. */
bool supervisor_has_ready(const struct supervisor *supervisor);
bool supervisor_has_hope(const struct supervisor *supervisor);

/* Slots (supervisor_slot.c); the mutex is held. */

/* Starts the slot's process. What fails is counted as a death. */
void supervisor_slot_start(struct supervisor *supervisor, struct supervisor_slot *slot);

/* Reads what the worker has sent. Not OK: it has died, or must. */
enum status supervisor_slot_read(struct supervisor *supervisor, struct supervisor_slot *slot);

/* Pings, deadlines, restarts. */
void supervisor_slot_tick(struct supervisor *supervisor, struct supervisor_slot *slot, double now);

/* Ends what is left of the process, says why, and gives its entries back to the queue. */
void supervisor_slot_bury(struct supervisor *supervisor, struct supervisor_slot *slot, const char *reason);

/* Entries (supervisor_entries.c); the mutex is held. */

/* Gives queued entries to workers. */
void supervisor_dispatch(struct supervisor *supervisor, double now);

/* Carries out cancels and releases. */
void supervisor_take_wishes(struct supervisor *supervisor);

/* What a worker said of an entry. */
enum status supervisor_take_update(struct supervisor *supervisor, struct supervisor_slot *slot,
                                   const struct wire_record *record);

/* Entries of a worker that died go back to the queue, or end. */
void supervisor_requeue(struct supervisor *supervisor, struct supervisor_slot *slot, const char *reason);

/* All queued entries end: nobody comes back. */
void supervisor_fail_queue(struct supervisor *supervisor, const char *reason);

#endif
