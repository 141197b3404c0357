/* A look at all ranks several times within the deadline. */
#include "engine/rank_watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/log.h"
#include "engine/job_internal.h"

enum { LOOKS_PER_DEADLINE = 8, PLACE_BYTES = 160 };

static const double LOOK_SECONDS_MAX = 1.0;

/* What was seen of a rank. */
struct sight {
    uint64_t operations;
    uint64_t task;
    double since; /* that it has been seen neither waiting nor at another place */
};

struct rank_watchdog {
    struct watched_member *members; /* [count] */
    struct sight *sights;           /* [count] */
    int count;
    double deadline_seconds;
    double moving_since;   /* when one was last seen to do anything but wait, or none to work */
    struct sight named_at; /* where the named rank was */
    const struct rank_pulse *_Atomic named; /* NULL: none yet */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool is_stopping;
};

static struct sight sight_of(const struct rank_pulse *pulse) {
    return (struct sight){.operations = atomic_load(&pulse->ops.count),
                          .task = pulse->pool == NULL ? 0 : worker_pool_progress(pulse->pool)};
}

static bool is_same(const struct sight *a, const struct sight *b) {
    return a->operations == b->operations && a->task == b->task;
}

/* "replica 0 of 2, stage 1 of 2, tick 57, in moe_experts" */
static void describe(const struct watched_member *member, char text[PLACE_BYTES]) {
    const struct rank_pulse *pulse = member->pulse;
    const struct executor_ranks *ranks = member->ranks;
    const char *wait = atomic_load(&pulse->wait.operation);
    int op = atomic_load(&pulse->ops.op);
    char replica[32] = "";
    char act[64] = "between operations";
    if (ranks->replica_count > 1) {
        snprintf(replica, sizeof replica, "replica %d of %d, ", ranks->replica, ranks->replica_count);
    }
    if (wait != NULL) {
        snprintf(act, sizeof act, "waiting in %s", wait);
    } else if (op != 0) {
        snprintf(act, sizeof act, "in %s", op_name((enum op_id)(op - 1)));
    }
    snprintf(text, PLACE_BYTES, "%sstage %d of %d, tick %llu, %s", replica, ranks->stage, ranks->stage_count,
             (unsigned long long)atomic_load(&pulse->wait.tick), act);
}

static void name_rank(struct rank_watchdog *watchdog, int index, double seconds) {
    const struct watched_member *member = &watchdog->members[index];
    char place[PLACE_BYTES];
    char sentence[ERROR_MESSAGE_BYTES];
    bool waits = atomic_load(&member->pulse->wait.operation) != NULL;
    describe(member, place);
    watchdog->named_at = sight_of(member->pulse);
    atomic_store(&watchdog->named, member->pulse);
    snprintf(
        sentence, sizeof sentence,
        "rank %d of %d (%s) has not got on for %.1f s, %s: start the program again, or raise the deadline if "
        "it is only slow",
        member->ranks->number, watchdog->count, place, seconds,
        waits ? "and all others that work wait too" : "it hangs");
    log_write(LOG_ERROR, "rank", "%s", sentence);
    for (int i = 0; i < watchdog->count; i++) {
        executor_ranks_abort(watchdog->members[i].ranks, sentence);
    }
}

/* Of a rank in its first ticks. */
static double deadline_of(const struct rank_watchdog *watchdog, const struct rank_pulse *pulse) {
    bool is_new = atomic_load(&pulse->wait.tick) < EXECUTOR_WARM_UP_TICKS;
    return watchdog->deadline_seconds * (is_new ? JOB_START_FACTOR : 1);
}

