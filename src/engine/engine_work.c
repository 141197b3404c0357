/* What the engine's thread works with, and one round of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "engine/batch_upload.h"
#include "engine/draft_profile.h"
#include "engine/engine_internal.h"
#include "engine/prefix_part.h"
#include "engine/round_prefixes.h"

/* Tokens between snapshots inside a long prompt: rarer than pages, for each costs a copy of the rings. */
enum { SNAPSHOT_INTERVAL_TOKENS = 2048 };

static int32_t snapshot_interval(int32_t page_tokens) {
    int32_t pages = SNAPSHOT_INTERVAL_TOKENS / page_tokens;
    return page_tokens * (pages == 0 ? 1 : pages);
}

static enum status create_prefixes(struct engine_work *work) {
    const struct sluice_engine_options *options = &work->core->options;
    struct prefix_cache_options cache = {
        .pages = &work->pages,
        .page_tokens = options->page_tokens,
        .first_snapshot_slot = options->sequence_limit,
        .snapshot_count = engine_core_snapshot_count(work->core),
    };
    CHECK(getrandom(&cache.hash_seed, sizeof cache.hash_seed, 0) == (ssize_t)sizeof cache.hash_seed,
          STATUS_IO, "no random number for the prefix cache's keys could be had");
    return prefix_cache_create(&cache, &work->prefixes);
}

static enum status create_tier(struct engine_work *work) {
    return prefix_tier_create(
        &(struct prefix_tier_options){
            .core = work->core, .runner = work->runner, .pages = &work->pages, .cache = work->prefixes},
        &work->tier);
}

static bool ask(void *tier, const int32_t *tokens, int32_t limit, int32_t known_tokens, const int32_t *pages,
                int64_t spare_pages) {
    return prefix_tier_ask(tier, tokens, limit, known_tokens, pages, spare_pages);
}

static bool go_on(void *tier, const struct step_plan *pending, bool *is_carried_out) {
    return prefix_tier_go_on(tier, pending, is_carried_out);
}

static void keep(void *tier, const int32_t *tokens, int32_t token_count, const int32_t *pages,
                 int32_t snapshot_slot, bool has_draft_rows, const struct step_plan *pending,
                 bool *is_carried_out) {
    prefix_tier_keep(tier, tokens, token_count, pages, snapshot_slot, has_draft_rows, pending,
                     is_carried_out);
}

/* Whether other replicas share the experts. */
static bool has_company(const struct engine_work *work) {
    return work->core->ranks != NULL && work->core->ranks->replica_count > 1;
}

static enum status create_controller(struct engine_work *work) {
    const struct sluice_draft_options *draft = &work->core->options.draft;
    struct draft_controller_options options = {
        .draft_limit = draft->limit,
        .slot_count = work->core->options.sequence_limit,
        .is_adaptive = draft->is_adaptive,
        .schedule = (const struct draft_schedule_row *)(const void *)draft->schedule,
        .schedule_row_count = (int32_t)draft->schedule_row_count,
    };
    return draft_controller_create(&options, &work->controller);
}

static enum status create_scheduler(struct engine_work *work,
                                    void (*finished)(void *context, struct sequence *sequence),
                                    void *context) {
    const struct engine_core *core = work->core;
    struct scheduler_options options = {
        .pages = &work->pages,
        .prefixes = work->prefixes,
        .controller = work->controller,
        .slot_count = core->options.sequence_limit,
        .row_limit = core->options.step_token_limit,
        .page_tokens = core->options.page_tokens,
        .context_tokens = (int32_t)core->options.context_tokens,
        .draft_limit = core->options.draft.limit,
        .draft_window = core->ranks == NULL ? engine_core_draft_window(core) : core->ranks->draft_window,
        .snapshot_interval = snapshot_interval(core->options.page_tokens),
        .group_count = engine_core_in_flight(&core->options),
        .in_flight_limit = engine_core_round_limit(&core->options),
        .vocabulary_size = core->model->vocabulary_size,
        .finished = finished,
        .finished_context = context,
    };
    if (work->tier != NULL) {
        options.store =
            (struct scheduler_store){.ask = ask, .go_on = go_on, .keep = keep, .context = work->tier};
    }
    return scheduler_create(&options, &work->scheduler);
}

enum status engine_work_init(struct engine_work *work, struct engine_core **core,
                             void (*finished)(void *context, struct sequence *sequence), void *context) {
    *work = (struct engine_work){.core = *core};
    *core = NULL;
    struct round_runner_options runner = engine_core_runner_options(work->core);
    TRY(round_runner_create(&runner, &work->runner));
    TRY(page_pool_init(&work->pages, work->core->states.page_count));
    if (work->core->options.has_prefix_cache) {
        TRY(create_prefixes(work));
        if (engine_core_has_disk(&work->core->options)) {
            TRY(create_tier(work));
        }
    }
    if (work->core->options.draft.limit > 0) {
        TRY(create_controller(work));
    }
    return create_scheduler(work, finished, context);
}

