/*
 * Workers join a run while it is open and take the next task from a counter. The caller closes the run once
 * the counter is used up and waits only for workers that joined, so a worker that the system wakes late
 * delays nobody.
 *
 * All of that is one atomic word, the gate: whether a run is open, how many workers are in it, and a number
 * that changes with every run. Opening and joining need no lock while the workers are awake. Who finds
 * nothing to do spins, then yields, then sleeps on a condition. `mutex` guards the sleep: a sleeper counts
 * itself before it looks at the gate for the last time, and whoever changes the gate looks at that count
 * afterwards, both in sequentially consistent order, so that one of the two sees the other.
 */
#include "base/worker_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup_quota.h"
#include "base/clock.h"
#include "base/cpu_topology.h"

enum { THREADS_MAX = 1024, CACHE_LINE_BYTES = 64, SPIN_PAUSES = 32 };

/* The gate's parts; the run's number fills the upper half. */
#define GATE_IS_OPEN ((uint64_t)1)
#define GATE_IS_STOPPING ((uint64_t)2)
#define GATE_WORKER ((uint64_t)4) /* one joined worker */
#define GATE_WORKERS ((uint64_t)0xFFFFFFFC)
#define GATE_RUN ((uint64_t)1 << 32)

/*
 * How long to wait awake: without giving up the core, which on a busy machine comes back only after some
 * milliseconds, and then while others may have it. A caller waits for tasks that are under way, a worker for
 * a run that may never come.
 */
static const double spin_seconds = 100e-6;
static const double worker_awake_seconds = 150e-6;
static const double caller_awake_seconds = 1e-3;

struct worker {
    struct worker_pool *pool;
    unsigned index;
    pthread_t thread;
};

struct worker_pool {
    unsigned thread_count;
    unsigned started_count; /* workers that run, without the caller */
    bool is_placed;         /* every worker has a core of its own; the caller's is core 0 */
    bool spins;             /* false: more threads than cores, where spinning keeps others from working */
    struct cpu_topology topology;
    cpu_set_t allowed;
    pthread_mutex_t mutex;
    pthread_cond_t gate_changed; /* workers sleep here */
    pthread_cond_t workers_left; /* the caller sleeps here */
    /*
     * What all threads touch in a run, on one line: it goes from core to core, and a short run takes as long
     * as that. The run's tasks are written by the caller before it opens the run and read by workers that
     * joined it.
     */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t gate;
    _Atomic size_t next_task;
    size_t task_count;
    void (*task)(void *context, size_t index, unsigned worker);
    void *context;
    _Atomic unsigned sleeping_workers;
    _Atomic bool is_caller_sleeping;
    _Alignas(CACHE_LINE_BYTES) struct worker workers[];
};

static bool read_affinity(cpu_set_t *allowed) {
    CPU_ZERO(allowed);
    return sched_getaffinity(0, sizeof *allowed, allowed) == 0 && CPU_COUNT(allowed) > 0;
}

static const char *const system_cpu_path = "/sys/devices/system/cpu";

unsigned worker_pool_cores_allowed(void) {
    cpu_set_t allowed;
    struct cpu_topology topology;
    unsigned cores = 1;
    if (read_affinity(&allowed)) {
        cpu_topology_read(system_cpu_path, &allowed, &topology);
        cores = topology.core_count;
    }
    unsigned quota = cgroup_quota_cores("/proc/self/cgroup", "/sys/fs/cgroup");
    return quota != 0 && quota < cores ? quota : cores;
}

