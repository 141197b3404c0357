/*
 * What a rank's time goes to: counted always, by two looks at the clock for each wait.
 *
 * Time counts while rounds are under way: from the first one after a rest until the leader says that there is
 * nothing to do. Of it waits and sends are measured; all the rest is work. So the parts of a rank always add
 * up to the time that rounds took, and a rank that nobody asks anything has neither.
 */
#ifndef SLUICE_ENGINE_RANK_METER_H
#define SLUICE_ENGINE_RANK_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/prefix_disk.h"
#include "sluice/engine.h"

/* Zeroed: at rest. One thread at a time. */
struct rank_meter {
    bool is_active;
    double since;          /* on the clock, if it is active */
    double active_seconds; /* until the last rest */
    double wait_seconds;
    double send_seconds;
    uint64_t plan_bytes; /* that came from the leader */
};

/* What a rank tells the leader; sent as it is, between processes of the same build. */
struct rank_report {
    int32_t stage;
    int32_t unused;
    struct sluice_stage_stats stats; /* of this rank alone */
    struct prefix_disk_counters disk;
};

/* A round begins, and a rest: nothing happens if one is under way already. */
void rank_meter_start(struct rank_meter *meter);
void rank_meter_rest(struct rank_meter *meter);

/* From `began` until now the rank waited, or handed something on; time of a rest does not count. */
void rank_meter_add_wait(struct rank_meter *meter, double began);
void rank_meter_add_send(struct rank_meter *meter, double began);

/* The times so far, the round under way included. */
void rank_meter_read(const struct rank_meter *meter, struct sluice_stage_stats *out);

/* Stages of `count` ranks: times are means over a stage's ranks, bytes and experts sums. */
void rank_reports_add_up(const struct rank_report *reports, int count, struct sluice_engine_stats *stats);

#endif