/*
 * What one rank cannot go on from, none can, in all replicas that share experts (spec parallelism F-2). That
 * is known before any request shows its error.
 */
static void fail_rounds(struct engine_work *work, enum status status) {
    if (work->core->ranks != NULL && status != STATUS_NOT_FINITE) {
        work->is_lost = true;
        executor_ranks_abort(work->core->ranks, error_last()->message);
    }
    scheduler_fail(work->scheduler, status, error_last()->message);
}

enum status engine_work_measure(struct engine_work *work) {
    enum status status = STATUS_OK;
    char message[ERROR_MESSAGE_BYTES];
    if (work->controller != NULL && work->core->options.draft.is_adaptive) {
        status = draft_profile_measure(work->core, work->runner, work->controller, &work->exchanges);
    }
    status = status == STATUS_OK ? round_rest(work->runner) : status;
    if (status == STATUS_OK) {
        return STATUS_OK;
    }
    snprintf(message, sizeof message, "%s", error_last()->message);
    fail_rounds(work, status);
    FAIL(status, "%s", message);
}

void engine_work_deinit(struct engine_work *work) {
    scheduler_destroy(&work->scheduler);
    draft_controller_destroy(&work->controller);
    prefix_tier_destroy(&work->tier);
    round_runner_destroy(&work->runner);
    prefix_cache_destroy(&work->prefixes);
    page_pool_deinit(&work->pages);
    engine_core_close(&work->core);
}

static int32_t wanted_passes(const struct round_plan *plan) {
    int32_t passes = 0;
    for (int32_t i = 0; i < plan->step.segment_count && plan->regime == DRAFT_REGIME_DRAFT; i++) {
        passes = plan->segments[i].next_draft_count > passes ? plan->segments[i].next_draft_count : passes;
    }
    return passes;
}

/* Collective. Whether there is a tick, and what is common to all replicas' rounds in it. */
static enum status agree_on_tick(struct engine_work *work, struct round_plan *plan) {
    const struct lockstep_wish wish = {.rows = (int32_t)step_plan_row_count(&plan->step),
                                       .draft_passes = wanted_passes(plan),
                                       .in_flight = round_in_flight(work->runner),
                                       .is_ending = work->is_ending};
    if (work->is_lost) {
        work->tick = (struct lockstep_tick){.is_idle = true, .is_end = work->is_ending};
        CHECK(wish.rows == 0, STATUS_PEER_LOST, "a rank is lost: open the engine again");
        return STATUS_OK;
    }
    TRY(lockstep_agree(has_company(work) ? work->core->ranks->leaders : NULL, ++work->exchanges, &wish,
                       &work->tick));
    plan->joint_draft_passes = has_company(work) ? work->tick.draft_passes : 0;
    return STATUS_OK;
}

/*
 * Plans the next round; an empty one if there is nothing to run. Where nothing is under way but the beginning
 * of a sequence from the disk, that is waited for.
 */
static enum status plan_round(struct engine_work *work, struct round_plan *plan) {
    while (!scheduler_plan(work->scheduler, clock_seconds(), plan)) {
        *plan = (struct round_plan){.regime = DRAFT_REGIME_COLD};
        if (work->tier == NULL || !prefix_tier_is_busy(work->tier) || round_in_flight(work->runner) > 0) {
            break;
        }
        TRY(round_take_prefix_answers(work->runner));
    }
    return STATUS_OK;
}

/* Plans a round and starts it, without rows if only other replicas have some; false if nobody has. */
static bool start_round(struct engine_work *work, enum status *status) {
    struct round_plan plan;
    double started = clock_seconds();
    *status = plan_round(work, &plan);
    work->planning_seconds += clock_seconds() - started;
    *status = *status == STATUS_OK ? agree_on_tick(work, &plan) : *status;
    if (*status != STATUS_OK || work->tick.rows == 0) {
        return false;
    }
    int64_t rows = step_plan_row_count(&plan.step);
    tick_trace_set_tick(
        work->core->trace,
        (struct trace_tick){.number = round_next_number(work->runner), .group = plan.group, .rows = rows});
    tick_trace_add(work->core->trace, TRACE_PLAN, started);
    *status = round_start(work->runner, &plan);
    work->steps += *status == STATUS_OK && rows > 0;
    work->step_rows += *status == STATUS_OK ? rows : 0;
    return *status == STATUS_OK;
}

