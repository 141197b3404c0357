/* Plans: some written down, some drawn. */
#include "kernelcheck/case_plan.h"

#include <assert.h>

#include "kernelcheck/case_random.h"

static void add_segment(struct case_plan *plan, int32_t sequence, int32_t first_position, int32_t row_count) {
    assert(plan->segment_count < CASE_SEGMENTS_MAX);
    plan->segments[plan->segment_count++] = (struct case_segment){sequence, first_position, row_count};
    plan->row_count += row_count;
}

/* Rows by themselves: their positions matter to few operations, so they come from everywhere. */
static void add_single_rows(struct case_plan *plan, int32_t count, uint64_t seed) {
    enum { NEAR = 300, FAR = 1 << 20 };
    struct case_random random = case_random_start(seed, 1, 0, 0);
    for (int32_t i = 0; i < count; i++) {
        uint64_t drawn = case_random_next(&random);
        add_segment(plan, i, (int32_t)((drawn >> 8) % (drawn % 2 == 0 ? NEAR : FAR)), 1);
    }
}

static void add_few_segments(struct case_plan *plan) {
    add_segment(plan, 0, 0, 3);   /* a prompt's start */
    add_segment(plan, 1, 131, 1); /* one token behind a wrapped ring */
    add_segment(plan, 2, 6, 9);   /* across several blocks of 4 */
}

static void add_many_segments(struct case_plan *plan) {
    add_segment(plan, 0, 255, 1);
    add_segment(plan, 1, 120,
                70); /* ends a block of 128 in its middle, half of its window lies in the step */
    add_segment(plan, 2, 0, 1);
    add_segment(plan, 3, 0, 40);
    add_segment(plan, 4, 509, 4);
    add_segment(plan, 5, 383, 14);
}

void case_plan_init(struct case_plan *plan, int number, bool is_stateful, uint64_t seed) {
    static const int32_t single_rows[CASE_PLAN_COUNT] = {0, 1, 5, 130};
    *plan = (struct case_plan){0};
    if (!is_stateful) {
        add_single_rows(plan, single_rows[number], seed);
        return;
    }
    switch (number) {
    case CASE_PLAN_ONE:
        add_segment(plan, 0, 127, 1);
        break;
    case CASE_PLAN_FEW:
        add_few_segments(plan);
        break;
    case CASE_PLAN_MANY:
        add_many_segments(plan);
        break;
    default:
        break;
    }
}

void case_plan_init_bench(struct case_plan *plan, int64_t rows, bool is_prefill, int32_t position) {
    *plan = (struct case_plan){0};
    if (is_prefill) {
        add_segment(plan, 0, position, (int32_t)rows);
        return;
    }
    for (int32_t i = 0; i < rows; i++) {
        add_segment(plan, i, position, 1);
    }
}

void case_plan_reverse(const struct case_plan *plan, struct case_plan *out) {
    *out = (struct case_plan){0};
    for (int i = plan->segment_count - 1; i >= 0; i--) {
        const struct case_segment *segment = &plan->segments[i];
        add_segment(out, segment->sequence, segment->first_position, segment->row_count);
    }
}

void case_plan_single(const struct case_plan *plan, int64_t row, struct case_plan *out) {
    int32_t position;
    const struct case_segment *segment = case_plan_row(plan, row, &position);
    *out = (struct case_plan){0};
    add_segment(out, segment->sequence, position, 1);
}

const struct case_segment *case_plan_row(const struct case_plan *plan, int64_t row, int32_t *position) {
    int i = 0;
    while (row >= plan->segments[i].row_count) {
        row -= plan->segments[i++].row_count;
        assert(i < plan->segment_count);
    }
    *position = plan->segments[i].first_position + (int32_t)row;
    return &plan->segments[i];
}

int64_t case_plan_find(const struct case_plan *plan, int32_t sequence, int32_t position) {
    int64_t first = 0;
    for (int i = 0; i < plan->segment_count; i++) {
        const struct case_segment *segment = &plan->segments[i];
        int32_t offset = position - segment->first_position;
        if (segment->sequence == sequence && offset >= 0 && offset < segment->row_count) {
            return first + offset;
        }
        first += segment->row_count;
    }
    return -1;
}

int32_t case_plan_last_position(const struct case_plan *plan) {
    int32_t last = -1;
    for (int i = 0; i < plan->segment_count; i++) {
        int32_t end = plan->segments[i].first_position + plan->segments[i].row_count - 1;
        last = end > last ? end : last;
    }
    return last;
}
