/*
 * A fixed set of threads that share out numbered tasks.
 *
 * The caller works too, so a pool of one thread starts none. A run returns when every task is done. One run
 * at a time; tasks may not start another. Between runs workers wait awake for a moment, because the
 * operations of a step follow each other closely, then sleep. What a task computes may depend on its index
 * only, never on the thread it lands on.
 *
 * A pool that takes every core this process may use gives each worker a core of its own. A smaller one
 * leaves placement to the system: two such pools must not pile up on the same cores.
 */
#ifndef SLUICE_BASE_WORKER_POOL_H
#define SLUICE_BASE_WORKER_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct worker_pool;

/*
 * Cores this process may use: the physical ones of its affinity mask (hyper-threads of one core count once),
 * limited by its cgroup's quota (rounded up); at least 1.
 */
unsigned worker_pool_cores_allowed(void);

/* A pool of `thread_count` threads, the caller included (1..1024). Owned by the caller. */
enum status worker_pool_create(unsigned thread_count, struct worker_pool **out);

/* Stops the threads, frees the pool and nulls the pointer. NULL inside is allowed. */
void worker_pool_destroy(struct worker_pool **pool);

unsigned worker_pool_thread_count(const struct worker_pool *pool);

/* A number that changes when a task of a run begins, and says nothing else. Any thread. */
uint64_t worker_pool_progress(const struct worker_pool *pool);

/* Calls task(context, index, worker) for each index below `task_count`; `worker` is below the thread count.
 */
void worker_pool_run(struct worker_pool *pool, size_t task_count,
                     void (*task)(void *context, size_t index, unsigned worker), void *context);

#endif
