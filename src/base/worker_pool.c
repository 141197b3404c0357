/*
 * Workers join a run while it is open and take the next task from a counter. The caller closes the run once
 * the counter is used up and waits only for workers that joined, so a worker that the system wakes late
 * delays nobody.
 *
 * `mutex` guards is_open, is_stopping, the run's description and busy_count; generation and busy_count are
 * also read without it while spinning. The short spin spares the sleep between the operations of one step;
 * it yields, so that it costs a loaded machine nothing.
 */
#include "base/worker_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup_quota.h"

enum { THREADS_MAX = 1024, SPIN_ROUNDS = 200, CACHE_LINE_BYTES = 64 };

struct worker {
    struct worker_pool *pool;
    unsigned index;
    pthread_t thread;
};

struct worker_pool {
    pthread_mutex_t mutex;
    pthread_cond_t run_started;
    pthread_cond_t workers_left;
    bool is_open;
    bool is_stopping;
    size_t task_count;
    void (*task)(void *context, size_t index, unsigned worker);
    void *context;
    unsigned thread_count;
    unsigned started_count; /* workers that run, without the caller */
    _Atomic unsigned generation;
    _Atomic unsigned busy_count;
    /* Every task touches the counter: alone on its line it does not slow the readers of the rest. */
    _Alignas(CACHE_LINE_BYTES) _Atomic size_t next_task;
    _Alignas(CACHE_LINE_BYTES) struct worker workers[];
};

unsigned worker_pool_cores_allowed(void) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    unsigned cores = 1;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) > 0) {
        cores = (unsigned)CPU_COUNT(&allowed);
    }
    unsigned quota = cgroup_quota_cores("/proc/self/cgroup", "/sys/fs/cgroup");
    return quota != 0 && quota < cores ? quota : cores;
}

static void work(struct worker_pool *pool, unsigned worker) {
    for (;;) {
        size_t index = atomic_fetch_add_explicit(&pool->next_task, 1, memory_order_relaxed);
        if (index >= pool->task_count) {
            return;
        }
        pool->task(pool->context, index, worker);
    }
}

/* Waits for the generation to move on from `seen`; false if the pool stops. Joins the run if it is open. */
static bool wait_for_run(struct worker_pool *pool, unsigned *seen, bool *is_joined) {
    for (int i = 0; i < SPIN_ROUNDS && atomic_load(&pool->generation) == *seen; i++) {
        sched_yield();
    }
    pthread_mutex_lock(&pool->mutex);
    while (atomic_load(&pool->generation) == *seen && !pool->is_stopping) {
        pthread_cond_wait(&pool->run_started, &pool->mutex);
    }
    *seen = atomic_load(&pool->generation);
    *is_joined = pool->is_open;
    if (pool->is_open) {
        atomic_fetch_add(&pool->busy_count, 1);
    }
    bool goes_on = !pool->is_stopping;
    pthread_mutex_unlock(&pool->mutex);
    return goes_on;
}

static void *worker_main(void *argument) {
    struct worker *worker = argument;
    struct worker_pool *pool = worker->pool;
    unsigned seen = 0;
    bool is_joined = false;
    while (wait_for_run(pool, &seen, &is_joined)) {
        if (!is_joined) {
            continue;
        }
        work(pool, worker->index);
        pthread_mutex_lock(&pool->mutex);
        if (atomic_fetch_sub(&pool->busy_count, 1) == 1) {
            pthread_cond_signal(&pool->workers_left);
        }
        pthread_mutex_unlock(&pool->mutex);
    }
    return NULL;
}

/* Starts the workers with all signals blocked: signals belong to the program's own threads. */
static enum status start_workers(struct worker_pool *pool) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = 0;
    for (unsigned i = 1; i < pool->thread_count && code == 0; i++) {
        struct worker *worker = &pool->workers[i - 1];
        *worker = (struct worker){.pool = pool, .index = i};
        code = pthread_create(&worker->thread, NULL, worker_main, worker);
        pool->started_count += code == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(code == 0, STATUS_OUT_OF_MEMORY, "cannot start thread %u of %u: %s; use fewer --threads",
          pool->started_count + 2, pool->thread_count, strerror(code));
    return STATUS_OK;
}

enum status worker_pool_create(unsigned thread_count, struct worker_pool **out) {
    *out = NULL;
    CHECK(thread_count >= 1 && thread_count <= THREADS_MAX, STATUS_BAD_ARGUMENT,
          "a worker pool has 1 to %d threads, not %u", THREADS_MAX, thread_count);
    size_t bytes = sizeof(struct worker_pool) + thread_count * sizeof(struct worker);
    bytes = (bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    struct worker_pool *pool = aligned_alloc(CACHE_LINE_BYTES, bytes);
    CHECK_MEMORY(pool);
    memset(pool, 0, bytes);
    pool->thread_count = thread_count;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->run_started, NULL);
    pthread_cond_init(&pool->workers_left, NULL);
    enum status status = start_workers(pool);
    if (status != STATUS_OK) {
        worker_pool_destroy(&pool);
        return error_forward(status, ERROR_HERE);
    }
    *out = pool;
    return STATUS_OK;
}

void worker_pool_destroy(struct worker_pool **pool_pointer) {
    struct worker_pool *pool = *pool_pointer;
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    pool->is_stopping = true;
    pthread_cond_broadcast(&pool->run_started);
    pthread_mutex_unlock(&pool->mutex);
    for (unsigned i = 0; i < pool->started_count; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->workers_left);
    pthread_cond_destroy(&pool->run_started);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
    *pool_pointer = NULL;
}

unsigned worker_pool_thread_count(const struct worker_pool *pool) {
    return pool->thread_count;
}

static void open_run(struct worker_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->next_task, 0);
    pool->is_open = true;
    atomic_fetch_add(&pool->generation, 1);
    pthread_cond_broadcast(&pool->run_started);
    pthread_mutex_unlock(&pool->mutex);
}

static void close_run(struct worker_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    pool->is_open = false;
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < SPIN_ROUNDS && atomic_load(&pool->busy_count) != 0; i++) {
        sched_yield();
    }
    pthread_mutex_lock(&pool->mutex);
    while (atomic_load(&pool->busy_count) != 0) {
        pthread_cond_wait(&pool->workers_left, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
}

void worker_pool_run(struct worker_pool *pool, size_t task_count,
                     void (*task)(void *context, size_t index, unsigned worker), void *context) {
    if (pool->thread_count == 1 || task_count <= 1) {
        for (size_t i = 0; i < task_count; i++) {
            task(context, i, 0);
        }
        return;
    }
    /* No worker reads these before it has seen the run open, which the mutex orders. */
    pool->task_count = task_count;
    pool->task = task;
    pool->context = context;
    open_run(pool);
    work(pool, 0);
    close_run(pool);
}
