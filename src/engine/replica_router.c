/* Per replica a table of hashes, one place for each: what hashes to the same place displaces what is there.
 */
#include "engine/replica_router.h"

#include <stdlib.h>
#include <string.h>

#include "lib/hash.h"

struct replica_router {
    int replica_count;
    int32_t margin;
    uint64_t *hashes; /* [replica_count][REPLICA_BLOCKS]; 0: empty */
};

enum status replica_router_create(int replica_count, int32_t margin, struct replica_router **out) {
    struct replica_router *router = calloc(1, sizeof *router);
    CHECK_MEMORY(router);
    router->replica_count = replica_count;
    router->margin = margin;
    router->hashes = calloc((size_t)replica_count * REPLICA_BLOCKS, sizeof *router->hashes);
    if (router->hashes == NULL) {
        replica_router_destroy(&router);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory for the beginnings that %d replicas know", replica_count);
    }
    *out = router;
    return STATUS_OK;
}

void replica_router_destroy(struct replica_router **router) {
    if (*router != NULL) {
        free((*router)->hashes);
        free(*router);
        *router = NULL;
    }
}

static uint64_t *place_of(const struct replica_router *router, int replica, uint64_t hash) {
    return router->hashes + (size_t)replica * REPLICA_BLOCKS + hash % REPLICA_BLOCKS;
}

/* Of the block and all before it, never 0. */
static uint64_t hash_block(const int32_t *block, uint64_t before) {
    struct hash128 hash = hash_xxh3_128(block, REPLICA_BLOCK_TOKENS * sizeof *block, before);
    return hash.low == 0 ? 1 : hash.low;
}

static int32_t least_requests(const struct replica_router *router, const struct replica_load *loads) {
    int32_t least = INT32_MAX;
    for (int i = 0; i < router->replica_count; i++) {
        if (loads[i].is_usable && loads[i].requests < least) {
            least = loads[i].requests;
        }
    }
    return least;
}

int replica_router_choose(const struct replica_router *router, const int32_t *tokens, size_t count,
                          const struct replica_load *loads) {
    int32_t least = least_requests(router, loads);
    int best = -1;
    size_t best_known = 0;
    for (int i = 0; i < router->replica_count; i++) {
        size_t known = 0;
        uint64_t hash = 0;
        if (!loads[i].is_usable || loads[i].requests > least + router->margin) {
            continue;
        }
        for (size_t end = REPLICA_BLOCK_TOKENS; end <= count; end += REPLICA_BLOCK_TOKENS) {
            hash = hash_block(tokens + end - REPLICA_BLOCK_TOKENS, hash);
            if (*place_of(router, i, hash) != hash) {
                break;
            }
            known = end;
        }
        if (best < 0 || known > best_known ||
            (known == best_known && loads[i].requests < loads[best].requests)) {
            best = i;
            best_known = known;
        }
    }
    return best;
}

void replica_router_learn(struct replica_router *router, int replica, const int32_t *tokens, size_t count) {
    uint64_t hash = 0;
    for (size_t end = REPLICA_BLOCK_TOKENS; end <= count; end += REPLICA_BLOCK_TOKENS) {
        hash = hash_block(tokens + end - REPLICA_BLOCK_TOKENS, hash);
        *place_of(router, replica, hash) = hash;
    }
}

void replica_router_forget(struct replica_router *router, int replica) {
    memset(place_of(router, replica, 0), 0, REPLICA_BLOCKS * sizeof *router->hashes);
}
