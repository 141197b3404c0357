/* One list and one heap of timers under one lock; threads sleep until the list has a task or a timer is due.
 */
#include "server/task_queue.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/condition.h"

struct task_queue {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct task *first, *last;
    struct task **timers; /* [1..timer_count]: a heap, the earliest at 1 */
    size_t timer_count, timer_capacity;
    bool is_closing;
    int thread_count;
    pthread_t threads[];
};

static void put_timer(struct task_queue *queue, size_t slot, struct task *task) {
    queue->timers[slot] = task;
    task->timer_slot = slot;
}

/* Moves a task that may be too early or too late for its slot. */
static void settle_timer(struct task_queue *queue, size_t slot) {
    struct task *task = queue->timers[slot];
    while (slot > 1 && queue->timers[slot / 2]->moment > task->moment) {
        put_timer(queue, slot, queue->timers[slot / 2]);
        slot /= 2;
    }
    for (size_t child; (child = 2 * slot) <= queue->timer_count; slot = child) {
        if (child < queue->timer_count && queue->timers[child + 1]->moment < queue->timers[child]->moment) {
            child++;
        }
        if (queue->timers[child]->moment >= task->moment) {
            break;
        }
        put_timer(queue, slot, queue->timers[child]);
    }
    put_timer(queue, slot, task);
}

static void remove_timer(struct task *task) {
    struct task_queue *queue = task->queue;
    size_t slot = task->timer_slot;
    if (slot == 0) {
        return;
    }
    task->timer_slot = 0;
    struct task *moved = queue->timers[queue->timer_count--];
    if (moved != task) {
        put_timer(queue, slot, moved);
        settle_timer(queue, slot);
    }
}

/* The mutex is held. */
static void append_task(struct task *task) {
    struct task_queue *queue = task->queue;
    if (task->is_waiting) {
        return;
    }
    task->is_waiting = true;
    /* One that runs is appended when its run is over. */
    if (task->is_running) {
        return;
    }
    task->next = NULL;
    if (queue->first == NULL) {
        queue->first = task;
    } else {
        queue->last->next = task;
    }
    queue->last = task;
    pthread_cond_signal(&queue->changed);
}

static void wake_due_timers(struct task_queue *queue) {
    double now = queue->timer_count > 0 ? clock_seconds() : 0.0;
    while (queue->timer_count > 0 && queue->timers[1]->moment <= now) {
        struct task *task = queue->timers[1];
        remove_timer(task);
        append_task(task);
    }
}

/* The next task to run; NULL when the queue closes. The mutex is held. */
static struct task *wait_for_task(struct task_queue *queue) {
    while (!queue->is_closing) {
        wake_due_timers(queue);
        struct task *task = queue->first;
        if (task != NULL) {
            queue->first = task->next;
            return task;
        }
        if (queue->timer_count > 0) {
            condition_wait_until(&queue->changed, &queue->mutex, queue->timers[1]->moment);
        } else {
            pthread_cond_wait(&queue->changed, &queue->mutex);
        }
    }
    return NULL;
}

static void *run_tasks(void *context) {
    struct task_queue *queue = context;
    pthread_mutex_lock(&queue->mutex);
    for (struct task *task; (task = wait_for_task(queue)) != NULL;) {
        task->is_waiting = false;
        task->is_running = true;
        pthread_mutex_unlock(&queue->mutex);
        bool is_alive = task->run(task);
        pthread_mutex_lock(&queue->mutex);
        if (is_alive) {
            task->is_running = false;
            if (task->is_waiting) {
                task->is_waiting = false;
                append_task(task);
            }
        }
    }
    pthread_mutex_unlock(&queue->mutex);
    return NULL;
}

enum status task_queue_create(int thread_count, struct task_queue **out) {
    *out = NULL;
    CHECK(thread_count >= 1 && thread_count <= 256, STATUS_OUT_OF_RANGE,
          "%d threads for answers; expected 1 to 256", thread_count);
    struct task_queue *queue = calloc(1, sizeof *queue + (size_t)thread_count * sizeof *queue->threads);
    CHECK_MEMORY(queue);
    pthread_mutex_init(&queue->mutex, NULL);
    enum status status = condition_init(&queue->changed);
    if (status != STATUS_OK) {
        pthread_mutex_destroy(&queue->mutex);
        free(queue);
        return error_forward(status, ERROR_HERE);
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (queue->thread_count < thread_count &&
           pthread_create(&queue->threads[queue->thread_count], NULL, run_tasks, queue) == 0) {
        queue->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    *out = queue;
    if (queue->thread_count < thread_count) {
        task_queue_destroy(out);
        FAIL(STATUS_OUT_OF_MEMORY, "the system refused a thread for answers");
    }
    return STATUS_OK;
}

void task_queue_destroy(struct task_queue **queue_pointer) {
    struct task_queue *queue = *queue_pointer;
    *queue_pointer = NULL;
    if (queue == NULL) {
        return;
    }
    pthread_mutex_lock(&queue->mutex);
    queue->is_closing = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
    for (int i = 0; i < queue->thread_count; i++) {
        pthread_join(queue->threads[i], NULL);
    }
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->mutex);
    free(queue->timers);
    free(queue);
}

void task_init(struct task *task, struct task_queue *queue, bool (*run)(struct task *task)) {
    *task = (struct task){.run = run, .queue = queue};
}

void task_wake(struct task *task) {
    struct task_queue *queue = task->queue;
    pthread_mutex_lock(&queue->mutex);
    append_task(task);
    pthread_mutex_unlock(&queue->mutex);
}

/* Room for one more timer. The mutex is held. */
static enum status reserve_timer(struct task_queue *queue) {
    if (queue->timer_count + 1 >= queue->timer_capacity) {
        size_t capacity = queue->timer_capacity == 0 ? 64 : 2 * queue->timer_capacity;
        struct task **timers = realloc(queue->timers, capacity * sizeof *timers);
        CHECK_MEMORY(timers);
        queue->timers = timers;
        queue->timer_capacity = capacity;
    }
    return STATUS_OK;
}

enum status task_wake_at(struct task *task, double moment) {
    struct task_queue *queue = task->queue;
    pthread_mutex_lock(&queue->mutex);
    enum status status = task->timer_slot == 0 ? reserve_timer(queue) : STATUS_OK;
    if (status == STATUS_OK) {
        task->moment = moment;
        if (task->timer_slot == 0) {
            put_timer(queue, ++queue->timer_count, task);
        }
        settle_timer(queue, task->timer_slot);
        if (task->timer_slot == 1) {
            /* The threads sleep until what was the earliest moment before. */
            pthread_cond_signal(&queue->changed);
        }
    }
    pthread_mutex_unlock(&queue->mutex);
    return status;
}

void task_end(struct task *task) {
    pthread_mutex_lock(&task->queue->mutex);
    remove_timer(task);
    /* It runs, so it is in no list. */
    task->is_waiting = false;
    pthread_mutex_unlock(&task->queue->mutex);
}