static void look(struct rank_watchdog *watchdog, double now) {
    int first_waiting = -1;
    for (int i = 0; i < watchdog->count; i++) {
        const struct rank_pulse *pulse = watchdog->members[i].pulse;
        struct sight *last = &watchdog->sights[i];
        struct sight seen = sight_of(pulse);
        bool is_working = atomic_load(&pulse->is_working);
        bool waits = atomic_load(&pulse->wait.operation) != NULL;
        if (!is_working || waits || !is_same(&seen, last)) {
            seen.since = now;
            *last = seen;
        } else if (now - last->since > deadline_of(watchdog, pulse)) {
            name_rank(watchdog, i, now - last->since);
            return;
        }
        if (is_working && !waits) {
            watchdog->moving_since = now;
        }
        first_waiting = is_working && waits && first_waiting < 0 ? i : first_waiting;
    }
    if (first_waiting < 0) {
        watchdog->moving_since = now;
    } else if (now - watchdog->moving_since > deadline_of(watchdog, watchdog->members[first_waiting].pulse)) {
        name_rank(watchdog, first_waiting, now - watchdog->moving_since);
    }
}

static void *watch_ranks(void *context) {
    struct rank_watchdog *watchdog = context;
    double interval = watchdog->deadline_seconds / LOOKS_PER_DEADLINE;
    interval = interval < LOOK_SECONDS_MAX ? interval : LOOK_SECONDS_MAX;
    pthread_mutex_lock(&watchdog->mutex);
    while (!watchdog->is_stopping && atomic_load(&watchdog->named) == NULL) {
        condition_wait_until(&watchdog->changed, &watchdog->mutex, clock_seconds() + interval);
        look(watchdog, clock_seconds());
    }
    pthread_mutex_unlock(&watchdog->mutex);
    return NULL;
}

static enum status start_thread(struct rank_watchdog *watchdog) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&watchdog->thread, NULL, watch_ranks, watchdog);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(error == 0, STATUS_OUT_OF_MEMORY, "a thread that watches over ranks cannot be started (error %d)",
          error);
    return STATUS_OK;
}

static void free_watchdog(struct rank_watchdog *watchdog) {
    pthread_cond_destroy(&watchdog->changed);
    pthread_mutex_destroy(&watchdog->mutex);
    free(watchdog->members);
    free(watchdog->sights);
    free(watchdog);
}

static enum status make(const struct watched_member *members, int count, struct rank_watchdog *watchdog) {
    watchdog->count = count;
    watchdog->members = calloc((size_t)count, sizeof *watchdog->members);
    watchdog->sights = calloc((size_t)count, sizeof *watchdog->sights);
    CHECK_MEMORY(watchdog->members);
    CHECK_MEMORY(watchdog->sights);
    memcpy(watchdog->members, members, (size_t)count * sizeof *members);
    for (int i = 0; i < count; i++) {
        watchdog->sights[i].since = watchdog->moving_since;
    }
    return start_thread(watchdog);
}

enum status rank_watchdog_start(const struct watched_member *members, int count, double deadline_seconds,
                                struct rank_watchdog **out) {
    struct rank_watchdog *watchdog = calloc(1, sizeof *watchdog);
    CHECK_MEMORY(watchdog);
    watchdog->deadline_seconds = deadline_seconds;
    watchdog->moving_since = clock_seconds();
    pthread_mutex_init(&watchdog->mutex, NULL);
    enum status status = condition_init(&watchdog->changed);
    status = status == STATUS_OK ? make(members, count, watchdog) : status;
    if (status != STATUS_OK) {
        free_watchdog(watchdog);
        return error_forward(status, ERROR_HERE);
    }
    *out = watchdog;
    return STATUS_OK;
}

bool rank_watchdog_is_hanging(const struct rank_watchdog *watchdog) {
    const struct rank_pulse *named = atomic_load(&watchdog->named);
    if (named == NULL || !atomic_load(&named->is_working)) {
        return false;
    }
    struct sight seen = sight_of(named);
    return is_same(&seen, &watchdog->named_at);
}

void rank_watchdog_stop(struct rank_watchdog **watchdog_pointer) {
    struct rank_watchdog *watchdog = *watchdog_pointer;
    *watchdog_pointer = NULL;
    if (watchdog == NULL) {
        return;
    }
    pthread_mutex_lock(&watchdog->mutex);
    watchdog->is_stopping = true;
    pthread_cond_signal(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->mutex);
    pthread_join(watchdog->thread, NULL);
    free_watchdog(watchdog);
}
