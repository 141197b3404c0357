/*
 * Replicas that share experts as processes whose messages are late at random (spec parallelism T-16): run by
 * mpirun, test_job_delays MODEL_DIR [TICKS]. Two replicas, of which one mostly has nothing to do, with drafts
 * of other lengths on each; requests come, end and are given up. Nothing stalls, and no token changes.
 *
 * The linker puts this file's functions in front of those that make groups (CMakeLists.txt): what they make
 * gets a table whose messages start late and are waited for late. Rank 0 computes alone first, then leads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "comm/comm_impl.h"
#include "comm/comm_mpi.h"
#include "comm/comm_threads.h"
#include "engine/lockstep.h"
#include "support/job_fixture.h"
#include "support/model_fixture.h"
#include "support/random_requests.h"

enum { REPLICAS = 2, DRAFTS = 3, DELAY_MICROSECONDS = 300, DELAY_EVERY = 12 /* messages */ };

static struct {
    atomic_uint_fast64_t random;
    atomic_int delays;
    atomic_int ticks;         /* of the first replica, on rank 0, where all leaders are */
    atomic_int unlike_drafts; /* ticks with more draft passes than some replica wanted */
    atomic_int idle_replicas; /* ticks in which a replica had no rows */
} watch;

/* A transport with late messages. */
struct slow_table {
    struct comm_impl late; /* first: a group points to it */
    const struct comm_impl *real;
};

static struct slow_table slow_mpi;
static struct slow_table slow_threads;
static pthread_mutex_t slow_lock = PTHREAD_MUTEX_INITIALIZER;

enum status __real_comm_mpi_group(struct comm *world, const int *ranks, int count, int id, struct comm **out);
enum status __wrap_comm_mpi_group(struct comm *world, const int *ranks, int count, int id, struct comm **out);
enum status __real_comm_threads_create(int size, struct comm **ends);
enum status __wrap_comm_threads_create(int size, struct comm **ends);
enum status __real_lockstep_agree(struct comm *leaders, uint64_t number, const struct lockstep_wish *own,
                                  struct lockstep_tick *out);
enum status __wrap_lockstep_agree(struct comm *leaders, uint64_t number, const struct lockstep_wish *own,
                                  struct lockstep_tick *out);

static void delay(void) {
    uint64_t random = atomic_fetch_add(&watch.random, 0x9E3779B97F4A7C15u);
    random = model_next_random(&random);
    if (random % DELAY_EVERY == 0) {
        watch.delays++;
        nanosleep(&(struct timespec){.tv_nsec = (long)(random / DELAY_EVERY % DELAY_MICROSECONDS) * 1000},
                  NULL);
    }
}

static const struct comm_impl *real_of(const struct comm *comm) {
    return ((const struct slow_table *)(const void *)comm->impl)->real;
}

static enum comm_outcome start_late(struct comm *comm, struct comm_message *message) {
    delay();
    return real_of(comm)->start(comm, message);
}

static enum comm_outcome wait_late(struct comm *comm, struct comm_message *message, double until) {
    delay();
    return real_of(comm)->wait(comm, message, until);
}

static void slow_down(struct comm *comm, struct slow_table *table) {
    pthread_mutex_lock(&slow_lock);
    if (table->real == NULL) {
        table->real = comm->impl;
        table->late = *comm->impl;
        table->late.start = start_late;
        table->late.wait = wait_late;
    }
    pthread_mutex_unlock(&slow_lock);
    comm->impl = &table->late;
}

enum status __wrap_comm_mpi_group(struct comm *world, const int *ranks, int count, int id,
                                  struct comm **out) {
    enum status status = __real_comm_mpi_group(world, ranks, count, id, out);
    if (status == STATUS_OK && count > 1) { /* else it is no group of MPI */
        slow_down(*out, &slow_mpi);
    }
    return status;
}

enum status __wrap_comm_threads_create(int size, struct comm **ends) {
    enum status status = __real_comm_threads_create(size, ends);
    for (int i = 0; i < size && status == STATUS_OK; i++) {
        slow_down(ends[i], &slow_threads);
    }
    return status;
}

