/*
 * Order of opening: places and groups; in a job, whether its processes fit together; the cores without their
 * state; memory for all; threads. So whatever can fail fails before a thread runs. Processes agree after each
 * of these, so that no one waits for who has failed.
 */
#include "engine/rank_team.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/string_buffer.h"
#include "engine/context_search.h"
#include "engine/executor_balance.h"
#include "engine/outside_leader.h"
#include "engine/rank_team_cut.h"
#include "engine/rank_team_groups.h"
#include "engine/rank_team_sharing.h"
#include "engine/rank_timeline.h"
#include "engine/rank_watchdog.h"
#include "engine/round.h"
#include "parallel/layout_check.h"
#include "parallel/mesh.h"
#include "parallel/shard.h"

struct rank_member {
    struct rank_team *team;
    struct shard_layout layout;
    struct executor_ranks ranks;
    struct rank_pulse pulse;     /* of a thread */
    struct engine_core *core;    /* of the leader: borrowed */
    struct round_runner *runner; /* of a follower */
    pthread_t thread;
    bool has_thread;
};

struct rank_team {
    struct mesh_shape mesh;
    struct sluice_job *job; /* NULL: all ranks are here */
    struct job_order order; /* with a job */
    int size;
    int replica_size; /* ranks of each replica; the first of them leads it */
    int holder_count; /* of leaders' cores: the last one to close ends the team */
    int first_rank;   /* of those that are here */
    int local_count;
    struct rank_team_cut cut; /* its arrays are the team's */
    struct rank_team_sharing sharing;
    struct rank_member *members;    /* [local_count] */
    struct comm *everyone;          /* all processes of the job, which open the engine together */
    struct outside_leader *outside; /* [outside_count], of the last replicas; in a job's first process */
    int outside_count;
    struct rank_memory *memory;     /* [size] */
    struct rank_watchdog *watchdog; /* of threads */
    bool is_led;                    /* the others follow this process's leader */
    bool has_started;               /* nothing failed when it was opened */
    bool has_ended;                 /* what this process leads or follows has, in order */
};

_Static_assert((int)TEAM_RANKS_MAX <= (int)SLUICE_STAGES_MAX, "a stage has a rank");

static bool is_led_from_outside(const struct rank_team *team, int replica) {
    return rank_team_is_led_from_outside(&team->mesh, team->job != NULL, replica);
}

/* Of those that this process leads so. */
static int replica_of_outside(const struct rank_team *team, int index) {
    return team->mesh.data - team->outside_count + index;
}

/* Threads of a machine are shared out among its ranks; each has one at least. */
static int threads_per_rank(const struct rank_team *team, const struct sluice_engine_options *options) {
    int ranks = team->job == NULL ? team->size : job_host_rank_count(team->job);
    int threads = options->thread_count == 0 ? (int)worker_pool_cores_allowed() : options->thread_count;
    return threads < ranks ? 1 : threads / ranks;
}

/* Sentences about lost ranks say where this one is; its waits have the job's deadline. */
static void prepare_job_rank(struct rank_team *team) {
    struct executor_ranks *ranks = &team->members[0].ranks;
    struct mesh_place place = mesh_place_of(&team->mesh, team->job->rank);
    struct comm *comms[] = {team->everyone, ranks->control, ranks->step.tensor, ranks->step.experts,
                            ranks->pipeline};
    ranks->watch = &team->job->watch;
    memcpy(&ranks->epoch, team->order.nonce, sizeof ranks->epoch);
    ranks->deadline_seconds = team->job->deadline_seconds;
    atomic_store(&team->job->replica, place.data);
    atomic_store(&team->job->replica_count, team->mesh.data);
    atomic_store(&team->job->stage, place.pipeline);
    atomic_store(&team->job->stage_count, team->mesh.pipeline);
    for (size_t i = 0; i < sizeof comms / sizeof comms[0]; i++) {
        if (comms[i] != NULL) {
            comm_set_deadline(comms[i], JOB_START_FACTOR * team->job->deadline_seconds);
            comm_set_watch(comms[i], ranks->watch);
        }
    }
    for (int i = 0; i < team->outside_count; i++) {
        comm_set_deadline(team->outside[i].ranks.control, JOB_START_FACTOR * team->job->deadline_seconds);
    }
}

