/* The links between a pipeline's stages, and inside of them, with what went over each. */
#ifndef SLUICE_SERVER_STAGE_LINKS_H
#define SLUICE_SERVER_STAGE_LINKS_H

#include <stddef.h>
#include <stdint.h>

#include "sluice/engine.h"

enum { STAGE_LINKS_MAX = SLUICE_STAGES_MAX * 7 };

struct stage_link {
    int32_t from; /* stages; the same one: between its ranks */
    int32_t to;
    const char *kind; /* "boundary", "plan", "feedback"; inside a stage also "sum", "gather", "exchange" */
    int64_t bytes;
};

/* Lists the links that there are, in the same order whenever the layout is the same; returns how many. */
size_t stage_links_list(const struct sluice_engine_stats *stats, struct stage_link out[STAGE_LINKS_MAX]);

#endif
