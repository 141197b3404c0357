/*
 * Order of opening: places and groups; every rank's core without its state; memory for all; threads. So
 * whatever can fail fails before a thread runs.
 */
#include "engine/rank_team.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "comm/comm_threads.h"
#include "engine/draft_controller.h"
#include "parallel/mesh.h"
#include "parallel/shard.h"

struct rank_member {
    struct rank_team *team;
    struct shard_layout layout;
    struct executor_ranks ranks;
    struct engine_core *core;    /* of the leader: borrowed */
    struct round_runner *runner; /* of a follower */
    pthread_t thread;
    bool has_thread;
};

struct rank_team {
    struct mesh_shape mesh;
    int *first_layers; /* [stages + 1] */
    struct rank_member *members;
    int size;
};

int rank_team_size(const struct sluice_parallel_options *parallel) {
    return parallel->tensor * parallel->pipeline;
}

static enum status check_options(const struct sluice_engine_options *options) {
    const struct sluice_parallel_options *parallel = &options->parallel;
    CHECK(parallel->tensor >= 1 && parallel->pipeline >= 1 && rank_team_size(parallel) <= 64,
          STATUS_OUT_OF_RANGE, "%d pipeline stages of %d ranks were asked for; 1 to 64 ranks are possible",
          parallel->pipeline, parallel->tensor);
    CHECK(parallel->in_flight >= 0 && parallel->in_flight <= DRAFT_TICKS_UNDER_WAY_MAX, STATUS_OUT_OF_RANGE,
          "%d steps were to be under way at once; 1 to %d are possible, or 0 for as many as stages",
          parallel->in_flight, DRAFT_TICKS_UNDER_WAY_MAX);
    CHECK(options->prefix_cache_directory == NULL, STATUS_UNSUPPORTED,
          "a prefix cache on disk works with one rank only so far: leave --prefix-cache-dir out, or -tp and "
          "-pp");
    return STATUS_OK;
}

/* Equal numbers of layers; what is left over goes to the first stages, for the last one has the head. */
static enum status cut_layers(struct rank_team *team, int layer_count) {
    int stages = team->mesh.pipeline;
    CHECK(stages <= layer_count, STATUS_BAD_CONFIG,
          "%d pipeline stages were asked for, but the model has %d layers: a stage needs one at least",
          stages, layer_count);
    team->first_layers = calloc((size_t)stages + 1, sizeof *team->first_layers);
    CHECK_MEMORY(team->first_layers);
    for (int s = 0; s < stages; s++) {
        team->first_layers[s + 1] =
            team->first_layers[s] + layer_count / stages + (s < layer_count % stages ? 1 : 0);
    }
    return STATUS_OK;
}

/* One group of a kind that `rank` is the first of: an end for each member. */
static enum status make_group(struct rank_team *team, enum mesh_group kind, int rank) {
    int size = mesh_group_size(&team->mesh, kind);
    int ranks[64];
    struct comm *ends[64];
    if (mesh_group_index(&team->mesh, kind, rank) != 0) {
        return STATUS_OK;
    }
    mesh_group_ranks(&team->mesh, kind, rank, ranks);
    TRY(comm_threads_create(size, ends));
    for (int i = 0; i < size; i++) {
        struct executor_ranks *of_rank = &team->members[ranks[i]].ranks;
        *(kind == MESH_GROUP_TENSOR ? &of_rank->step.tensor : &of_rank->pipeline) = ends[i];
    }
    return STATUS_OK;
}

static enum status make_groups(struct rank_team *team) {
    struct comm *ends[64];
    TRY(comm_threads_create(team->size, ends));
    for (int rank = 0; rank < team->size; rank++) {
        team->members[rank].ranks.control = ends[rank];
    }
    for (int rank = 0; rank < team->size; rank++) {
        TRY(make_group(team, MESH_GROUP_TENSOR, rank));
        if (team->mesh.pipeline > 1) {
            TRY(make_group(team, MESH_GROUP_PIPELINE, rank));
        }
    }
    return STATUS_OK;
}

/* Most that a scheduler of these options puts into a plan (engine/scheduler.c). */
static struct plan_bounds bounds_of(const struct sluice_engine_options *options, int64_t pages_per_slot) {
    return (struct plan_bounds){
        .row_limit = options->step_token_limit,
        .logit_row_limit =
            round_logit_row_limit(options->sequence_limit, options->draft.limit, options->step_token_limit),
        .segment_limit = options->sequence_limit,
        .page_update_limit = (int32_t)(3 * options->sequence_limit * pages_per_slot),
        .slot_operation_limit = 4 * options->sequence_limit,
        .token_limit = (int32_t)options->context_tokens,
    };
}

static void place_member(struct rank_team *team, int rank, const struct engine_core *sizes) {
    struct rank_member *member = &team->members[rank];
    struct mesh_place place = mesh_place_of(&team->mesh, rank);
    member->team = team;
    member->layout = (struct shard_layout){.mesh = team->mesh,
                                           .place = place,
                                           .first_layers = team->first_layers,
                                           .has_draft = sizes->options.draft.limit > 0,
                                           .expert_count = (int)sizes->model->expert_count};
    struct executor_ranks *ranks = &member->ranks;
    ranks->step.has_expert_parallelism = team->mesh.has_expert_parallelism;
    ranks->stage = place.pipeline;
    ranks->stage_count = team->mesh.pipeline;
    ranks->first_layer = team->first_layers[place.pipeline];
    ranks->end_layer = team->first_layers[place.pipeline + 1];
    ranks->vocabulary_part =
        shard_cut_vocabulary(sizes->model->vocabulary_size, place.tensor, team->mesh.tensor).count;
    ranks->in_flight_limit = engine_core_in_flight(&sizes->options);
    int64_t context = sizes->options.context_tokens;
    ranks->bounds =
        bounds_of(&sizes->options, (context + sizes->options.page_tokens - 1) / sizes->options.page_tokens);
}

