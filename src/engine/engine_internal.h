/*
 * The parts of an engine and of a request, for the engine's own files and for tests.
 */
#ifndef SLUICE_ENGINE_ENGINE_INTERNAL_H
#define SLUICE_ENGINE_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/draft_controller.h"
#include "engine/engine_core.h"
#include "engine/lockstep.h"
#include "engine/page_pool.h"
#include "engine/prefix_cache.h"
#include "engine/prefix_tier.h"
#include "engine/replica_router.h"
#include "engine/round.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "sluice/request.h"

struct sluice_request {
    struct sequence sequence; /* the replica's thread's, once submitted */
    struct engine_replica *replica;

    /* Guarded by the replica's mutex. */
    struct sluice_request_state state; /* what the last step left */
    pthread_cond_t changed;
    struct sluice_request *next_submitted;
    struct sluice_request *next_finished; /* the thread's */
    bool is_cancelled;                    /* asked for; the thread tells the scheduler */
    bool is_released;                     /* nobody waits any more: the thread frees it */

    void (*notify)(void *context);
    void *notify_context;
};

/* What runs on a replica's thread; tests drive it directly. */
struct engine_work {
    struct engine_core *core;
    struct page_pool pages;
    struct prefix_cache *prefixes;       /* NULL: none */
    struct prefix_tier *tier;            /* NULL: memory only */
    struct draft_controller *controller; /* NULL: no drafts */
    struct scheduler *scheduler;
    struct round_runner *runner;
    struct lockstep_tick tick; /* the last one agreed on */
    uint64_t exchanges;        /* with other replicas so far */
    bool is_ending;            /* no more requests will come */
    atomic_bool is_lost;       /* a rank is: nothing runs any more; any thread may look */
    double round_seconds;      /* in rounds so far */
    double planning_seconds;   /* planning and bookkeeping */
    double draft_seconds;
    int64_t steps;
    int64_t step_rows;
};

/* Requests and what runs them, on a thread of its own. */
struct engine_replica {
    struct sluice_engine *engine;
    struct engine_work work;
    struct sequence_bounds bounds;
    pthread_t thread;
    bool has_thread;
    struct sluice_request *first_finished; /* in this round; the thread's */
    bool has_announced_end;                /* the others know that this one closes; the thread's */
    bool has_locks;

    pthread_mutex_t mutex;  /* guards what follows, and the requests' published parts */
    pthread_cond_t wanted;  /* there is something for the thread to look at */
    pthread_cond_t cleared; /* or started */
    bool has_started;
    enum status start_status; /* and how that went */
    char start_message[ERROR_MESSAGE_BYTES];
    struct sluice_request *first_submitted;
    struct sluice_request *last_submitted;
    int32_t open_requests; /* submitted and not finished */
    bool is_closing;
    bool has_cancellations;
    bool is_clearing;
    uint64_t called_exchange; /* another replica has work and waits there */
    struct sluice_engine_stats stats;
};

/* One replica, or several that share experts. */
struct sluice_engine {
    int replica_count;
    struct engine_replica *replicas; /* [replica_count] */
    bool has_routing;

    pthread_mutex_t routing; /* guards what follows; nobody who has it takes another */
    struct replica_router *router;
};

/*
 * Makes scheduler, cache, runner and controller around an open core, which is taken over also after an error.
 * `finished` is the scheduler's. Owned: engine_work_deinit.
 */
enum status engine_work_init(struct engine_work *work, struct engine_core **core,
                             void (*finished)(void *context, struct sequence *sequence), void *context);
void engine_work_deinit(struct engine_work *work);

/*
 * Before the first round: learns what rounds cost, if the number of drafts depends on it. Collective where
 * replicas share experts.
 */
enum status engine_work_measure(struct engine_work *work);

/*
 * Starts rounds until as many as may be are under way, and finishes the oldest; false if there was none.
 * Collective where replicas share experts: false on all of them in the same exchange. A round that cannot run
 * ends all sequences.
 */
bool engine_work_run(struct engine_work *work);

/* Bounds of the sequences that this work can take. */
struct sequence_bounds engine_work_bounds(const struct engine_work *work);

/* Fills in the stats; those of requests come from the scheduler. */
void engine_work_stats(const struct engine_work *work, struct sluice_engine_stats *stats);

/* Adds what this rank's part of the prefix cache on disk has done, which goes on between rounds. Any thread.
 */
void engine_work_add_disk_stats(const struct engine_work *work, struct sluice_engine_stats *sum);

/* Makes what chooses between several replicas; nothing to do for one. Owned: engine_routing_deinit. */
enum status engine_routing_init(struct sluice_engine *engine);
void engine_routing_deinit(struct sluice_engine *engine);

/* The replica for a request, which counts as one of it from now on. */
struct engine_replica *engine_routing_choose(struct sluice_engine *engine,
                                             const struct sluice_request_options *options);

/* A replica knows a text: what was asked and what it answered. */
void engine_routing_learn(struct engine_replica *replica, const int32_t *tokens, int32_t count);

/* All replicas have forgotten what they knew. */
void engine_routing_forget(struct sluice_engine *engine);

/* Starts the thread, once all replicas are ready to be called. */
enum status engine_loop_start(struct engine_replica *replica);

/* Once the threads of all replicas are started: waits until this one can take requests. */
enum status engine_loop_await_start(struct engine_replica *replica);

/*
 * Has the thread end all requests and itself, which it does when all replicas have been told, and waits for
 * that.
 */
void engine_loop_tell_end(struct engine_replica *replica);
void engine_loop_join(struct engine_replica *replica);

/* Frees a request that neither the scheduler nor a caller holds. */
void engine_request_free(struct sluice_request *request);

/* The scheduler's callback: the request is over. On the replica's thread. */
void engine_loop_finished(void *replica, struct sequence *sequence);

#endif
