/*
 * The parts of an engine, for the engine's own files and for tests.
 */
#ifndef SLUICE_ENGINE_ENGINE_INTERNAL_H
#define SLUICE_ENGINE_ENGINE_INTERNAL_H

#include "engine/executor.h"
#include "engine/sampler.h"
#include "model/state_table.h"
#include "sluice/engine.h"
#include "weights/loader.h"

struct sluice_engine {
    struct sluice_engine_options options; /* with the defaults worked out */
    struct sluice_engine_facts facts;
    struct arena model_arena; /* model, specs, state table */
    struct model *model;
    struct tensor_spec_list tensors; /* what the model expected of its checkpoint */
    const struct backend *backend;
    struct device *device;
    struct stream *stream;
    struct worker_pool *pool;
    struct loaded_weights weights;
    struct state_table state_table;
    struct state_pool states;
    struct executor *executor;
    struct sampler_workspace *sampler;
    bool *slot_is_used; /* [session_count] */
};

/*
 * Opens an engine from a configuration tree and an open checkpoint (taken over). What sluice_engine_open
 * does after it has read the files.
 */
enum status engine_build(const struct sluice_engine_options *options, const struct json *config,
                         struct checkpoint **checkpoint, struct sluice_engine **out);

#endif
