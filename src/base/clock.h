/* Monotonic time. Any thread. */
#ifndef SLUICE_BASE_CLOCK_H
#define SLUICE_BASE_CLOCK_H

/* Seconds since an arbitrary start; never goes back. */
double clock_seconds(void);

#endif