static enum status finish_round(struct engine_work *work) {
    struct round_result result;
    TRY(round_finish(work->runner, &result));
    if (result.is_empty) {
        return STATUS_OK;
    }
    double done = clock_seconds();
    work->draft_seconds += result.draft_layer_seconds;
    work->round_seconds += result.added_seconds;
    scheduler_complete(work->scheduler, &result, done);
    work->planning_seconds += clock_seconds() - done;
    return STATUS_OK;
}

bool engine_work_run(struct engine_work *work) {
    int32_t limit = engine_core_round_limit(&work->core->options);
    enum status status = STATUS_OK;
    while (round_in_flight(work->runner) < limit && start_round(work, &status)) {
    }
    if (status == STATUS_OK && work->tick.is_idle) {
        status = round_rest(work->runner);
        if (status == STATUS_OK) {
            return false;
        }
    } else if (status == STATUS_OK && round_in_flight(work->runner) > 0) {
        status = finish_round(work);
    }
    if (status != STATUS_OK) {
        fail_rounds(work, status);
    }
    return true;
}

struct sequence_bounds engine_work_bounds(const struct engine_work *work) {
    return (struct sequence_bounds){
        .vocabulary_size = work->core->model->vocabulary_size,
        .context_tokens = work->core->options.context_tokens,
        .page_tokens = work->core->options.page_tokens,
        .page_count = work->pages.page_count,
        .draft_limit = work->core->options.draft.limit,
    };
}

static void add_draft_stats(const struct draft_counters *counters, struct sluice_engine_stats *stats) {
    stats->draft_tokens = counters->proposed;
    memcpy(stats->verified_drafts, counters->verified, sizeof stats->verified_drafts);
    memcpy(stats->accepted_drafts, counters->accepted, sizeof stats->accepted_drafts);
    memcpy(stats->ticks_by_draft_length, counters->ticks_by_length, sizeof stats->ticks_by_draft_length);
    stats->cold_ticks = counters->cold_ticks;
    stats->warm_ticks = counters->warm_ticks;
    stats->draft_switches = counters->switches;
    stats->draft_guard_trips = counters->guard_trips;
    stats->draft_probe_gain = counters->probe_gain;
    stats->draft_length = counters->length;
    stats->draft_regime = (enum sluice_draft_regime)counters->regime;
}

static void add_disk_counters(const struct prefix_disk_counters *counters, struct sluice_engine_stats *sum) {
    sum->disk_read_bytes += counters->read_bytes;
    sum->disk_written_bytes += counters->written_bytes;
    sum->disk_damaged_entries += counters->damaged;
    sum->disk_failed_writes += counters->failed_writes;
    sum->disk_dropped_entries += counters->dropped;
    sum->disk_evicted_entries += counters->evicted;
}

void engine_work_stats(const struct engine_work *work, struct sluice_engine_stats *stats) {
    struct scheduler_gauges gauges = scheduler_gauges(work->scheduler);
    *stats = (struct sluice_engine_stats){
        .running_requests = gauges.running,
        .waiting_requests = gauges.waiting,
        .free_pages = work->pages.free_count,
        .steps = work->steps,
        .step_rows = work->step_rows,
        .step_seconds = work->round_seconds + work->planning_seconds,
        .planning_seconds = work->planning_seconds,
        .draft_seconds = work->draft_seconds,
        .finished_requests = gauges.finished,
        .preemptions = gauges.preemptions,
        .prompt_tokens = gauges.prompt_tokens,
        .cached_prompt_tokens = gauges.cached_prompt_tokens,
        .output_tokens = gauges.output_tokens,
        .disk_queried_tokens = gauges.store_queried_tokens,
        .disk_found_tokens = gauges.store_found_tokens,
    };
    int rank_count;
    const struct rank_report *reports = round_reports(work->runner, &rank_count);
    rank_reports_add_up(reports, rank_count, stats);
    for (int i = 0; i < rank_count; i++) {
        bool is_own = i == 0 && work->core->prefixes != NULL; /* added when it is asked for */
        add_disk_counters(is_own ? &(struct prefix_disk_counters){0} : &reports[i].disk, stats);
    }
    if (work->prefixes != NULL) {
        stats->cached_pages = (int32_t)prefix_cache_counters(work->prefixes).unused_pages;
    }
    if (work->controller != NULL) {
        struct draft_counters counters = draft_controller_counters(work->controller);
        add_draft_stats(&counters, stats);
    }
}

void engine_work_add_disk_stats(const struct engine_work *work, struct sluice_engine_stats *sum) {
    if (work->core->prefixes != NULL) {
        struct prefix_disk_counters counters = prefix_part_counters(work->core->prefixes);
        add_disk_counters(&counters, sum);
    }
}
