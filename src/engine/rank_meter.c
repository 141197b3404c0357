#include "engine/rank_meter.h"

#include "base/clock.h"
#include "engine/engine_stats_sum.h"

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