/* Waits of a thread are seen by the watchdog. */
static void prepare_thread_rank(struct rank_member *member) {
    struct executor_ranks *ranks = &member->ranks;
    struct comm *comms[] = {ranks->control, ranks->step.tensor, ranks->step.experts, ranks->pipeline};
    ranks->pulse = &member->pulse;
    ranks->watch = &member->pulse.wait;
    for (size_t i = 0; i < sizeof comms / sizeof comms[0]; i++) {
        if (comms[i] != NULL) {
            comm_set_watch(comms[i], ranks->watch);
        }
    }
}

static enum status start_watchdog(struct rank_team *team, double deadline_seconds) {
    struct watched_member members[TEAM_RANKS_MAX];
    for (int i = 0; i < team->local_count; i++) {
        members[i] =
            (struct watched_member){.pulse = &team->members[i].pulse, .ranks = &team->members[i].ranks};
    }
    return rank_watchdog_start(members, team->local_count,
                               deadline_seconds > 0 ? deadline_seconds : JOB_DEADLINE_SECONDS,
                               &team->watchdog);
}

static enum status make_groups(struct rank_team *team) {
    struct executor_ranks *ranks[TEAM_RANKS_MAX];
    struct executor_ranks *others[TEAM_RANKS_MAX];
    for (int i = 0; i < team->local_count; i++) {
        ranks[i] = &team->members[i].ranks;
    }
    for (int i = 0; i < team->outside_count; i++) {
        others[i] = &team->outside[i].ranks;
    }
    const struct outside_ends outside = {.leaders = others, .count = team->outside_count};
    const struct job_ends ends = {.everyone = &team->everyone, .ranks = ranks[0], .outside = outside};
    return team->job == NULL ? rank_team_make_thread_groups(&team->mesh, ranks, &outside)
                             : rank_team_make_job_groups(&team->mesh, team->job, &team->order, &ends);
}

static enum status place_member(struct rank_team *team, int index, const struct engine_core *sizes) {
    const struct sluice_parallel_options *parallel = &sizes->options.parallel;
    struct rank_member *member = &team->members[index];
    struct mesh_place place = mesh_place_of(&team->mesh, team->first_rank + index);
    member->team = team;
    member->layout = (struct shard_layout){.mesh = team->mesh,
                                           .place = place,
                                           .first_layers = team->cut.first_layers,
                                           .has_draft = sizes->options.draft.limit > 0,
                                           .expert_count = (int)sizes->model->expert_count,
                                           .has_movable_experts = executor_balance_is_wanted(parallel)};
    member->layout.expert_copies = member->layout.has_movable_experts ? parallel->expert_copies : 0;
    member->layout.has_whole_shared_experts =
        rank_team_sharing_has_whole_experts(&team->sharing, sizes, place.data, place.pipeline);
    struct executor_ranks *ranks = &member->ranks;
    ranks->number = team->first_rank + index;
    ranks->replica = place.data;
    ranks->control_first = is_led_from_outside(team, place.data);
    ranks->replica_count = team->mesh.data;
    ranks->step.rank = place.tensor;
    ranks->step.count = team->mesh.tensor;
    ranks->step.expert_rank = place.expert;
    ranks->step.expert_rank_count = mesh_group_size(&team->mesh, MESH_GROUP_EXPERT);
    ranks->step.has_expert_parallelism = team->mesh.has_expert_parallelism;
    ranks->step.numerics = (enum numerics)sizes->options.numerics;
    ranks->step.gathers_late = team->sharing.gathers_late;
    executor_ranks_share_rows(ranks, &sizes->options.parallel, sizes->model);
    ranks->stage = place.pipeline;
    ranks->stage_count = team->mesh.pipeline;
    ranks->vocabulary_part =
        shard_cut_vocabulary(sizes->model->vocabulary_size, place.tensor, team->mesh.tensor).count;
    ranks->in_flight_limit = engine_core_round_limit(&sizes->options);
    ranks->record_limit = engine_core_record_limit(&sizes->options);
    ranks->draft_window = engine_core_draft_window(sizes);
    ranks->bounds = engine_core_plan_bounds(&sizes->options);
    return executor_balance_init(ranks, parallel, sizes->model);
}

/* In a job, what the worst of its processes says; all ranks of one process are in the same state. */
static enum status agree(const struct rank_team *team, enum status status) {
    return team->job == NULL ? status : comm_agree(team->everyone, status);
}

