/*
 * Hashes of what a sequence remembers: of every row that its next positions can still read, and of no other.
 *
 * Reads through stream copies, so it works on every device. Every function asserts.
 */
#ifndef SLUICE_TESTS_SUPPORT_STATE_DIGEST_H
#define SLUICE_TESTS_SUPPORT_STATE_DIGEST_H

#include <stdint.h>

#include "engine/engine_core.h"

enum { STATE_DIGEST_KINDS_MAX = 256 };

/* One hash per state kind, in the order of the state table. */
struct state_digest {
    int count;
    uint64_t kinds[STATE_DIGEST_KINDS_MAX];
};

/*
 * The state of `slot` after `length` committed tokens. Of a ring these are the last rows, in order of
 * position, less the engine's draft_limit rows that it keeps for drafts, or those since the last multiple of
 * its snapshot_period; of an append-only store the finished entries. Draft layers are left out.
 */
void state_digest_take(const struct engine_core *engine, int32_t slot, int64_t length,
                       struct state_digest *out);

/* Fails, naming the kind and its layer, unless both are equal. */
void state_digest_expect_equal(const struct engine_core *engine, const struct state_digest *actual,
                               const struct state_digest *expected, const char *what);

#endif
