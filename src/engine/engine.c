/* The engine as callers see it: a core, the work on it, and a thread that does it. */
#include "sluice/engine.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/condition.h"
#include "engine/engine_internal.h"

static enum status init_locks(struct sluice_engine *engine) {
    CHECK(pthread_mutex_init(&engine->mutex, NULL) == 0, STATUS_OUT_OF_MEMORY, "a mutex cannot be made");
    enum status status = condition_init(&engine->wanted);
    if (status == STATUS_OK) {
        status = condition_init(&engine->cleared);
        if (status == STATUS_OK) {
            engine->has_locks = true;
            return STATUS_OK;
        }
        pthread_cond_destroy(&engine->wanted);
    }
    pthread_mutex_destroy(&engine->mutex);
    return error_forward(status, ERROR_HERE);
}

static enum status start(struct sluice_engine *engine, struct engine_core **core) {
    TRY(init_locks(engine));
    TRY(engine_work_init(&engine->work, core, engine_loop_finished, engine));
    engine->bounds = engine_work_bounds(&engine->work);
    engine_work_stats(&engine->work, &engine->stats);
    return engine_loop_start(engine);
}

static enum status open_engine(const struct sluice_engine_options *options, struct sluice_engine **out) {
    double started = clock_seconds();
    struct engine_core *core = NULL;
    TRY(engine_core_open(options, &core));
    struct sluice_engine *engine = calloc(1, sizeof *engine);
    enum status status = STATUS_OUT_OF_MEMORY;
    if (engine != NULL) {
        status = start(engine, &core);
    }
    if (status != STATUS_OK) {
        engine_core_close(&core);
        sluice_engine_close(&engine);
        return error_forward(status, ERROR_HERE);
    }
    engine->work.core->facts.load_seconds = clock_seconds() - started;
    *out = engine;
    return STATUS_OK;
}

enum sluice_status sluice_engine_open(const struct sluice_engine_options *options,
                                      struct sluice_engine **out) {
    *out = NULL;
    return (enum sluice_status)open_engine(options, out);
}

void sluice_engine_close(struct sluice_engine **engine_pointer) {
    struct sluice_engine *engine = *engine_pointer;
    if (engine == NULL) {
        return;
    }
    engine_loop_stop(engine);
    engine_work_deinit(&engine->work);
    if (engine->has_locks) {
        pthread_cond_destroy(&engine->wanted);
        pthread_cond_destroy(&engine->cleared);
        pthread_mutex_destroy(&engine->mutex);
    }
    free(engine);
    *engine_pointer = NULL;
}

struct sluice_engine_facts sluice_engine_facts(const struct sluice_engine *engine) {
    return engine->work.core->facts;
}

struct sluice_engine_stats sluice_engine_stats(struct sluice_engine *engine) {
    pthread_mutex_lock(&engine->mutex);
    struct sluice_engine_stats stats = engine->stats;
    pthread_mutex_unlock(&engine->mutex);
    return stats;
}

enum sluice_status sluice_engine_clear_prefix_cache(struct sluice_engine *engine) {
    pthread_mutex_lock(&engine->mutex);
    engine->is_clearing = true;
    pthread_cond_signal(&engine->wanted);
    while (engine->is_clearing) {
        pthread_cond_wait(&engine->cleared, &engine->mutex);
    }
    pthread_mutex_unlock(&engine->mutex);
    return SLUICE_OK;
}
