/* Condition variables that wait by the clock of base/clock.h. The thread rules are those of pthread_cond_t.
 */
#ifndef SLUICE_BASE_CONDITION_H
#define SLUICE_BASE_CONDITION_H

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"

/* Owned: pthread_cond_destroy. */
enum status condition_init(pthread_cond_t *condition);

/* Waits as pthread_cond_wait, but not beyond `moment`, in clock_seconds. Returns false if that was reached.
 */
bool condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, double moment);

#endif
