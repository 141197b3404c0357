/* Which of an engine's replicas gets a request: the router's rule (engine/replica_router.h). */
#include "engine/engine_internal.h"
#include "engine/rank_team_groups.h"

enum status engine_routing_init(struct sluice_engine *engine) {
    /* A replica may have half of what it can run more than the least busy one. */
    int32_t margin = engine->replicas[0].work.core->options.sequence_limit / 2;
    if (engine->replica_count == 1) {
        return STATUS_OK;
    }
    CHECK(pthread_mutex_init(&engine->routing, NULL) == 0, STATUS_OUT_OF_MEMORY, "a mutex cannot be made");
    engine->has_routing = true;
    return replica_router_create(engine->replica_count, margin, &engine->router);
}

void engine_routing_deinit(struct sluice_engine *engine) {
    replica_router_destroy(&engine->router);
    if (engine->has_routing) {
        pthread_mutex_destroy(&engine->routing);
    }
}

static void count_request(struct engine_replica *replica) {
    pthread_mutex_lock(&replica->mutex);
    replica->open_requests++;
    pthread_mutex_unlock(&replica->mutex);
}

struct engine_replica *engine_routing_choose(struct sluice_engine *engine,
                                             const struct sluice_request_options *options) {
    struct replica_load loads[TEAM_RANKS_MAX];
    int chosen = 0;
    for (int i = 0; i < engine->replica_count && engine->replica_count > 1; i++) {
        struct engine_replica *replica = &engine->replicas[i];
        pthread_mutex_lock(&replica->mutex);
        loads[i] = (struct replica_load){.is_usable = true, .requests = replica->open_requests};
        pthread_mutex_unlock(&replica->mutex);
    }
    if (engine->replica_count > 1) {
        pthread_mutex_lock(&engine->routing);
        chosen = replica_router_choose(engine->router, options->prompt, options->prompt_count, loads);
        replica_router_learn(engine->router, chosen, options->prompt, options->prompt_count);
        pthread_mutex_unlock(&engine->routing);
    }
    count_request(&engine->replicas[chosen]);
    return &engine->replicas[chosen];
}

void engine_routing_learn(struct engine_replica *replica, const int32_t *tokens, int32_t count) {
    struct sluice_engine *engine = replica->engine;
    if (engine->has_routing) {
        pthread_mutex_lock(&engine->routing);
        replica_router_learn(engine->router, (int)(replica - engine->replicas), tokens, (size_t)count);
        pthread_mutex_unlock(&engine->routing);
    }
}

void engine_routing_forget(struct sluice_engine *engine) {
    if (engine->has_routing) {
        pthread_mutex_lock(&engine->routing);
        for (int i = 0; i < engine->replica_count; i++) {
            replica_router_forget(engine->router, i);
        }
        pthread_mutex_unlock(&engine->routing);
    }
}
