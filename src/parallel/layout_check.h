/*
 * What a layout must fulfil before weights are loaded (spec parallelism 6.5), for planner and engine alike.
 *
 * The table of codes, and where each is checked: 02, 03, 07, 08 and 09 in weights/tensor_part.h, 05 and 06 in
 * parallel/partition.h, 11 in engine/sequence.h, 15 in engine/rank_memory.h, 18 and 21 in
 * engine/rank_identity.h, all others here. 12 and 13 cannot come about: no option puts the draft layer on
 * another stage than the last, and no experts are fused with their exchange. The half of 14 about stages that
 * are unlike each other is in cli/engine_options.c and tools/plan_machine.c, where they can be asked for.
 * Each sentence has what the specification's table demands. Pure functions; any thread.
 */
#ifndef SLUICE_PARALLEL_LAYOUT_CHECK_H
#define SLUICE_PARALLEL_LAYOUT_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "parallel/mesh.h"

/* CFG-01: as many ranks as there are `what` ("devices", "processes"). */
enum status layout_check_rank_count(const struct mesh_shape *mesh, int64_t count, const char *what);

/* CFG-04: a stage has a layer at least; the last of several can do with the head alone (P-1). */
enum status layout_check_stages(int stage_count, int layer_count);

/* CFG-10: drafting is on, and the checkpoint has all it needs. `missing`: the first of the names. */
enum status layout_check_draft_tensors(int draft_limit, int64_t missing_count, const char *missing);

/* CFG-14: ranks that share a context are reserved. */
enum status layout_check_reserved(const struct mesh_shape *mesh);

/* CFG-16: pages of state end where blocks of every compressed layer end. */
enum status layout_check_page_tokens(int64_t page_tokens);

/* CFG-17: a middle stage receives, computes and sends at once. */
enum status layout_check_buffers(int stage_count, int groups_in_flight, int buffer_count);

/*
 * The same code's warning, as one sentence: fewer groups of sequences in flight than stages leave some of
 * these without work. False, and nothing is appended, where there are enough. groups_in_flight 0: as many as
 * stages.
 */
bool layout_append_few_groups(int stage_count, int groups_in_flight, int buffer_count,
                              struct string_buffer *out);

/* CFG-19: a table of expert ids has a row for each token. */
enum status layout_check_expert_table(const char *name, int64_t row_count, int64_t vocabulary_size);

/* CFG-20: a backend whose sums are the same on any number of ranks has them for powers of two up to a most.
 */
enum status layout_check_sums(const char *backend, int tensor, int most);

#endif
