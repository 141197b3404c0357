/*
 * How the ranks of a team share rows where nobody asked for a way: what of each kind of layers is gathered,
 * and whether shared experts are whole, stage by stage (spec parallelism S-13, S-15).
 *
 * Numbers of the device are those of a profile, if one is given. Else, where the ranks of a stage are on
 * several hosts, the link is the one that was looked at when the job started (engine/job_links.h), and the
 * first rank measures reading and computing (engine/stage_probe.h). On one host a message is a copy. All
 * ranks have the first one's numbers, so that all choose alike; no bit depends on it.
 */
#ifndef SLUICE_ENGINE_RANK_TEAM_SHARING_H
#define SLUICE_ENGINE_RANK_TEAM_SHARING_H

#include "engine/device_profile.h"
#include "engine/engine_core.h"
#include "engine/rank_team_view.h"

/* Of the ranks that share rows; borrowed, but for gathers_late. */
struct rank_team_sharing {
    struct rank_team_view team;
    struct device_profile device; /* the first rank's; 0: not known */
    bool *gathers_late;           /* [layers + 1], of the replica of this process; owned */
};

/* Makes room, and on the first rank finds numbers of the device. `sizes`: of the whole model. */
enum status rank_team_sharing_find(struct rank_team_sharing *sharing, const struct engine_core *sizes);

/* Collective. All ranks of a job take the first one's numbers. */
enum status rank_team_sharing_share(struct rank_team_sharing *sharing);

/* Chooses what layers gather, of `first_layers` of each stage; the first rank says what and why. */
void rank_team_sharing_choose(struct rank_team_sharing *sharing, const struct engine_core *sizes,
                              const int *first_layers);

/* Whether the ranks of a stage have the shared experts whole. */
bool rank_team_sharing_has_whole_experts(const struct rank_team_sharing *sharing,
                                         const struct engine_core *sizes, int replica, int stage);

void rank_team_sharing_deinit(struct rank_team_sharing *sharing);

#endif
