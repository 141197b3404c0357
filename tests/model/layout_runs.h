/*
 * Requests on layout-v4 over some layout, compared with what one rank gives: token by token and, by their
 * log-probabilities, logit by logit. Every function asserts.
 */
#ifndef SLUICE_TESTS_MODEL_LAYOUT_RUNS_H
#define SLUICE_TESTS_MODEL_LAYOUT_RUNS_H

#include <stdbool.h>
#include <stddef.h>

#include "sluice/request.h"

struct layout {
    int pipeline;
    int tensor;
    bool has_expert_parallelism;
    int drafts;
    int step_tokens;
    bool has_cache;
    int rows;     /* enum sluice_row_sharing */
    int exchange; /* enum sluice_expert_exchange */
    int shared;   /* enum sluice_shared_experts */
    int gather;   /* enum sluice_row_gather */
    int rows_min;
    int in_flight;
    const char *partition; /* NULL: by cost */
    int moving;            /* experts move: 1, and how many copies there are besides; 0: they stay */
    int data;              /* replicas that share the experts */
};

/* Names for the tables below. */
enum {
    ON = SLUICE_ROW_SHARING_ON,
    OFF = SLUICE_ROW_SHARING_OFF,
    AUTO = SLUICE_ROW_SHARING_AUTO,
    AGRS = SLUICE_EXPERT_EXCHANGE_GATHER,
    A2A = SLUICE_EXPERT_EXCHANGE_DISPATCH,
    CUT = SLUICE_SHARED_EXPERTS_CUT,
    WHOLE = SLUICE_SHARED_EXPERTS_WHOLE,
    EARLY = SLUICE_ROW_GATHER_EARLY,
    LATE = SLUICE_ROW_GATHER_LATE,
};

/* Of a group of tests: the state is what layout_expect_same takes. */
int layout_set_up(void **state);
int layout_tear_down(void **state);

/* Where the model is. */
const char *layout_directory(const void *state);

/* Runs all requests on each of the layouts. */
void layout_expect_same(const void *state, const struct layout *layouts, size_t count);

#endif
