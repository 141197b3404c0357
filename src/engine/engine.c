/* The engine as callers see it: cores, the work on them, and a thread for each replica that does it. */
#include "sluice/engine.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/condition.h"
#include "engine/engine_internal.h"
#include "engine/engine_stats_sum.h"
#include "engine/rank_team.h"
#include "engine/rank_team_groups.h"

static enum status init_locks(struct engine_replica *replica) {
    CHECK(pthread_mutex_init(&replica->mutex, NULL) == 0, STATUS_OUT_OF_MEMORY, "a mutex cannot be made");
    enum status status = condition_init(&replica->wanted);
    if (status == STATUS_OK) {
        status = condition_init(&replica->cleared);
        if (status == STATUS_OK) {
            replica->has_locks = true;
            return STATUS_OK;
        }
        pthread_cond_destroy(&replica->wanted);
    }
    pthread_mutex_destroy(&replica->mutex);
    return error_forward(status, ERROR_HERE);
}

/* Takes the core over, also after an error. */
static enum status init_replica(struct engine_replica *replica, struct engine_core **core) {
    TRY(engine_work_init(&replica->work, core, engine_loop_finished, replica));
    TRY(init_locks(replica));
    replica->bounds = engine_work_bounds(&replica->work);
    return STATUS_OK;
}

/* Every replica can be called before one of them calls. */
static enum status start(struct sluice_engine *engine, struct engine_core **cores) {
    enum status status = STATUS_OK;
    for (int i = 0; i < engine->replica_count; i++) {
        engine->replicas[i].engine = engine;
        status = status == STATUS_OK ? init_replica(&engine->replicas[i], &cores[i]) : status;
    }
    status = status == STATUS_OK ? engine_routing_init(engine) : status;
    for (int i = 0; i < engine->replica_count && status == STATUS_OK; i++) {
        status = engine_loop_start(&engine->replicas[i]);
    }
    for (int i = 0; i < engine->replica_count && status == STATUS_OK; i++) {
        status = engine_loop_await_start(&engine->replicas[i]);
    }
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status create_engine(int replica_count, struct sluice_engine **out) {
    struct sluice_engine *engine = calloc(1, sizeof *engine);
    CHECK_MEMORY(engine);
    engine->replica_count = replica_count;
    engine->replicas = calloc((size_t)replica_count, sizeof *engine->replicas);
    if (engine->replicas == NULL) {
        free(engine);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory for %d replicas", replica_count);
    }
    *out = engine;
    return STATUS_OK;
}

static enum status open_engine(const struct sluice_engine_options *options, struct sluice_engine **out) {
    double started = clock_seconds();
    struct engine_core *cores[TEAM_RANKS_MAX] = {NULL};
    struct sluice_engine *engine = NULL;
    TRY(engine_core_open_replicas(options, cores));
    int replica_count = rank_team_replicas(&options->parallel);
    enum status status = create_engine(replica_count, &engine);
    if (status == STATUS_OK) {
        status = start(engine, cores);
    }
    if (status != STATUS_OK) {
        for (int i = 0; i < replica_count; i++) {
            engine_core_close(&cores[i]);
        }
        sluice_engine_close(&engine);
        return error_forward(status, ERROR_HERE);
    }
    engine->replicas[0].work.core->facts.load_seconds = clock_seconds() - started;
    *out = engine;
    return STATUS_OK;
}

enum sluice_status sluice_engine_open(const struct sluice_engine_options *options,
                                      struct sluice_engine **out) {
    *out = NULL;
    return (enum sluice_status)open_engine(options, out);
}

/* All threads, or none of them: replicas end together, and one alone would wait for the others. */
static void stop_threads(struct sluice_engine *engine) {
    for (int i = 0; i < engine->replica_count && engine->replica_count > 1; i++) {
        const struct engine_replica *replica = &engine->replicas[i];
        if (!replica->has_thread && replica->work.core != NULL && replica->work.core->ranks != NULL) {
            executor_ranks_abort(replica->work.core->ranks, "the engine could not be started");
        }
    }
    for (int i = 0; i < engine->replica_count; i++) {
        engine_loop_tell_end(&engine->replicas[i]);
    }
    for (int i = 0; i < engine->replica_count; i++) {
        engine_loop_join(&engine->replicas[i]);
    }
}

/* A thread that hangs cannot be ended, nor what it works with be freed. */
static bool is_hanging(const struct sluice_engine *engine) {
    const struct engine_core *core = engine->replicas[0].work.core;
    return core != NULL && core->team != NULL && rank_team_is_hanging(core->team);
}

void sluice_engine_close(struct sluice_engine **engine_pointer) {
    struct sluice_engine *engine = *engine_pointer;
    if (engine == NULL) {
        return;
    }
    if (is_hanging(engine)) {
        *engine_pointer = NULL;
        return;
    }
    stop_threads(engine);
    for (int i = 0; i < engine->replica_count; i++) {
        struct engine_replica *replica = &engine->replicas[i];
        engine_work_deinit(&replica->work);
        if (replica->has_locks) {
            pthread_cond_destroy(&replica->wanted);
            pthread_cond_destroy(&replica->cleared);
            pthread_mutex_destroy(&replica->mutex);
        }
    }
    engine_routing_deinit(engine);
    free(engine->replicas);
    free(engine);
    *engine_pointer = NULL;
}

struct sluice_engine_facts sluice_engine_facts(const struct sluice_engine *engine) {
    struct sluice_engine_facts facts = engine->replicas[0].work.core->facts;
    facts.sequence_limit *= engine->replica_count;
    return facts;
}

/* Replicas have the same ranks in a stage: means of times are added, and divided in the end. */
static void divide_stage_times(struct sluice_engine_stats *sum, int replica_count) {
    for (int i = 0; i < sum->stage_count; i++) {
        sum->stages[i].compute_seconds /= replica_count;
        sum->stages[i].wait_seconds /= replica_count;
        sum->stages[i].send_seconds /= replica_count;
    }
}

struct sluice_engine_stats sluice_engine_stats(struct sluice_engine *engine) {
    struct sluice_engine_stats sum = {0};
    for (int i = 0; i < engine->replica_count; i++) {
        struct engine_replica *replica = &engine->replicas[i];
        pthread_mutex_lock(&replica->mutex);
        engine_stats_add_counters(&sum, &replica->stats, 1);
        engine_stats_add_gauges(&sum, &replica->stats);
        pthread_mutex_unlock(&replica->mutex);
    }
    divide_stage_times(&sum, engine->replica_count);
    return sum;
}

bool sluice_engine_is_lost(const struct sluice_engine *engine) {
    bool is_lost = is_hanging(engine);
    for (int i = 0; i < engine->replica_count; i++) {
        is_lost |= atomic_load(&engine->replicas[i].work.is_lost);
    }
    return is_lost;
}

static void clear_prefix_cache(struct engine_replica *replica) {
    pthread_mutex_lock(&replica->mutex);
    replica->is_clearing = true;
    pthread_cond_signal(&replica->wanted);
    while (replica->is_clearing) {
        pthread_cond_wait(&replica->cleared, &replica->mutex);
    }
    pthread_mutex_unlock(&replica->mutex);
}

enum sluice_status sluice_engine_clear_prefix_cache(struct sluice_engine *engine) {
    for (int i = 0; i < engine->replica_count; i++) {
        clear_prefix_cache(&engine->replicas[i]);
    }
    engine_routing_forget(engine);
    return SLUICE_OK;
}
