/*
 * How many pages of state there are: decided once, before anything big is allocated (promise P7).
 */
#ifndef SLUICE_ENGINE_MEMORY_PLAN_H
#define SLUICE_ENGINE_MEMORY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct memory_plan_input {
    uint64_t limit_bytes;     /* 0: none was given */
    uint64_t available_bytes; /* what the system can still give */
    uint64_t fixed_bytes;     /* everything but pages */
    uint64_t page_bytes;
    int32_t page_tokens;
    int64_t pages_per_sequence; /* of a context */
    int32_t sequence_limit;
    bool has_prefix_cache; /* which can use as many pages again */
};

/*
 * Pages that the engine gets: with a limit all that fit below it, without one what all sequences and the
 * prefix cache can use, as far as nine tenths of the available memory go. OUT_OF_MEMORY says what is missing
 * for a single sequence of full length.
 */
enum status memory_plan_pages(const struct memory_plan_input *input, int32_t *page_count);

#endif
