/* How long steps would take: each block by the slowest of reading and computing, then its links. */
#ifndef SLUICE_TOOLS_PLAN_SPEED_H
#define SLUICE_TOOLS_PLAN_SPEED_H

#include "tools/plan.h"

/* A step as the model of time sees it. */
struct plan_tick {
    int64_t sequences; /* of one replica */
    int64_t rows;      /* of each */
    int64_t position;  /* where they begin */
    int64_t logit_rows;
    int64_t draft_passes;
    bool is_prefill; /* one prompt's rows: state is read once and weighs nothing */
};

/* A decoding step of one group of sequences with so many drafts each, contexts half full. */
struct plan_tick plan_decode_tick(const struct plan *plan, int64_t running_sequences, int drafts);

/* The largest step, of one prompt. */
struct plan_tick plan_prefill_tick(const struct plan *plan);

/* Groups that take turns on the stages. */
int plan_groups_in_flight(const struct plan *plan, int64_t running_sequences);

/*
 * Time of every block (plan_model.block_count of them) on the plan's fullest ranks: layers, one pass of the
 * draft layer with its head, what the first stage and what the last has besides. `blocks` as plan_block_make
 * gives.
 */
enum status plan_block_seconds(const struct plan *plan, const struct plan_block *blocks,
                               const struct plan_tick *tick, struct plan_seconds *seconds);

/* From one stage to the next: the boundary over the slowest link, and its gathering there. */
double plan_hop_seconds(const struct plan *plan, const struct plan_tick *tick);

/* Fills plan->speed from the times of stages and hops. */
void plan_speed_sum(struct plan *plan, int64_t running_sequences);

#endif
