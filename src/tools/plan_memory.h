/* Memory of stages: what the engine will ask for, rank by rank (spec parallelism 2.8). */
#ifndef SLUICE_TOOLS_PLAN_MEMORY_H
#define SLUICE_TOOLS_PLAN_MEMORY_H

#include "tools/plan.h"

/*
 * Parts of every block (plan_model.block_count) on the fullest ranks of a mesh: uneven cuts give the last
 * rank most, vocabularies the first.
 */
enum status plan_blocks_make(const struct plan_model *model, const struct plan_request *request,
                             struct plan_block *blocks);

/* Fills all of a stage's bytes, given its layers. `blocks` of plan_blocks_make. */
enum status plan_stage_fill_memory(const struct plan *plan, const struct plan_block *blocks,
                                   const struct plan_step_bytes *step, int stage_index,
                                   struct plan_stage *stage);

/*
 * Bytes that must fit for a layer: weights, all slots and snapshots, the pages of one full sequence; and what
 * one page takes.
 */
enum status plan_layer_bytes(const struct plan *plan, const struct plan_block *blocks, double *layer_bytes,
                             double *page_bytes);

/* Beginnings that the prefix cache keeps, as the engine chooses. */
int32_t plan_snapshot_count(const struct plan_request *request);

/*
 * Tokens that all replicas would hold together if each rank of a tensor group were a replica of its own,
 * which has its part of the sequences and shares the experts: key-value state is then there once, and what
 * tensor parallelism cuts of weights is there T times (G-5). The step's memory is taken to stay as it is. 0:
 * not a single sequence would fit. Fails only without memory.
 */
enum status plan_tokens_as_replicas(const struct plan *plan, int64_t *tokens);

/* CFG-15: OUT_OF_MEMORY with the ledger of the stage that lacks most, if the plan does not fit. */
enum status plan_check_memory(const struct plan *plan);

#endif
