/*
 * What a tick gave, as bytes: from the rank that chooses tokens to the one that plans (spec parallelism P-34
 * to P-36, A.3).
 *
 * The first part is a head and one record per sampled segment, of a width that the engine's draft limit
 * decides; a tick that samples nothing (P-33) has the head alone, which says how it ended and what it took.
 * What few ticks have is a second part, whose size the head says: the sentence of an error, of the tick or of
 * a segment, and log-probabilities, first of what was chosen, then of prompts.
 */
#ifndef SLUICE_ENGINE_FEEDBACK_RECORD_H
#define SLUICE_ENGINE_FEEDBACK_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "engine/round_plan.h"
#include "engine/stage_seconds.h"

/* What sizes depend on. */
struct feedback_shape {
    int32_t draft_limit;
    int32_t sequence_limit;
    int32_t row_limit;
    int64_t vocabulary_size;
};

/* What is said of the whole tick. */
struct feedback_tick {
    uint64_t number;
    enum status status;
    const char *message;         /* of an error; on reading, in the second part's memory */
    struct stage_seconds stages; /* but the leader's, where it is another than the last */
};

/* Bytes of the first part with so many sampled segments, and of the largest second part. */
size_t feedback_record_bytes(const struct feedback_shape *shape, int32_t count);
size_t feedback_extra_bytes_max(const struct feedback_shape *shape);

/* Writes both parts, aligned to 8 bytes, and returns the size of the second. */
size_t feedback_record_write(const struct feedback_shape *shape, const struct feedback_tick *tick,
                             const struct round_plan *plan, const struct round_result *result, void *memory,
                             void *extra);

/* Checks the head of a first part that belongs to tick `number`; gives the size of the second. INTERNAL. */
enum status feedback_record_check(const struct feedback_shape *shape, uint64_t number, int32_t count,
                                  const void *memory, size_t *extra_bytes);

/*
 * Reads what feedback_record_check has passed. Segments must be those of the plan, tokens in the vocabulary:
 * INTERNAL says what is wrong. Log-probabilities stay in `extra`; out's arrays are the caller's, its times
 * are left alone.
 */
enum status feedback_record_read(const struct feedback_shape *shape, const struct round_plan *plan,
                                 const void *memory, const void *extra, struct feedback_tick *tick,
                                 struct round_result *out);

#endif
