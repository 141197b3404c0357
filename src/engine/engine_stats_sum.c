#include "engine/engine_stats_sum.h"

static void add(int64_t *sum, const int64_t *counters, int count, int sign) {
    for (int i = 0; i < count; i++) {
        sum[i] += sign * counters[i];
    }
}

static void add_stage_counters(struct sluice_stage_stats *sum, const struct sluice_stage_stats *more,
                               int sign) {
    sum->compute_seconds += sign * more->compute_seconds;
    sum->wait_seconds += sign * more->wait_seconds;
    sum->send_seconds += sign * more->send_seconds;
    sum->boundary_bytes += sign * more->boundary_bytes;
    sum->plan_bytes += sign * more->plan_bytes;
    sum->feedback_bytes += sign * more->feedback_bytes;
    sum->sum_bytes += sign * more->sum_bytes;
    sum->gather_bytes += sign * more->gather_bytes;
    sum->exchange_bytes += sign * more->exchange_bytes;
    sum->relay_bytes += sign * more->relay_bytes;
    sum->expert_moves += sign * more->expert_moves;
}

static void keep_larger(double *kept, double value) {
    *kept = value > *kept ? value : *kept;
}

void stage_stats_add(struct sluice_stage_stats *sum, const struct sluice_stage_stats *more) {
    add_stage_counters(sum, more, 1);
    keep_larger(&sum->expert_imbalance, more->expert_imbalance);
}

void engine_stats_add_counters(struct sluice_engine_stats *sum, const struct sluice_engine_stats *more,
                               int sign) {
    sum->steps += sign * more->steps;
    sum->step_rows += sign * more->step_rows;
    sum->step_seconds += sign * more->step_seconds;
    sum->planning_seconds += sign * more->planning_seconds;
    sum->draft_seconds += sign * more->draft_seconds;
    sum->finished_requests += sign * more->finished_requests;
    sum->preemptions += sign * more->preemptions;
    sum->prompt_tokens += sign * more->prompt_tokens;
    sum->cached_prompt_tokens += sign * more->cached_prompt_tokens;
    sum->output_tokens += sign * more->output_tokens;
    sum->disk_queried_tokens += sign * more->disk_queried_tokens;
    sum->disk_found_tokens += sign * more->disk_found_tokens;
    sum->disk_read_bytes += sign * more->disk_read_bytes;
    sum->disk_written_bytes += sign * more->disk_written_bytes;
    sum->disk_damaged_entries += sign * more->disk_damaged_entries;
    sum->disk_failed_writes += sign * more->disk_failed_writes;
    sum->disk_dropped_entries += sign * more->disk_dropped_entries;
    sum->disk_evicted_entries += sign * more->disk_evicted_entries;
    sum->draft_tokens += sign * more->draft_tokens;
    add(sum->verified_drafts, more->verified_drafts, SLUICE_DRAFT_POSITIONS_MAX, sign);
    add(sum->accepted_drafts, more->accepted_drafts, SLUICE_DRAFT_POSITIONS_MAX, sign);
    add(sum->ticks_by_draft_length, more->ticks_by_draft_length, SLUICE_DRAFT_POSITIONS_MAX + 1, sign);
    sum->cold_ticks += sign * more->cold_ticks;
    sum->warm_ticks += sign * more->warm_ticks;
    sum->draft_switches += sign * more->draft_switches;
    sum->draft_guard_trips += sign * more->draft_guard_trips;
    for (int32_t i = 0; i < more->stage_count; i++) {
        add_stage_counters(&sum->stages[i], &more->stages[i], sign);
    }
    sum->stage_count = more->stage_count > sum->stage_count ? more->stage_count : sum->stage_count;
}

void engine_stats_add_gauges(struct sluice_engine_stats *sum, const struct sluice_engine_stats *more) {
    sum->running_requests += more->running_requests;
    sum->waiting_requests += more->waiting_requests;
    sum->free_pages += more->free_pages;
    sum->cached_pages += more->cached_pages;
    keep_larger(&sum->draft_probe_gain, more->draft_probe_gain);
    if (more->draft_length > sum->draft_length) {
        sum->draft_length = more->draft_length;
    }
    if (more->draft_regime > sum->draft_regime) {
        sum->draft_regime = more->draft_regime;
    }
    for (int32_t i = 0; i < more->stage_count; i++) {
        keep_larger(&sum->stages[i].expert_imbalance, more->stages[i].expert_imbalance);
    }
}
