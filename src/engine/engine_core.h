/*
 * What runs steps: model, weights, state and executor, without requests and without a thread of its own.
 *
 * The engine adds a scheduler and a thread (engine/engine_loop.h). Tools that measure or trace single steps,
 * and tests, use a core directly. One thread at a time.
 */
#ifndef SLUICE_ENGINE_ENGINE_CORE_H
#define SLUICE_ENGINE_ENGINE_CORE_H

#include "base/arena.h"
#include "base/worker_pool.h"
#include "engine/executor.h"
#include "engine/rank_memory.h"
#include "engine/round.h"
#include "engine/state_pool.h"
#include "lib/hash.h"
#include "model/model.h"
#include "model/state_table.h"
#include "parallel/shard.h"
#include "sluice/engine.h"
#include "weights/loader.h"

struct prefix_part;

struct engine_core {
    struct sluice_engine_options options; /* with the defaults worked out */
    bool fits_context;                    /* the context is the longest that fits, once that is known */
    struct arena model_arena;             /* model, specs, state table */
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
    struct prefix_part *prefixes;      /* this rank's part of those on disk; NULL: none are kept there */
    struct rank_team *team;            /* of the leader of several ranks; NULL: alone */
    const struct shard_layout *layout; /* what this rank has; NULL: everything; borrowed */
    struct executor_ranks *ranks;      /* its place among others; NULL: alone; borrowed */
    struct tick_trace *trace;          /* NULL: none */
    struct sluice_engine_facts facts;  /* of a leader: of all ranks together */
    uint64_t available_bytes;          /* of the system, when memory was first planned; 0: not yet */
    uint8_t digest[HASH_SHA256_BYTES]; /* of the model, if prefixes are kept on disk */
};

/*
 * Opens the checkpoint at options->model_directory. Pages as memory_plan decides; `host_bytes` of other
 * memory count against the limit, given the core without its pages. Errors as sluice_engine_open. Owned:
 * engine_core_close.
 */
enum status engine_core_open(const struct sluice_engine_options *options, struct engine_core **out);

/*
 * The same for all replicas that the options ask for, which run in lockstep from then on: `cores` has room
 * for them. The facts of the first are those of all.
 */
enum status engine_core_open_replicas(const struct sluice_engine_options *options,
                                      struct engine_core **cores);

/* The same from a parsed configuration and an open checkpoint, which is taken over. */
enum status engine_core_build(const struct sluice_engine_options *options, const struct json *config,
                              struct checkpoint **checkpoint, struct engine_core **out);

/*
 * One rank's core (engine/rank_team.h): without its state, which engine_core_alloc_states makes once all
 * ranks have agreed on one number of pages. `layout` and `ranks` are borrowed.
 */
enum status engine_core_open_rank(const struct sluice_engine_options *options,
                                  const struct shard_layout *layout, struct executor_ranks *ranks,
                                  struct engine_core **out);

/*
 * Another context, before states are allocated: sizes, facts and what the executor has are those of it. With
 * ranks their bounds are the caller's to set before. Not OK: the core can only be set again or closed.
 */
enum status engine_core_set_context(struct engine_core *core, int64_t context_tokens);

/* Most that a scheduler of these options puts into a plan (engine/scheduler.c). */
struct plan_bounds engine_core_plan_bounds(const struct sluice_engine_options *options);

/* What an open core takes, its facts' ledger included: everything but pages. `host` is the caller's to set.
 */
struct rank_memory engine_core_memory(struct engine_core *core);

/* What is asked of memory_plan, without the bytes. */
struct memory_plan_input engine_core_wanted_memory(const struct engine_core *core);

/* Allocates the state, completes the ledger and opens what is kept of prefixes on disk. */
enum status engine_core_alloc_states(struct engine_core *core, int32_t page_count);

/*
 * The recorder of this rank's part of a timeline, if one is asked for; `ranks` is set. The first rank of all
 * begins the file: a path that cannot be written to is known before weights are loaded.
 */
enum status engine_core_create_trace(struct engine_core *core);

/* Only what the configuration says: a model without weights, and the options worked out. */
enum status engine_core_measure(const struct sluice_engine_options *options, struct engine_core **out);

/* Frees everything and nulls, other ranks of a team too; NULL inside is allowed. */
void engine_core_close(struct engine_core **core);

/* Slots of sequences come first, those of snapshots follow. */
int32_t engine_core_snapshot_count(const struct engine_core *core);

/* Rows of the largest ring of the draft layer, if it is on this core's stage: what sequences catch up on. */
int32_t engine_core_draft_window(const struct engine_core *core);

/* Whether prefixes are to be kept on disk. */
bool engine_core_has_disk(const struct sluice_engine_options *options);

/* What the system can still give to this process. */
uint64_t engine_core_available_bytes(void);

/* Rounds under way at once that the options ask for. */
int engine_core_in_flight(const struct sluice_engine_options *options);

/* Rounds under way at once: one more where groups take turns, for prompts while nobody answers. */
int engine_core_round_limit(const struct sluice_engine_options *options);

/* Records on their way at once: where prefixes are kept on disk, orders about these go between rounds. */
int engine_core_record_limit(const struct sluice_engine_options *options);

/* What a round runner for this core needs; its memory is in the core's ledger. */
struct round_runner_options engine_core_runner_options(const struct engine_core *core);

#endif
