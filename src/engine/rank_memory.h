/*
 * What the ranks of a replica agree on before state is allocated: one number of pages for all.
 *
 * Each rank says what it takes besides pages and what a page takes; ranks of one host share its memory. All
 * see the same numbers and come to the same result.
 */
#ifndef SLUICE_ENGINE_RANK_MEMORY_H
#define SLUICE_ENGINE_RANK_MEMORY_H

#include "engine/memory_plan.h"
#include "sluice/engine.h"

/* One rank's part; sent as it is, between processes of the same build. */
struct rank_memory {
    int32_t host;
    uint64_t fixed_bytes; /* everything but pages and mapped weights */
    uint64_t page_bytes;
    uint64_t available_bytes; /* of the host, as this rank sees it once it has copied its weights */
    struct sluice_memory_ledger ledger;
};

/*
 * Pages that fit on every host, by the rules of memory_plan_pages, and no more than are wanted. `wanted`: all
 * fields but the bytes. OUT_OF_MEMORY names the host's ranks and what they take, if there are several.
 */
enum status rank_memory_agree(const struct rank_memory *ranks, int count,
                              const struct memory_plan_input *wanted, int32_t *page_count);

/* What a rank's host can give. */
struct host_memory {
    int32_t host;
    uint64_t available_bytes;
};

/*
 * Bytes that ranks first to first + count - 1 of `size` can have together: nine tenths of what their hosts
 * give. Infinite if one of these has other ranks too: what is not on one stage is on another then, and takes
 * as much.
 */
double rank_memory_stage_limit(const struct host_memory *ranks, int size, int first, int count);

/* The ledger of all ranks together; pages are counted once. */
struct sluice_memory_ledger rank_memory_sum(const struct rank_memory *ranks, int count);

#endif