static inline void pause_core(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Waits awake until (gate & mask) differs from `value`, for a while; returns the gate as last seen. */
static uint64_t wait_awake(struct worker_pool *pool, uint64_t mask, uint64_t value, double awake_seconds) {
    double started = clock_seconds();
    for (;;) {
        for (int i = 0; i < SPIN_PAUSES && pool->spins; i++) {
            uint64_t gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
            if ((gate & mask) != value) {
                return gate;
            }
            pause_core();
        }
        double waited = clock_seconds() - started;
        if (waited > spin_seconds || !pool->spins) {
            sched_yield();
        }
        uint64_t gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
        if ((gate & mask) != value || waited > awake_seconds) {
            return gate;
        }
    }
}

static const uint64_t run_mask = ~(GATE_RUN - 1) | GATE_IS_STOPPING;

/* Waits until the gate shows another run than `seen`, or the end; returns the gate. */
static uint64_t wait_for_run(struct worker_pool *pool, uint64_t seen) {
    uint64_t gate = wait_awake(pool, run_mask, seen, worker_awake_seconds);
    if ((gate & run_mask) != seen) {
        return gate;
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleeping_workers, 1);
    while (((gate = atomic_load(&pool->gate)) & run_mask) == seen) {
        pthread_cond_wait(&pool->gate_changed, &pool->mutex);
    }
    atomic_fetch_sub(&pool->sleeping_workers, 1);
    pthread_mutex_unlock(&pool->mutex);
    return gate;
}

/* Counts the worker in if the run that `gate` shows is still open. */
static bool join_run(struct worker_pool *pool, uint64_t gate) {
    uint64_t run = gate & run_mask;
    while ((gate & run_mask) == run && (gate & GATE_IS_OPEN) != 0) {
        if (atomic_compare_exchange_weak(&pool->gate, &gate, gate + GATE_WORKER)) {
            return true;
        }
    }
    return false;
}

static void leave_run(struct worker_pool *pool) {
    uint64_t gate = atomic_fetch_sub(&pool->gate, GATE_WORKER) - GATE_WORKER;
    if ((gate & (GATE_WORKERS | GATE_IS_OPEN)) == 0 && atomic_load(&pool->is_caller_sleeping)) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_signal(&pool->workers_left);
        pthread_mutex_unlock(&pool->mutex);
    }
}

static void work(struct worker_pool *pool, unsigned worker) {
    size_t index = atomic_fetch_add_explicit(&pool->next_task, 1, memory_order_relaxed);
    /* The same in the whole run, and the line is here now. */
    size_t task_count = pool->task_count;
    void (*task)(void *, size_t, unsigned) = pool->task;
    void *context = pool->context;
    while (index < task_count) {
        task(context, index, worker);
        index = atomic_fetch_add_explicit(&pool->next_task, 1, memory_order_relaxed);
    }
}

static void *worker_main(void *argument) {
    struct worker *worker = argument;
    struct worker_pool *pool = worker->pool;
    uint64_t seen = 0;
    for (;;) {
        uint64_t gate = wait_for_run(pool, seen);
        if ((gate & GATE_IS_STOPPING) != 0) {
            return NULL;
        }
        seen = gate & run_mask;
        if (join_run(pool, gate)) {
            work(pool, worker->index);
            leave_run(pool);
        }
    }
}

/* A system that refuses leaves the worker where it is: slower, not wrong. */
static void place_worker(struct worker_pool *pool, const struct worker *worker) {
    cpu_set_t core;
    cpu_topology_core_set(&pool->topology, worker->index, &core);
    (void)pthread_setaffinity_np(worker->thread, sizeof core, &core);
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
        if (code == 0 && pool->is_placed) {
            place_worker(pool, worker);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(code == 0, STATUS_OUT_OF_MEMORY, "cannot start thread %u of %u: %s; use fewer --threads",
          pool->started_count + 2, pool->thread_count, strerror(code));
    return STATUS_OK;
}

static void plan_placement(struct worker_pool *pool) {
    if (!read_affinity(&pool->allowed)) {
        return;
    }
    cpu_topology_read(system_cpu_path, &pool->allowed, &pool->topology);
    unsigned cores = worker_pool_cores_allowed();
    pool->spins = pool->thread_count <= (unsigned)CPU_COUNT(&pool->allowed);
    pool->is_placed = pool->thread_count == cores && cores == pool->topology.core_count;
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
    plan_placement(pool);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->gate_changed, NULL);
    pthread_cond_init(&pool->workers_left, NULL);
    enum status status = start_workers(pool);
    if (status != STATUS_OK) {
        worker_pool_destroy(&pool);
        return error_forward(status, ERROR_HERE);
    }
    *out = pool;
    return STATUS_OK;
}

