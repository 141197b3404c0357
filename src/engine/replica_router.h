/*
 * Which replica gets a request: of those in one engine, and of workers that are engines of their own.
 *
 * The rule: the replica that knows the longest beginning of the prompt, in whole blocks, takes it, unless it
 * has more requests than the least busy one and a margin on top. Without a known beginning, and among equals,
 * the least busy one does, the one with the lowest number among those. What a replica has been given, and
 * what it answered, it knows; newer beginnings displace older ones by the hash of a block and all before it.
 *
 * A wrong guess costs time only. One thread at a time.
 */
#ifndef SLUICE_ENGINE_REPLICA_ROUTER_H
#define SLUICE_ENGINE_REPLICA_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { REPLICA_BLOCK_TOKENS = 128, REPLICA_BLOCKS = 1 << 16 };

struct replica_router;

/* How a replica stands. */
struct replica_load {
    bool is_usable;
    int32_t requests;
};

/* `margin`: requests that a replica may have beyond the least busy one. Owned: replica_router_destroy. */
enum status replica_router_create(int replica_count, int32_t margin, struct replica_router **out);
void replica_router_destroy(struct replica_router **router);

/* The replica for a prompt, -1 if none is usable. */
int replica_router_choose(const struct replica_router *router, const int32_t *tokens, size_t count,
                          const struct replica_load *loads);

/* The replica gets to know the blocks of this text. */
void replica_router_learn(struct replica_router *router, int replica, const int32_t *tokens, size_t count);

/* The replica has been restarted, or its cache cleared. */
void replica_router_forget(struct replica_router *router, int replica);

#endif