/* Everybody's memory from everybody's own. */
static enum status exchange_memory(struct rank_team *team, int index, struct rank_memory own) {
    size_t offsets[TEAM_RANKS_MAX + 1];
    if (team->job == NULL) {
        team->memory[index] = own;
        return STATUS_OK;
    }
    own.host = team->job->host_numbers[team->job->rank];
    for (int i = 0; i <= team->size; i++) {
        offsets[i] = (size_t)i * sizeof own;
    }
    return comm_gather(team->everyone, NULL, &own, offsets, team->memory);
}

static enum status open_cores(struct rank_team *team, const struct sluice_engine_options *options) {
    struct sluice_engine_options of_rank = *options;
    of_rank.thread_count = threads_per_rank(team, options);
    for (int i = 0; i < team->local_count; i++) {
        struct rank_member *member = &team->members[i];
        TRY(engine_core_open_rank(&of_rank, &member->layout, &member->ranks, &member->core));
    }
    for (int i = 0; i < team->outside_count; i++) {
        int replica = replica_of_outside(team, i);
        outside_leader_place(&team->outside[i], &team->members[0].ranks, replica, team->size + replica);
        TRY(outside_leader_open(&team->outside[i], options));
    }
    return STATUS_OK;
}

static enum status alloc_states(struct rank_team *team, int32_t page_count) {
    for (int i = 0; i < team->local_count; i++) {
        TRY(engine_core_alloc_states(team->members[i].core, page_count));
    }
    for (int i = 0; i < team->outside_count; i++) {
        team->outside[i].core->states.page_count = page_count;
    }
    return STATUS_OK;
}

/* A core's, of the first one with what leading replicas from outside takes. */
static struct rank_memory memory_of(const struct rank_team *team, int index) {
    struct engine_core *core = team->members[index].core;
    struct rank_memory memory = engine_core_memory(core);
    for (int i = 0; i < team->outside_count && index == 0; i++) {
        size_t bytes = outside_leader_bytes(&team->outside[i]);
        core->facts.memory.host_bytes += bytes;
        memory.fixed_bytes += bytes;
    }
    memory.ledger = core->facts.memory;
    return memory;
}

static enum status agree_pages(struct rank_team *team, int32_t *page_count) {
    for (int i = 0; i < team->local_count; i++) {
        TRY(exchange_memory(team, i, memory_of(team, i)));
    }
    struct memory_plan_input wanted = engine_core_wanted_memory(team->members[0].core);
    return rank_memory_agree(team->memory, team->size, &wanted, page_count);
}

static enum status set_context(struct rank_team *team, int64_t context_tokens) {
    for (int i = 0; i < team->local_count; i++) {
        struct engine_core *core = team->members[i].core;
        core->options.context_tokens = context_tokens;
        core->ranks->bounds = engine_core_plan_bounds(&core->options);
        TRY(engine_core_set_context(core, context_tokens));
    }
    for (int i = 0; i < team->outside_count; i++) {
        TRY(outside_leader_set_context(&team->outside[i], context_tokens));
    }
    return STATUS_OK;
}

/* All ranks see the same numbers, and so try the same contexts. */
static enum status fit_context(struct rank_team *team) {
    const struct engine_core *first = team->members[0].core;
    struct context_search search =
        context_search_begin(first->model->position_limit, first->options.page_tokens);
    bool fits = false;
    do {
        int32_t page_count;
        TRY(agree(team, set_context(team, context_search_tokens(&search))));
        enum status status = agree_pages(team, &page_count);
        CHECK(status == STATUS_OK || status == STATUS_OUT_OF_MEMORY, status, "%s", error_last()->message);
        fits = status == STATUS_OK;
    } while (context_search_tell(&search, fits));
    return fits ? STATUS_OK : agree(team, set_context(team, context_search_tokens(&search)));
}

static enum status share_memory(struct rank_team *team) {
    int32_t page_count;
    if (team->members[0].core->fits_context) {
        TRY(fit_context(team));
    }
    TRY(agree_pages(team, &page_count));
    TRY(agree(team, alloc_states(team, page_count)));
    for (int i = 0; i < team->local_count; i++) {
        TRY(exchange_memory(team, i, (struct rank_memory){.ledger = team->members[i].core->facts.memory}));
    }
    struct sluice_memory_ledger *memory = &team->members[0].core->facts.memory;
    *memory = rank_memory_sum(team->memory, team->size);
    memory->page_count *= team->mesh.data;
    memory->token_capacity *= team->mesh.data;
    team->members[0].core->facts.stage_imbalance = team->cut.imbalance;
    for (int i = 0; i < team->outside_count; i++) {
        team->outside[i].core->facts = team->members[0].core->facts;
    }
    return STATUS_OK;
}

