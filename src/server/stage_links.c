#include "server/stage_links.h"

#include <stdbool.h>

size_t stage_links_list(const struct sluice_engine_stats *stats, struct stage_link out[STAGE_LINKS_MAX]) {
    size_t count = 0;
    for (int32_t i = 0; i < stats->stage_count; i++) {
        const struct sluice_stage_stats *stage = &stats->stages[i];
        /* Plans go on to all ranks of a stage, if it has several. */
        bool has_ranks = stage->relay_bytes > 0;
        const struct {
            bool is_there;
            struct stage_link link;
        } rows[] = {
            {i + 1 < stats->stage_count, {i, i + 1, "boundary", stage->boundary_bytes}},
            {i > 0, {0, i, "plan", stage->plan_bytes}},
            {i > 0 || has_ranks, {i, 0, "feedback", stage->feedback_bytes}},
            {has_ranks, {i, i, "plan", stage->relay_bytes}},
            {has_ranks, {i, i, "sum", stage->sum_bytes}},
            {has_ranks, {i, i, "gather", stage->gather_bytes}},
            {has_ranks, {i, i, "exchange", stage->exchange_bytes}},
        };
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            if (rows[k].is_there) {
                out[count++] = rows[k].link;
            }
        }
    }
    return count;
}
