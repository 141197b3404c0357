/* By halving: what fits is known to be fewer pages than what does not. */
#include "engine/context_search.h"

struct context_search context_search_begin(int64_t limit_tokens, int64_t page_tokens) {
    int64_t pages = (limit_tokens + page_tokens - 1) / page_tokens;
    return (struct context_search){.limit_tokens = limit_tokens,
                                   .page_tokens = page_tokens,
                                   .beyond_pages = pages + 1,
                                   .tried_pages = pages};
}

int64_t context_search_tokens(const struct context_search *search) {
    int64_t tokens = search->tried_pages * search->page_tokens;
    return tokens < search->limit_tokens ? tokens : search->limit_tokens;
}

bool context_search_tell(struct context_search *search, bool fits) {
    if (fits) {
        search->fitting_pages = search->tried_pages;
    } else {
        search->beyond_pages = search->tried_pages;
    }
    int64_t between = search->beyond_pages - search->fitting_pages;
    bool has_more = between > 1;
    search->tried_pages = search->fitting_pages + (has_more ? between / 2 : 0);
    search->tried_pages = search->tried_pages < 1 ? 1 : search->tried_pages;
    return has_more;
}
