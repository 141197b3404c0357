/*
 * What goes on now, as JSON for GET /live:
 *   "ready": bool, "model": name, "uptime_seconds"
 *   "workers": {"count", "ready", "restarts"}
 *   "requests": {"under_way", "running", "waiting", "finished", "preemptions"}; under_way counts those that
 *       clients wait for, running and waiting are the engine's
 *   "tokens": {"prompt", "cached_prompt", "output", "prompt_per_second", "output_per_second"}; rates are over
 *       the last seconds, null before two questions were asked half a minute apart at most
 *   "prefix_cache": {"hit_rate", "pages"}; of prompt tokens so far, null without any; pages used by nobody
 *   "kv": {"pages", "free_pages", "used_share"}; pages of the cache alone count as free
 *   "drafts": {"limit", "made", "acceptance": [by position, null if never verified], "verified": [...],
 *       "accepted": [...], "ticks_by_length": [...], "cold_ticks", "warm_ticks", "switches", "guard_trips",
 *       "probe_gain", "length", "regime"}; drafts of the last step, and whether the layer is cold, warm or
 *       drafts
 *   "steps": {"count", "rows", "seconds", "planning_seconds", "draft_seconds", "busy_share"}; the share of
 *       time that was spent in steps, as the rates
 *   "stages": [{"compute_seconds", "wait_seconds", "send_seconds", "expert_moves", "expert_imbalance"}]; by
 *       stage of the pipeline, as sluice_stage_stats; the imbalance null without experts that move
 *   "stage_imbalance": what the slowest stage takes over the mean, by the cut of the layers; null before a
 *       worker was ready
 *   "links": [{"from", "to", "kind", "bytes"}]; stages, as stage_link
 * Counters grow from the start of the server, over restarts of workers.
 */
#ifndef SLUICE_SERVER_LIVE_VIEW_H
#define SLUICE_SERVER_LIVE_VIEW_H

#include "base/string_buffer.h"
#include "server/api.h"

struct live_view;

/* What only the front knows. */
struct live_state {
    bool is_ready;
    size_t running_count;
};

/* The options are borrowed. Owned: live_view_destroy. */
enum status live_view_create(const struct api_options *options, struct live_view **out);
void live_view_destroy(struct live_view **view);

/* Appends the object. Any thread. */
void live_view_write(struct live_view *view, const struct live_state *state, struct string_buffer *out);

#endif
