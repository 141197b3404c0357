#include "engine/rank_meter.h"

#include "base/clock.h"

void rank_meter_start(struct rank_meter *meter) {
    if (!meter->is_active) {
        meter->is_active = true;
        meter->since = clock_seconds();
    }
}

void rank_meter_rest(struct rank_meter *meter) {
    if (meter->is_active) {
        meter->is_active = false;
        meter->active_seconds += clock_seconds() - meter->since;
    }
}

void rank_meter_add_wait(struct rank_meter *meter, double began) {
    if (meter->is_active) {
        meter->wait_seconds += clock_seconds() - began;
    }
}

void rank_meter_add_send(struct rank_meter *meter, double began) {
    if (meter->is_active) {
        meter->send_seconds += clock_seconds() - began;
    }
}

void rank_meter_read(const struct rank_meter *meter, struct sluice_stage_stats *out) {
    double active = meter->active_seconds + (meter->is_active ? clock_seconds() - meter->since : 0.0);
    out->wait_seconds = meter->wait_seconds;
    out->send_seconds = meter->send_seconds;
    out->compute_seconds = active - meter->wait_seconds - meter->send_seconds;
}

void stage_stats_add(struct sluice_stage_stats *sum, const struct sluice_stage_stats *more) {
    sum->compute_seconds += more->compute_seconds;
    sum->wait_seconds += more->wait_seconds;
    sum->send_seconds += more->send_seconds;
    sum->boundary_bytes += more->boundary_bytes;
    sum->plan_bytes += more->plan_bytes;
    sum->feedback_bytes += more->feedback_bytes;
    sum->sum_bytes += more->sum_bytes;
    sum->gather_bytes += more->gather_bytes;
    sum->exchange_bytes += more->exchange_bytes;
    sum->relay_bytes += more->relay_bytes;
    sum->expert_moves += more->expert_moves;
    if (more->expert_imbalance > sum->expert_imbalance) {
        sum->expert_imbalance = more->expert_imbalance;
    }
}

void rank_reports_add_up(const struct rank_report *reports, int count, struct sluice_engine_stats *stats) {
    int rank_counts[SLUICE_STAGES_MAX] = {0};
    stats->stage_count = 0;
    for (int i = 0; i < count; i++) {
        int32_t stage = reports[i].stage;
        stage_stats_add(&stats->stages[stage], &reports[i].stats);
        rank_counts[stage]++;
        stats->stage_count = stage >= stats->stage_count ? stage + 1 : stats->stage_count;
    }
    for (int32_t i = 0; i < stats->stage_count; i++) {
        if (rank_counts[i] > 0) {
            stats->stages[i].compute_seconds /= rank_counts[i];
            stats->stages[i].wait_seconds /= rank_counts[i];
            stats->stages[i].send_seconds /= rank_counts[i];
        }
    }
}
