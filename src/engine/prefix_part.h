/*
 * A rank's part of prefixes on disk: the files of the layers of its stage, read into the state pool and
 * written from it.
 *
 * Keys of entries say which layers they hold, so stages share a directory and what another cut into stages
 * has left is never taken for one's own. All ranks of a stage have the same state, bit for bit, on any number
 * of them (spec parallelism 6.1, L1). So the first of them alone has files, which it reads and passes on to
 * the others: the disk holds each row once, an entry that it has is one that all have, and another number of
 * ranks per stage finds the same entries. Ranks of several hosts have a directory each, of the same name.
 *
 * A prefix is there if all stages have it; the leader decides (engine/prefix_tier.h). An entry that does not
 * pass its checks is deleted by whoever reads it, and so are those of the same prefix behind it, which nobody
 * can reach any more: what is computed in its place closes the gap.
 *
 * One thread at a time, the rank's; counters: any thread.
 */
#ifndef SLUICE_ENGINE_PREFIX_PART_H
#define SLUICE_ENGINE_PREFIX_PART_H

#include "engine/engine_core.h"
#include "engine/prefix_disk.h"
#include "engine/prefix_order.h"

struct prefix_part;

/*
 * For a core that has its executor; borrowed. Opens the directory of the core's options (prefix_disk_open) on
 * the first rank of a stage.
 */
enum status prefix_part_create(struct engine_core *core, struct prefix_part **out);

/* Writes what is on its way, frees and nulls; NULL inside is allowed. */
void prefix_part_destroy(struct prefix_part **part);

/*
 * The end of the longest prefix of the order's tokens that has a snapshot here, by the names of files;
 * first_page if there is none behind it. The prefix is the one that prefix_part_load means.
 */
enum status prefix_part_find(struct prefix_part *part, const struct prefix_order *order,
                             struct prefix_answer *out);

/*
 * Collective over the ranks of a stage. Reads and checks the order's pages, and its snapshot, which stays in
 * host memory until prefix_part_restore. An entry that is not there is no error: the answer says where it is
 * missing, at the snapshot by a page before the last one.
 */
enum status prefix_part_load(struct prefix_part *part, const struct prefix_order *order,
                             struct prefix_answer *out);

/* Puts the snapshot that was loaded last into the order's slot. */
enum status prefix_part_restore(struct prefix_part *part, const struct prefix_order *order);

/* Writes what the directory lacks of the pages and the snapshot, as far as the disk keeps up. */
enum status prefix_part_keep(struct prefix_part *part, const struct prefix_order *order);

/* Zeros where there are no files. */
struct prefix_disk_counters prefix_part_counters(struct prefix_part *part);

#endif
