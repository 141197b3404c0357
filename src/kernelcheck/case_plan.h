/*
 * Which rows a case holds: segments of consecutive positions, each of its own sequence.
 *
 * What a row holds is a function of (seed, sequence, position) alone. So the same row can be computed alone,
 * among others and in another order, and its bits compared.
 */
#ifndef SLUICE_KERNELCHECK_CASE_PLAN_H
#define SLUICE_KERNELCHECK_CASE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum { CASE_SEGMENTS_MAX = 512 };

struct case_segment {
    int32_t sequence;
    int32_t first_position;
    int32_t row_count;
};

struct case_plan {
    struct case_segment segments[CASE_SEGMENTS_MAX];
    int segment_count;
    int64_t row_count;
};

/* Numbered plans of checks, fewest rows first. Stateful plans have long segments and positions that wrap. */
enum { CASE_PLAN_EMPTY, CASE_PLAN_ONE, CASE_PLAN_FEW, CASE_PLAN_MANY, CASE_PLAN_COUNT };
void case_plan_init(struct case_plan *plan, int number, bool is_stateful, uint64_t seed);

/* `rows` rows at about `position`: one segment each (decode), or one segment of all (prefill). */
void case_plan_init_bench(struct case_plan *plan, int64_t rows, bool is_prefill, int32_t position);

/* The same segments, last first. */
void case_plan_reverse(const struct case_plan *plan, struct case_plan *out);

/* Row `row` of the plan alone. */
void case_plan_single(const struct case_plan *plan, int64_t row, struct case_plan *out);

/* Segment of a row, and its position. */
const struct case_segment *case_plan_row(const struct case_plan *plan, int64_t row, int32_t *position);

/* Index of the row of that sequence and position, -1 if the plan has none. */
int64_t case_plan_find(const struct case_plan *plan, int32_t sequence, int32_t position);

/* The largest position of all rows, -1 if there are none. */
int32_t case_plan_last_position(const struct case_plan *plan);

#endif
