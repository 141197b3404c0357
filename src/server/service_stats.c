#include "server/service_stats.h"

static void add(int64_t *sum, const int64_t *counters, int count) {
    for (int i = 0; i < count; i++) {
        sum[i] += counters[i];
    }
}

static void add_stages(struct sluice_engine_stats *sum, const struct sluice_engine_stats *stats) {
    for (int32_t i = 0; i < stats->stage_count; i++) {
        const struct sluice_stage_stats *stage = &stats->stages[i];
        sum->stages[i].compute_seconds += stage->compute_seconds;
        sum->stages[i].wait_seconds += stage->wait_seconds;
        sum->stages[i].send_seconds += stage->send_seconds;
        sum->stages[i].boundary_bytes += stage->boundary_bytes;
        sum->stages[i].plan_bytes += stage->plan_bytes;
        sum->stages[i].feedback_bytes += stage->feedback_bytes;
        sum->stages[i].sum_bytes += stage->sum_bytes;
        sum->stages[i].gather_bytes += stage->gather_bytes;
        sum->stages[i].exchange_bytes += stage->exchange_bytes;
        sum->stages[i].relay_bytes += stage->relay_bytes;
        sum->stages[i].expert_moves += stage->expert_moves;
    }
    sum->stage_count = stats->stage_count > sum->stage_count ? stats->stage_count : sum->stage_count;
}

static double larger(double a, double b) {
    return a > b ? a : b;
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
    add_stages(sum, stats);
}

void service_stats_add_gauges(struct sluice_engine_stats *sum, const struct sluice_engine_stats *stats) {
    sum->running_requests += stats->running_requests;
    sum->waiting_requests += stats->waiting_requests;
    sum->free_pages += stats->free_pages;
    sum->cached_pages += stats->cached_pages;
    sum->draft_probe_gain = larger(sum->draft_probe_gain, stats->draft_probe_gain);
    if (stats->draft_length > sum->draft_length) {
        sum->draft_length = stats->draft_length;
    }
    if (stats->draft_regime > sum->draft_regime) {
        sum->draft_regime = stats->draft_regime;
    }
    for (int32_t i = 0; i < stats->stage_count; i++) {
        sum->stages[i].expert_imbalance =
            larger(sum->stages[i].expert_imbalance, stats->stages[i].expert_imbalance);
    }
}