static bool leads(const struct rank_team *team, int index) {
    int rank = team->first_rank + index;
    return rank % team->replica_size == 0 && !is_led_from_outside(team, rank / team->replica_size);
}

/* Of all that follow; a leader's belongs to its engine. */
static enum status create_runners(struct rank_team *team) {
    for (int i = 0; i < team->local_count; i++) {
        struct rank_member *member = &team->members[i];
        struct round_runner_options options = engine_core_runner_options(member->core);
        if (!leads(team, i)) {
            TRY(round_runner_create(&options, &member->runner));
        }
    }
    return STATUS_OK;
}

/*
 * What a follower that fails leaves behind: everyone stops waiting for it, and the reason is in the log, but
 * for a lost peer, of which the requests tell.
 */
static void *follow(void *context) {
    struct rank_member *member = context;
    enum status status = round_follow(member->runner);
    if (status != STATUS_OK) {
        log_write(status == STATUS_PEER_LOST ? LOG_INFO : LOG_ERROR, "rank", "rank %d: %s",
                  member->ranks.number, error_last()->message);
        executor_ranks_abort(&member->ranks, error_last()->message);
    }
    return NULL;
}

/* A process that leads nobody follows on the thread that it has. */
static enum status start_followers(struct rank_team *team) {
    for (int i = 0; i < team->local_count && team->first_rank == 0; i++) {
        struct rank_member *member = &team->members[i];
        if (leads(team, i)) {
            continue;
        }
        int error = pthread_create(&member->thread, NULL, follow, member);
        CHECK(error == 0, STATUS_OUT_OF_MEMORY, "the thread of rank %d cannot be started (error %d)", i,
              error);
        member->has_thread = true;
    }
    return STATUS_OK;
}

