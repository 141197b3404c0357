/* Values that every rank can compute for every other, and their sums by an independent walk over the tree. */
#ifndef SLUICE_TESTS_COMM_COMM_ORACLE_H
#define SLUICE_TESTS_COMM_COMM_ORACLE_H

#include <stdint.h>

/* Element `index` of what `rank` contributes: magnitudes differ so much that every order of adding shows. */
float oracle_value(uint64_t seed, int rank, int64_t index);

/* The sum of that element over `size` ranks. */
float oracle_sum(uint64_t seed, int size, int64_t index);

/* A number from 0 to `limit` - 1 for a seed and a place. */
int oracle_number(uint64_t seed, int place, int limit);

/* Fills bytes that tell where they come from. */
void oracle_fill(unsigned char *bytes, uint64_t seed, int from, int to, int count);

#endif
