/* Seconds to a timespec of the monotonic clock. */
#include "base/condition.h"

#include <errno.h>
#include <time.h>

enum status condition_init(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    CHECK(pthread_condattr_init(&attributes) == 0, STATUS_OUT_OF_MEMORY, "out of memory");
    int error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    error = error == 0 ? pthread_cond_init(condition, &attributes) : error;
    pthread_condattr_destroy(&attributes);
    CHECK(error == 0, STATUS_OUT_OF_MEMORY, "a condition variable cannot be made (error %d)", error);
    return STATUS_OK;
}

bool condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, double moment) {
    struct timespec until = {.tv_sec = (time_t)moment};
    until.tv_nsec = (long)((moment - (double)until.tv_sec) * 1e9);
    return pthread_cond_timedwait(condition, mutex, &until) != ETIMEDOUT;
}