static void wake_workers(struct worker_pool *pool) {
    if (atomic_load(&pool->sleeping_workers) != 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->gate_changed);
        pthread_mutex_unlock(&pool->mutex);
    }
}

void worker_pool_destroy(struct worker_pool **pool_pointer) {
    struct worker_pool *pool = *pool_pointer;
    if (pool == NULL) {
        return;
    }
    atomic_fetch_or(&pool->gate, GATE_IS_STOPPING);
    wake_workers(pool);
    for (unsigned i = 0; i < pool->started_count; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->workers_left);
    pthread_cond_destroy(&pool->gate_changed);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
    *pool_pointer = NULL;
}

unsigned worker_pool_thread_count(const struct worker_pool *pool) {
    return pool->thread_count;
}

uint64_t worker_pool_progress(const struct worker_pool *pool) {
    return atomic_load_explicit(&pool->next_task, memory_order_relaxed);
}

/*
 * Moves the caller off a worker's core, where the two would take turns until the system notices. The caller
 * keeps its own mask: it is not ours, and threads that it starts later inherit it.
 */
static void place_caller(struct worker_pool *pool) {
    int cpu = sched_getcpu();
    if (cpu < 0 || cpu >= CPU_SETSIZE || pool->topology.cores[cpu] <= 0) {
        return;
    }
    cpu_set_t core;
    cpu_topology_core_set(&pool->topology, 0, &core);
    if (sched_setaffinity(0, sizeof core, &core) == 0) {
        (void)sched_setaffinity(0, sizeof pool->allowed, &pool->allowed);
    }
}

static void open_run(struct worker_pool *pool) {
    uint64_t gate = atomic_load_explicit(&pool->gate, memory_order_relaxed);
    atomic_store_explicit(&pool->next_task, 0, memory_order_relaxed);
    atomic_store(&pool->gate, (gate & ~(GATE_RUN - 1)) + GATE_RUN + GATE_IS_OPEN);
    wake_workers(pool);
}

/* Waits until no joined worker is left. Each one that leaves changes the gate, so waiting starts anew. */
static void close_run(struct worker_pool *pool) {
    uint64_t workers = atomic_fetch_and(&pool->gate, ~GATE_IS_OPEN) & GATE_WORKERS;
    while (workers != 0) {
        uint64_t left = wait_awake(pool, GATE_WORKERS, workers, caller_awake_seconds) & GATE_WORKERS;
        if (left == workers) {
            pthread_mutex_lock(&pool->mutex);
            atomic_store(&pool->is_caller_sleeping, true);
            while ((left = atomic_load(&pool->gate) & GATE_WORKERS) != 0) {
                pthread_cond_wait(&pool->workers_left, &pool->mutex);
            }
            atomic_store(&pool->is_caller_sleeping, false);
            pthread_mutex_unlock(&pool->mutex);
        }
        workers = left;
    }
}

void worker_pool_run(struct worker_pool *pool, size_t task_count,
                     void (*task)(void *context, size_t index, unsigned worker), void *context) {
    if (pool->thread_count == 1 || task_count <= 1) {
        for (size_t i = 0; i < task_count; i++) {
            atomic_store_explicit(&pool->next_task, i + 1, memory_order_relaxed);
            task(context, i, 0);
        }
        return;
    }
    if (pool->is_placed) {
        place_caller(pool);
    }
    /* No worker reads these before it has joined the run, which the gate orders. */
    pool->task_count = task_count;
    pool->task = task;
    pool->context = context;
    open_run(pool);
    work(pool, 0);
    close_run(pool);
}
