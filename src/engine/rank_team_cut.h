/* Which layers the stages of a team have: chosen by its first rank, with what all hosts can give. */
#ifndef SLUICE_ENGINE_RANK_TEAM_CUT_H
#define SLUICE_ENGINE_RANK_TEAM_CUT_H

#include "engine/engine_core.h"
#include "engine/rank_team_view.h"

/* The team as far as it matters for the cut; borrowed. */
struct rank_team_cut {
    struct rank_team_view team;
    double *byte_limits; /* [stages]: what the hosts of a stage can give, if they are its alone */
    int *first_layers;   /* [stages + 1] */
    double imbalance;    /* of the stages */
};

/* Collective. Fills byte_limits before weights are loaded: all ranks see what every host can give. */
enum status rank_team_share_limits(struct rank_team_cut *cut);

/*
 * The first rank's choice, by what it measures (engine/stage_cut.h); does nothing on others. Prefixes on disk
 * belong to a cut: so that they are found after a restart it is one by counts then, which are the same each
 * time. `sizes`: of the whole model.
 */
enum status rank_team_choose_cut(struct rank_team_cut *cut, const struct engine_core *sizes);

/* Collective. All ranks of a job take the first one's cut: what they would measure is another (P-16). */
enum status rank_team_share_cut(struct rank_team_cut *cut);

#endif