enum status __wrap_lockstep_agree(struct comm *leaders, uint64_t number, const struct lockstep_wish *own,
                                  struct lockstep_tick *out) {
    enum status status = __real_lockstep_agree(leaders, number, own, out);
    if (leaders != NULL && status == STATUS_OK) {
        watch.ticks += comm_rank(leaders) == 0 && out->rows > 0;
        watch.unlike_drafts += own->draft_passes < out->draft_passes;
        watch.idle_replicas += own->rows == 0 && out->rows > 0;
    }
    return status;
}

/* The more run on a replica, the fewer drafts each has: so replicas want other numbers of passes. */
static const struct sluice_draft_schedule_row schedule[] = {{1, DRAFTS}, {2, 1}, {3, 0}};

struct layout {
    int pipeline;
    int tensor;
    bool has_drafts;
};

static struct sluice_engine *open_engine(const char *directory, struct sluice_job *job,
                                         const struct layout *layout) {
    struct sluice_engine_options options = sluice_engine_options_default();
    struct sluice_engine *engine;
    options.model_directory = directory;
    options.thread_count = 1;
    options.context_tokens = RANDOM_CONTEXT;
    options.sequence_limit = 3;
    options.step_token_limit = 11;
    options.parallel.job = job;
    options.parallel.data = job == NULL ? 1 : REPLICAS;
    options.parallel.pipeline = layout->pipeline;
    options.parallel.tensor = layout->tensor;
    options.parallel.expert_exchange = SLUICE_EXPERT_EXCHANGE_DISPATCH;
    options.parallel.in_flight = layout->pipeline == 1 ? 1 : layout->pipeline + 1;
    if (layout->has_drafts) {
        options.draft =
            (struct sluice_draft_options){.limit = DRAFTS,
                                          .schedule = schedule,
                                          .schedule_row_count = sizeof schedule / sizeof schedule[0]};
    }
    EXPECT_OK(sluice_engine_open(&options, &engine));
    return engine;
}

static void learn_alone(const char *directory) {
    struct sluice_engine *engine = open_engine(directory, NULL, &(struct layout){1, 1, false});
    random_requests_learn(engine);
    sluice_engine_close(&engine);
}

struct task {
    const char *directory;
    int ticks; /* of each layout */
};

static int lead(void *context, struct sluice_job *job) {
    const struct task *task = context;
    assert_non_null(job);
    int per_replica = sluice_job_size(job) / REPLICAS;
    for (int i = 0; i < 2 * (per_replica > 1 ? 2 : 1); i++) {
        const struct layout layout = {
            .pipeline = i < 2 ? per_replica : 1, .tensor = i < 2 ? 1 : per_replica, .has_drafts = i % 2 == 0};
        watch.ticks = 0;
        watch.unlike_drafts = 0;
        watch.idle_replicas = 0;
        watch.delays = 0;
        struct sluice_engine *engine = open_engine(task->directory, job, &layout);
        random_requests_run(engine, &watch.ticks, task->ticks);
        sluice_engine_close(&engine);
        assert_true(watch.delays > watch.ticks);
        assert_true(watch.idle_replicas > task->ticks / 10);
        assert_int_equal(layout.has_drafts, watch.unlike_drafts > 0);
        printf("%d ticks of pp %d, tp %d, %s drafts: %d messages were late on rank 0, %d replicas idle\n",
               watch.ticks, layout.pipeline, layout.tensor, layout.has_drafts ? "with" : "without",
               watch.delays, watch.idle_replicas);
    }
    return 0;
}

int main(int argument_count, char **arguments) {
    struct task task = {.directory = argument_count > 1 ? arguments[1] : "",
                        .ticks = argument_count > 2 ? atoi(arguments[2]) : 200};
    int rank = job_fixture_rank();
    watch.random = 88172645463325252u + (uint64_t)(rank < 0 ? 0 : rank);
    if (rank == 0) {
        learn_alone(task.directory);
    }
    return job_fixture_main(task.directory, 20, lead, &task);
}
