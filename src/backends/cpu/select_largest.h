/*
 * The largest of many scores, without sorting them.
 */
#ifndef SLUICE_BACKENDS_CPU_SELECT_LARGEST_H
#define SLUICE_BACKENDS_CPU_SELECT_LARGEST_H

#include <stdint.h>

/* Counters that select_largest needs as scratch. */
enum { SELECT_COUNTERS = 4 * 2049 };

/* Turns floats in place into integers that rise with them; 0 and -0 become the same. */
void select_make_orders(void *scores, int64_t count);

/*
 * The indices of the `limit` largest orders, ascending; of equal ones the first. 0 < limit <= count. Takes a
 * fixed number of passes whatever the values. counters: [SELECT_COUNTERS].
 */
void select_largest(const uint32_t *orders, int64_t count, int64_t limit, uint32_t *counters, int32_t *out);

#endif