static enum status place_members(struct rank_team *team, const struct sluice_engine_options *options) {
    struct engine_core *sizes = NULL;
    const struct rank_team_view view = {.mesh = &team->mesh,
                                        .job = team->job,
                                        .everyone = team->everyone,
                                        .threads_per_rank = threads_per_rank(team, options)};
    team->cut.team = view;
    team->sharing.team = view;
    TRY(rank_team_share_limits(&team->cut));
    enum status status = engine_core_measure(options, &sizes);
    status = status == STATUS_OK ? rank_team_choose_cut(&team->cut, sizes) : status;
    status = agree(team, status == STATUS_OK ? rank_team_sharing_find(&team->sharing, sizes) : status);
    status = status == STATUS_OK ? rank_team_share_cut(&team->cut) : status;
    status = status == STATUS_OK ? rank_team_sharing_share(&team->sharing) : status;
    if (status == STATUS_OK) {
        rank_team_sharing_choose(&team->sharing, sizes, team->cut.first_layers);
    }
    for (int i = 0; i < team->local_count && status == STATUS_OK; i++) {
        status = place_member(team, i, sizes);
    }
    engine_core_close(&sizes);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status check_identity(struct rank_team *team, const struct sluice_engine_options *options) {
    struct rank_identity_key key = {.secret = string_buffer_text(&team->job->secret),
                                    .secret_bytes = team->job->secret.length};
    struct string_buffer own = {0};
    memcpy(key.nonce, team->order.nonce, sizeof key.nonce);
    enum status status = agree(team, rank_identity_describe(options, &own));
    if (status == STATUS_OK) {
        status = rank_identity_agree(team->everyone, &key, &own);
    }
    string_buffer_deinit(&own);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status fill_team(struct rank_team *team, const struct sluice_engine_options *options) {
    TRY(make_groups(team));
    if (team->job != NULL) {
        prepare_job_rank(team);
        TRY(check_identity(team, options));
    }
    for (int i = 0; i < team->local_count && team->job == NULL; i++) {
        prepare_thread_rank(&team->members[i]);
    }
    TRY(place_members(team, options));
    TRY(agree(team, open_cores(team, options)));
    TRY(share_memory(team));
    TRY(agree(team, create_runners(team)));
    TRY(start_followers(team));
    team->is_led = team->first_rank == 0;
    team->has_started = true;
    return team->job == NULL ? start_watchdog(team, options->parallel.deadline_seconds) : STATUS_OK;
}

/* Without its members' cores. */
static enum status create_team(const struct sluice_engine_options *options, struct rank_team **out) {
    enum status status = STATUS_OK;
    struct sluice_job *job = options->parallel.job;
    struct rank_team *team = calloc(1, sizeof *team);
    CHECK_MEMORY(team);
    team->mesh = (struct mesh_shape){.data = rank_team_replicas(&options->parallel),
                                     .pipeline = options->parallel.pipeline,
                                     .context = 1,
                                     .tensor = options->parallel.tensor,
                                     .has_expert_parallelism = options->parallel.has_expert_parallelism};
    team->size = mesh_rank_count(&team->mesh);
    team->replica_size = team->size / team->mesh.data;
    team->holder_count = 1;
    team->job = job;
    team->first_rank = job == NULL ? 0 : job->rank;
    team->local_count = job == NULL ? team->size : 1;
    for (int replica = 0; replica < team->mesh.data && team->first_rank == 0; replica++) {
        team->outside_count += is_led_from_outside(team, replica);
    }
    team->members = calloc((size_t)team->local_count, sizeof *team->members);
    team->outside = calloc((size_t)team->mesh.data, sizeof *team->outside);
    team->memory = calloc((size_t)team->size, sizeof *team->memory);
    size_t stages = (size_t)team->mesh.pipeline;
    team->cut = (struct rank_team_cut){.byte_limits = calloc(stages, sizeof(double)),
                                       .first_layers = calloc(stages + 1, sizeof(int))};
    CHECK_MEMORY_GOTO(team->members);
    CHECK_MEMORY_GOTO(team->outside);
    CHECK_MEMORY_GOTO(team->memory);
    CHECK_MEMORY_GOTO(team->cut.byte_limits);
    CHECK_MEMORY_GOTO(team->cut.first_layers);
    *out = team;
    return STATUS_OK;
fail:
    rank_team_close(&team);
    return status;
}

/* NULL if that replica is led from within. */
static struct outside_leader *outside_of(const struct rank_team *team, int replica) {
    return is_led_from_outside(team, replica) ? &team->outside[replica - replica_of_outside(team, 0)] : NULL;
}

static struct engine_core *leader_of(const struct rank_team *team, int replica) {
    const struct outside_leader *outside = outside_of(team, replica);
    return outside != NULL ? outside->core : team->members[replica * team->replica_size].core;
}

enum status rank_team_open(const struct sluice_engine_options *options, struct engine_core **leaders) {
    enum status status = STATUS_OK;
    struct rank_team *team = NULL;
    struct sluice_job *job = options->parallel.job;
    *leaders = NULL;
    TRY(rank_team_check_options(options));
    TRY(create_team(options, &team));
    if (job != NULL) {
        TRY_GOTO(layout_check_rank_count(&team->mesh, job->size, "processes"));
        TRY_GOTO(job_order_engine(job, options, &team->order));
    }
    TRY_GOTO(fill_team(team, options));
    team->holder_count = team->mesh.data;
    for (int replica = 0; replica < team->mesh.data; replica++) {
        leaders[replica] = leader_of(team, replica);
        leaders[replica]->team = team;
    }
    return STATUS_OK;
fail:
    rank_team_close(&team);
    return status;
}

enum status rank_team_follow(const struct sluice_engine_options *options, const struct job_order *order) {
    struct rank_team *team;
    enum status status = STATUS_OK;
    TRY(create_team(options, &team));
    team->order = *order;
    status = fill_team(team, options);
    if (status == STATUS_OK) {
        status = round_follow(team->members[0].runner);
        team->has_ended = status == STATUS_OK;
    } else if (status != STATUS_PEER_LOST) {
        status = STATUS_OK; /* all agreed on it; the leader says so */
    }
    rank_team_close(&team);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

/* Threads that follow may wait though they were never led. */
static bool has_threads(const struct rank_team *team, int replica) {
    bool has = false;
    for (int i = 0; i < team->local_count; i++) {
        has |= (team->first_rank + i) / team->replica_size == replica && team->members[i].has_thread;
    }
    return has;
}

static bool end_followers_of(const struct rank_team *team, int replica) {
    const struct outside_leader *outside = outside_of(team, replica);
    const struct executor_ranks *ranks =
        outside != NULL ? &outside->ranks : &team->members[replica * team->replica_size].ranks;
    bool has_ended = team->is_led && round_end_followers(leader_of(team, replica)->executor) == STATUS_OK;
    if ((team->is_led || has_threads(team, replica)) && !has_ended) {
        executor_ranks_abort(ranks, "the engine is closing");
    }
    return has_ended;
}

static void end_followers(struct rank_team *team) {
    for (int replica = 0; replica < team->mesh.data && team->first_rank == 0; replica++) {
        bool has_ended = end_followers_of(team, replica);
        team->has_ended = has_ended && (replica == 0 || team->has_ended);
    }
    for (int i = 0; i < team->local_count; i++) {
        if (team->members[i].has_thread) {
            pthread_join(team->members[i].thread, NULL);
        }
    }
}

/* Threads have ended, processes are still there to ask. */
static void write_trace(const struct rank_team *team, bool has_ended) {
    struct tick_trace *traces[2 * TEAM_RANKS_MAX] = {NULL};
    const struct engine_core *leader = team->members[0].core;
    if (leader == NULL || leader->trace == NULL || !team->is_led || has_ended != (team->job == NULL)) {
        return;
    }
    if (team->job != NULL) {
        struct executor *executors[TEAM_RANKS_MAX];
        for (int i = 0; i < team->mesh.data; i++) {
            executors[i] = leader_of(team, i)->executor;
        }
        rank_timeline_gather(leader->options.trace_path, executors, team->mesh.data);
        return;
    }
    for (int i = 0; i < team->local_count; i++) {
        traces[i] = team->members[i].core == NULL ? NULL : team->members[i].core->trace;
    }
    for (int i = 0; i < team->outside_count; i++) {
        traces[team->local_count + i] = team->outside[i].core->trace;
    }
    rank_timeline_write(leader->options.trace_path, traces, team->local_count + team->outside_count);
}

static void leave_groups(struct executor_ranks *ranks) {
    comm_destroy(&ranks->control);
    comm_destroy(&ranks->pipeline);
    comm_destroy(&ranks->leaders);
    if (ranks->step.experts != ranks->step.tensor) {
        comm_destroy(&ranks->step.experts);
    }
    ranks->step.experts = NULL;
    comm_destroy(&ranks->step.tensor);
}

/* When no group has a message any more, which is ordered with the core's stream. */
static void close_core(struct rank_member *member) {
    if (member->core != NULL) {
        member->core->team = NULL;
    }
    engine_core_close(&member->core);
    executor_balance_deinit(&member->ranks);
}

/*
 * Collective over the processes of a job. Whoever opens an engine after this one finds the files that all its
 * ranks have left, and their memory free. A process that has not ended in order does not come: it says so.
 */
static void part_processes(struct rank_team *team) {
    bool waits = team->everyone != NULL && team->has_started;
    if (waits && !team->has_ended) {
        comm_abort(team->everyone, "a rank of an engine has failed");
    } else if (waits && comm_barrier(team->everyone) != STATUS_OK) {
        log_write(LOG_INFO, "rank", "rank %d: %s", team->first_rank, error_last()->message);
    }
    comm_destroy(&team->everyone);
}

bool rank_team_is_hanging(const struct rank_team *team) {
    return team->watchdog != NULL && rank_watchdog_is_hanging(team->watchdog);
}

void rank_team_close(struct rank_team **team_pointer) {
    struct rank_team *team = *team_pointer;
    *team_pointer = NULL;
    if (team == NULL || --team->holder_count > 0 || rank_team_is_hanging(team)) {
        return;
    }
    rank_watchdog_stop(&team->watchdog);
    if (team->members != NULL) {
        write_trace(team, false);
        end_followers(team);
        write_trace(team, true);
    }
    for (int i = team->local_count - 1; i >= 0 && team->members != NULL; i--) {
        round_runner_destroy(&team->members[i].runner);
        leave_groups(&team->members[i].ranks);
    }
    for (int i = 0; i < team->outside_count && team->outside != NULL; i++) {
        outside_leader_leave(&team->outside[i]);
        outside_leader_close(&team->outside[i]);
    }
    for (int i = team->local_count - 1; i >= 0 && team->members != NULL; i--) {
        close_core(&team->members[i]);
    }
    part_processes(team);
    free(team->members);
    free(team->outside);
    free(team->memory);
    free(team->cut.first_layers);
    free(team->cut.byte_limits);
    rank_team_sharing_deinit(&team->sharing);
    free(team);
}
