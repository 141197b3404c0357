/*
 * What steps and draft passes take, in seconds, learned from profile and ticks (spec parallelism, M-33,
 * M-35).
 *
 * A curve holds seconds at fixed row counts and is linear between them. Measurements move the points around
 * them by an average that a single slow tick cannot pull far. Every curve rises with its rows: a point that
 * contradicts a newer measurement follows it. Points that nothing measured lie on the line through measured
 * ones; beyond a single measured point a curve is flat, so that what is unknown looks worth one try.
 */
#ifndef SLUICE_ENGINE_DRAFT_CONTROLLER_COSTS_H
#define SLUICE_ENGINE_DRAFT_CONTROLLER_COSTS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    COST_POINTS = 28,        /* 1, 2, 3, 4, 6, 8, 12, ... 16384 rows */
    COST_CONTEXT_CLASSES = 4 /* mean contexts below 4096, 32768, 262144 tokens, and longer */
};

/* All zero: nothing is known. */
struct cost_curve {
    double seconds[COST_POINTS];
    double weight[COST_POINTS]; /* measurements at the point, up to a limit; 0: none */
    double recent[COST_POINTS]; /* the same of late, without a limit */
    int32_t measured_points;
    int32_t surprises; /* measurements in a row that were far off: above 0 slower, below 0 faster */
};

/*
 * Draft work of a tick: the rows of all sequences are caught up; the first pass drafts a token for those that
 * want one, later passes one more each for those that want more.
 */
struct draft_costs {
    double slowness;   /* 0: nothing is known; draft_costs_slowness */
    int32_t surprises; /* steps in a row that the speed does not explain: above 0 slower, below 0 faster */
    struct cost_curve step[COST_CONTEXT_CLASSES];
    struct cost_curve catch_up;
    struct cost_curve first_pass;
    struct cost_curve later_pass;
    double prompt_row_seconds; /* of catching up; 0: not yet known */
    double prompt_rows;        /* that the draft layer has to catch up, of late */
    double tokens;             /* of late */
};

/* The sequences that take part in each draft pass: pass_rows[j] of them make more than j drafts. */
struct draft_passes {
    int32_t sequence_count;
    int32_t prompt_rows; /* that are caught up too */
    int32_t pass_count;
    const int32_t *pass_rows; /* [pass_count], falling */
};

/* Seconds for `rows` rows, 0 for none or while nothing is known. */
double cost_curve_at(const struct cost_curve *curve, int32_t rows);

/* A straight piece of a curve: the seconds of `first_rows` up to `last_rows` rows. */
struct cost_line {
    int32_t first_rows;
    int32_t last_rows;
    double seconds; /* of first_rows */
    double seconds_per_row;
};

/* The piece that begins at or before `rows`, at least 1. */
struct cost_line cost_curve_line(const struct cost_curve *curve, int32_t rows);

/* Learns one measurement of at least one row. */
void cost_curve_observe(struct cost_curve *curve, int32_t rows, double seconds);

/* Number of the largest point that is not above `rows`: numbers of sequences are told apart by it. */
int32_t cost_point_of(int32_t rows);

/* The step curve for a mean context. */
const struct cost_curve *draft_costs_step(const struct draft_costs *costs, int32_t context_tokens);

/*
 * Learns a step. The first one of a context class takes over what the nearest class knows. Unless the tick
 * is part of an experiment, what is off at rows that are known well is put down to the machine's speed.
 */
void draft_costs_observe_step(struct draft_costs *costs, int32_t rows, int32_t context_tokens, double seconds,
                              bool is_experiment);

/* Forgets what steps take: the machine, or what it does, is another one. Passes are as dear as they are now.
 */
void draft_costs_forget_steps(struct draft_costs *costs);

/* Of the machine now, against the curves; 1 while nothing is known. */
double draft_costs_slowness(const struct draft_costs *costs);

/* Measured seconds as they would be on a machine as fast as the curves. */
double draft_costs_at_curve_speed(const struct draft_costs *costs, double seconds);

/* A measured step for all context classes. */
void draft_costs_set_step(struct draft_costs *costs, int32_t rows, double seconds);

/* Seconds expected for the draft work of a tick. */
double draft_costs_passes(const struct draft_costs *costs, const struct draft_passes *passes);

/* Catching up on so many rows of prompts took `seconds`. */
void draft_costs_observe_prompts(struct draft_costs *costs, int32_t rows, double seconds);

/* A tick had `prompt_rows` rows of prompts that the draft layer writes if it is on, and gave `tokens`. */
void draft_costs_note_prompts(struct draft_costs *costs, int32_t prompt_rows, int64_t tokens);

/*
 * What each token of an answer has to bring in if sequences draft: their prompts' rows in the draft layer.
 * Seconds on a machine as fast as the curves, of late; answers that have just begun are taken to become of
 * some length.
 */
double draft_costs_prompt_share(const struct draft_costs *costs, int32_t sequence_count);

/*
 * Learns the whole draft work of a tick, shared out over its parts in the proportion that is known of them;
 * of a tick with prompts' rows, those.
 */
void draft_costs_observe_passes(struct draft_costs *costs, const struct draft_passes *passes, double seconds);

#endif
