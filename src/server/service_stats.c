#include "server/service_stats.h"

static void add(int64_t *sum, const int64_t *counters, int count) {
    for (int i = 0; i < count; i++) {
        sum[i] += counters[i];
    }
}

void service_stats_add_counters(struct sluice_engine_stats *sum, const struct sluice_engine_stats *stats) {
    sum->steps += stats->steps;
    sum->step_rows += stats->step_rows;
    sum->step_seconds += stats->step_seconds;
    sum->planning_seconds += stats->planning_seconds;
    sum->draft_seconds += stats->draft_seconds;
    sum->finished_requests += stats->finished_requests;
    sum->preemptions += stats->preemptions;
    sum->prompt_tokens += stats->prompt_tokens;
    sum->cached_prompt_tokens += stats->cached_prompt_tokens;
    sum->output_tokens += stats->output_tokens;
    sum->draft_tokens += stats->draft_tokens;
    add(sum->verified_drafts, stats->verified_drafts, SLUICE_DRAFT_POSITIONS_MAX);
    add(sum->accepted_drafts, stats->accepted_drafts, SLUICE_DRAFT_POSITIONS_MAX);
    add(sum->ticks_by_draft_length, stats->ticks_by_draft_length, SLUICE_DRAFT_POSITIONS_MAX + 1);
    sum->cold_ticks += stats->cold_ticks;
    sum->warm_ticks += stats->warm_ticks;
    sum->draft_switches += stats->draft_switches;
    sum->draft_guard_trips += stats->draft_guard_trips;
}

void service_stats_add_gauges(struct sluice_engine_stats *sum, const struct sluice_engine_stats *stats) {
    sum->running_requests += stats->running_requests;
    sum->waiting_requests += stats->waiting_requests;
    sum->free_pages += stats->free_pages;
    sum->cached_pages += stats->cached_pages;
    if (stats->draft_probe_gain > sum->draft_probe_gain) {
        sum->draft_probe_gain = stats->draft_probe_gain;
    }
}
