/*
 * Threads that do what is due: a task is woken by events or by its timer, and runs on one of them.
 *
 * However often a task is woken before it runs, it runs once; woken while it runs, it runs again. So whoever
 * wakes it only passes the word on. A task never runs on two threads at once.
 */
#ifndef SLUICE_SERVER_TASK_QUEUE_H
#define SLUICE_SERVER_TASK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct task_queue;

struct task {
    /*
     * Does what is due, without waiting. False: the task is over; nobody wakes it any more, and it may have
     * been freed.
     */
    bool (*run)(struct task *task);

    /* The queue's. */
    struct task_queue *queue;
    struct task *next; /* of those that wait to run */
    bool is_waiting;
    bool is_running;
    double moment;     /* of the timer, in clock_seconds */
    size_t timer_slot; /* 1 and more in the queue's heap; 0: no timer */
};

enum status task_queue_create(int thread_count, struct task_queue **out);

/* Waits for runs under way, ends the threads, frees and nulls. Tasks must be over. NULL inside is allowed. */
void task_queue_destroy(struct task_queue **queue);

/* A task that sleeps. */
void task_init(struct task *task, struct task_queue *queue, bool (*run)(struct task *task));

/* Any thread. */
void task_wake(struct task *task);

/* Wakes the task at a moment of clock_seconds, in place of an earlier wish. OUT_OF_MEMORY: there is none. */
enum status task_wake_at(struct task *task, double moment);

/* To be called in `run` before it returns false: drops wake-ups and timer that are still to come. */
void task_end(struct task *task);

#endif
