/*
 * A machine and its requests for tests of the draft controller: costs, noise and acceptance of its own, all
 * functions of numbers, so that two controllers in equal worlds see the same tokens and the same slow ticks.
 */
#ifndef SLUICE_TESTS_DRAFT_CONTROLLER_WORLD_H
#define SLUICE_TESTS_DRAFT_CONTROLLER_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/draft_controller.h"

enum { WORLD_SLOTS_MAX = 64, WORLD_HALVES = 2 };

/* Milliseconds of a step: base + per_row * rows + experts * (share of 256 experts that `rows` rows touch). */
struct world_costs {
    double base;
    double per_row;
    double experts;
    double catch_up;
    double pass_base;
    double pass_per_row;
};

struct world_options {
    struct world_costs costs[WORLD_HALVES]; /* in the first and in the second half of the tokens */
    double chances[WORLD_HALVES][2];        /* of a first draft, for even and odd slots */
    double chance_factor;                   /* of each later draft */
    int32_t prompt_rows;                    /* in a tick in which a sequence begins */
    double row_catch_up;   /* milliseconds that the draft layer needs for each row of prompts and sequences */
    int64_t answer_tokens; /* of every sequence; 0: 150 to 900 */
    int64_t tokens_per_slot;
    bool is_profiled;
    bool is_shared;          /* others use the machine too: slow stretches */
    double profile_flatness; /* 0: the profile is right; else many rows are cheaper in it, by up to this */
    uint64_t world_number;   /* of equal worlds with other luck */
};

struct world_result {
    double tokens_per_second; /* over all, by what the ticks cost without noise */
    double late_rate;         /* without the first twentieth of the tokens */
    int64_t ticks;            /* with sequences */
    int64_t tokens;
    double slot_drafts[2]; /* made per round, by even and odd slots */
    struct draft_counters counters;
};

/* Seconds of a step without noise. */
double world_step_seconds(const struct world_costs *costs, int32_t rows);

/* Runs `slot_count` slots to the end. draft_limit 0: without controller and drafts. */
struct world_result world_run(const struct world_options *options, int32_t slot_count, int32_t draft_limit,
                              bool is_adaptive);

#endif
