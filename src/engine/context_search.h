/*
 * The longest context that memory has room for, found by trying: what a step and its records take grows with
 * the context, and so does the state of one full sequence, which must fit beside them.
 *
 * Contexts that are tried are multiples of a page's tokens, and the longest one allowed, which comes first
 * and is the only one where memory is plenty. Ranks that are told the same make the same tries.
 */
#ifndef SLUICE_ENGINE_CONTEXT_SEARCH_H
#define SLUICE_ENGINE_CONTEXT_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

struct context_search {
    int64_t limit_tokens;
    int64_t page_tokens;
    int64_t fitting_pages; /* most that are known to fit; 0: none yet */
    int64_t beyond_pages;  /* fewest that are known not to */
    int64_t tried_pages;
};

/* `limit_tokens` at least 1. */
struct context_search context_search_begin(int64_t limit_tokens, int64_t page_tokens);

/* The context to try now. It stays the same until context_search_tell. */
int64_t context_search_tokens(const struct context_search *search);

/*
 * Whether that one fits. True while there is another one to try; once it is false context_search_tokens is
 * the longest that fits, or the shortest of all if that does not fit either.
 */
bool context_search_tell(struct context_search *search, bool fits);

#endif
