/*
 * What the leader asks of all ranks of its replica about prefixes on disk (engine/prefix_part.h).
 *
 * A prefix is brought in by orders that follow each other: PREFIX_FIND, how far the files of all ranks go;
 * PREFIX_LOAD, some pages at a time; PREFIX_RESTORE, where the snapshot goes. A rank remembers the prefix
 * that it was last asked to find until the next one. PREFIX_KEEP writes one behind. Orders are plan records:
 * ranks carry them out between rounds, in the order in which the leader sent both. FIND and LOAD are
 * answered.
 */
#ifndef SLUICE_ENGINE_PREFIX_ORDER_H
#define SLUICE_ENGINE_PREFIX_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct prefix_order {
    const int32_t *tokens; /* FIND, KEEP: [token_count] of whole pages from the first one on */
    int32_t token_count;
    int32_t first_page; /* FIND: the pages before it are known; LOAD: the first of those that are meant */
    const int32_t
        *pages; /* LOAD, KEEP: [page_count] where they lie in the pool; KEEP: all from the first on */
    int32_t page_count;
    int32_t snapshot_slot; /* RESTORE, KEEP */
    bool has_snapshot;     /* LOAD: the snapshot behind these pages is to be read too */
    bool has_draft_rows;   /* RESTORE, KEEP: of the snapshot */
};

/* What came of FIND or LOAD where the files are; sent as it is, between processes of the same build. */
struct prefix_answer {
    int32_t end_page;       /* FIND: how far one can get; LOAD: all before it is there, with the snapshot */
    int32_t has_draft_rows; /* LOAD with the snapshot */
};

#endif