/* Threads of the machine are shared out; each rank has one at least. */
static int threads_per_rank(const struct sluice_engine_options *options, int ranks) {
    int threads = options->thread_count == 0 ? (int)worker_pool_cores_allowed() : options->thread_count;
    return threads < ranks ? 1 : threads / ranks;
}

static enum status open_cores(struct rank_team *team, const struct sluice_engine_options *options) {
    struct sluice_engine_options of_rank = *options;
    of_rank.thread_count = threads_per_rank(options, team->size);
    for (int rank = 0; rank < team->size; rank++) {
        struct rank_member *member = &team->members[rank];
        TRY(engine_core_open_rank(&of_rank, &member->layout, &member->ranks, &member->core));
    }
    struct engine_core *cores[64];
    for (int rank = 0; rank < team->size; rank++) {
        cores[rank] = team->members[rank].core;
    }
    return engine_core_alloc_states(cores, team->size);
}

static enum status create_runners(struct rank_team *team) {
    for (int rank = 1; rank < team->size; rank++) {
        struct rank_member *member = &team->members[rank];
        struct round_runner_options options = engine_core_runner_options(member->core);
        TRY(round_runner_create(&options, &member->runner));
    }
    return STATUS_OK;
}

/* What a follower that fails leaves behind: everyone stops waiting for it, and the reason is in the log. */
static void *follow(void *context) {
    struct rank_member *member = context;
    if (round_follow(member->runner) != STATUS_OK) {
        log_write(LOG_ERROR, "rank", "rank %d: %s", comm_rank(member->ranks.control), error_last()->message);
        executor_ranks_abort(&member->ranks, error_last()->message);
    }
    return NULL;
}

static enum status start_followers(struct rank_team *team) {
    for (int rank = 1; rank < team->size; rank++) {
        struct rank_member *member = &team->members[rank];
        int error = pthread_create(&member->thread, NULL, follow, member);
        CHECK(error == 0, STATUS_OUT_OF_MEMORY, "the thread of rank %d cannot be started (error %d)", rank,
              error);
        member->has_thread = true;
    }
    return STATUS_OK;
}

static enum status fill_team(struct rank_team *team, const struct sluice_engine_options *options) {
    struct engine_core *sizes;
    TRY(engine_core_measure(options, &sizes));
    enum status status = cut_layers(team, sizes->model->layer_count);
    if (status == STATUS_OK) {
        status = make_groups(team);
    }
    for (int rank = 0; rank < team->size && status == STATUS_OK; rank++) {
        place_member(team, rank, sizes);
    }
    engine_core_close(&sizes);
    TRY(status);
    TRY(open_cores(team, options));
    TRY(create_runners(team));
    return start_followers(team);
}

enum status rank_team_open(const struct sluice_engine_options *options, struct engine_core **leader) {
    enum status status = STATUS_OK;
    *leader = NULL;
    TRY(check_options(options));
    struct rank_team *team = calloc(1, sizeof *team);
    CHECK_MEMORY(team);
    team->mesh = (struct mesh_shape){.data = 1,
                                     .pipeline = options->parallel.pipeline,
                                     .context = 1,
                                     .tensor = options->parallel.tensor,
                                     .has_expert_parallelism = options->parallel.has_expert_parallelism};
    team->size = mesh_rank_count(&team->mesh);
    team->members = calloc((size_t)team->size, sizeof *team->members);
    CHECK_MEMORY_GOTO(team->members);
    TRY_GOTO(fill_team(team, options));
    *leader = team->members[0].core;
    (*leader)->team = team;
    return STATUS_OK;
fail:
    rank_team_close(&team);
    return status;
}

static void end_followers(struct rank_team *team) {
    struct engine_core *leader = team->members[0].core;
    if (team->size < 2 || !team->members[1].has_thread) {
        return;
    }
    if (round_end_followers(leader->executor) != STATUS_OK) {
        executor_ranks_abort(&team->members[0].ranks, "the engine is closing");
    }
    for (int rank = 1; rank < team->size; rank++) {
        if (team->members[rank].has_thread) {
            pthread_join(team->members[rank].thread, NULL);
        }
    }
}

void rank_team_close(struct rank_team **team_pointer) {
    struct rank_team *team = *team_pointer;
    *team_pointer = NULL;
    if (team == NULL) {
        return;
    }
    if (team->members != NULL) {
        end_followers(team);
    }
    for (int rank = team->size - 1; rank >= 0 && team->members != NULL; rank--) {
        struct rank_member *member = &team->members[rank];
        if (member->core != NULL) {
            member->core->team = NULL;
        }
        round_runner_destroy(&member->runner);
        engine_core_close(&member->core);
        comm_destroy(&member->ranks.control);
        comm_destroy(&member->ranks.pipeline);
        comm_destroy(&member->ranks.step.tensor);
    }
    free(team->members);
    free(team->first_layers);
    free(team);
}
