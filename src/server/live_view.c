/* Rates compare with what an earlier question saw: nobody asks, nothing runs. */
#include "server/live_view.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "server/metrics.h"
#include "server/stage_links.h"
#include "text/json_writer.h"

enum { SAMPLE_COUNT = 32 };

static const double SAMPLE_SECONDS = 0.25; /* between samples */
static const double WINDOW_LEAST = 1.5;    /* workers tell what they did once a second */
static const double WINDOW_MOST = 30.0;

struct sample {
    double moment;
    int64_t prompt_tokens;
    int64_t output_tokens;
    double step_seconds;
};

struct live_view {
    const struct api_options *options;
    double started_at;
    pthread_mutex_t mutex; /* guards the samples */
    struct sample samples[SAMPLE_COUNT];
    size_t sample_count; /* ever taken; the newest is at (count - 1) % SAMPLE_COUNT */
};

/* Per second; has_value false: unknown. */
struct rates {
    bool has_value;
    double prompt, output, busy;
};

enum status live_view_create(const struct api_options *options, struct live_view **out) {
    struct live_view *view = calloc(1, sizeof *view);
    CHECK_MEMORY(view);
    view->options = options;
    view->started_at = clock_seconds();
    pthread_mutex_init(&view->mutex, NULL);
    *out = view;
    return STATUS_OK;
}

void live_view_destroy(struct live_view **view) {
    if (*view != NULL) {
        pthread_mutex_destroy(&(*view)->mutex);
        free(*view);
        *view = NULL;
    }
}

/* The newest sample that is old enough to compare with; NULL if there is none. The mutex is held. */
static const struct sample *find_base(const struct live_view *view, double now) {
    size_t kept = view->sample_count < SAMPLE_COUNT ? view->sample_count : SAMPLE_COUNT;
    for (size_t i = 1; i <= kept; i++) {
        const struct sample *sample = &view->samples[(view->sample_count - i) % SAMPLE_COUNT];
        if (now - sample->moment >= WINDOW_LEAST) {
            return now - sample->moment <= WINDOW_MOST ? sample : NULL;
        }
    }
    return NULL;
}

static struct rates measure(struct live_view *view, const struct sluice_engine_stats *stats) {
    struct rates rates = {0};
    const struct sample now = {clock_seconds(), stats->prompt_tokens, stats->output_tokens,
                               stats->step_seconds};
    pthread_mutex_lock(&view->mutex);
    const struct sample *base = find_base(view, now.moment);
    if (base != NULL) {
        double seconds = now.moment - base->moment;
        rates = (struct rates){.has_value = true,
                               .prompt = (double)(now.prompt_tokens - base->prompt_tokens) / seconds,
                               .output = (double)(now.output_tokens - base->output_tokens) / seconds,
                               .busy = (now.step_seconds - base->step_seconds) / seconds};
    }
    const struct sample *newest = &view->samples[(view->sample_count + SAMPLE_COUNT - 1) % SAMPLE_COUNT];
    if (view->sample_count == 0 || now.moment - newest->moment >= SAMPLE_SECONDS) {
        view->samples[view->sample_count++ % SAMPLE_COUNT] = now;
    }
    pthread_mutex_unlock(&view->mutex);
    return rates;
}

static void write_known(struct json_writer *writer, const char *key, bool is_known, double value) {
    if (is_known) {
        json_writer_real(writer, key, value);
    } else {
        json_writer_null(writer, key);
    }
}

static void write_counters(struct json_writer *writer, const char *key, const int64_t *counters,
                           size_t count) {
    json_writer_begin(writer, key, '[');
    for (size_t i = 0; i < count; i++) {
        json_writer_integer(writer, NULL, counters[i]);
    }
    json_writer_end(writer, ']');
}

static void write_drafts(struct json_writer *writer, const struct sluice_engine_stats *stats, size_t limit) {
    static const char *const regimes[] = {[SLUICE_DRAFT_REGIME_COLD] = "cold",
                                          [SLUICE_DRAFT_REGIME_WARM] = "warm",
                                          [SLUICE_DRAFT_REGIME_DRAFT] = "draft"};
    json_writer_begin(writer, "drafts", '{');
    json_writer_integer(writer, "limit", (int64_t)limit);
    json_writer_integer(writer, "made", stats->draft_tokens);
    json_writer_begin(writer, "acceptance", '[');
    for (size_t i = 0; i < limit; i++) {
        int64_t verified = stats->verified_drafts[i];
        write_known(writer, NULL, verified > 0, (double)stats->accepted_drafts[i] / (double)verified);
    }
    json_writer_end(writer, ']');
    write_counters(writer, "verified", stats->verified_drafts, limit);
    write_counters(writer, "accepted", stats->accepted_drafts, limit);
    write_counters(writer, "ticks_by_length", stats->ticks_by_draft_length, limit + 1);
    json_writer_integer(writer, "cold_ticks", stats->cold_ticks);
    json_writer_integer(writer, "warm_ticks", stats->warm_ticks);
    json_writer_integer(writer, "switches", stats->draft_switches);
    json_writer_integer(writer, "guard_trips", stats->draft_guard_trips);
    json_writer_real(writer, "probe_gain", stats->draft_probe_gain);
    json_writer_integer(writer, "length", stats->draft_length);
    json_writer_text(writer, "regime", regimes[stats->draft_regime]);
    json_writer_end(writer, '}');
}

static void write_requests(struct json_writer *writer, const struct service_stats *stats,
                           const struct live_state *state) {
    json_writer_begin(writer, "workers", '{');
    json_writer_integer(writer, "count", stats->worker_count);
    json_writer_integer(writer, "ready", stats->ready_count);
    json_writer_integer(writer, "restarts", stats->restarts);
    json_writer_end(writer, '}');
    json_writer_begin(writer, "requests", '{');
    json_writer_integer(writer, "under_way", (int64_t)state->running_count);
    json_writer_integer(writer, "running", stats->engine.running_requests);
    json_writer_integer(writer, "waiting", stats->engine.waiting_requests);
    json_writer_integer(writer, "finished", stats->engine.finished_requests);
    json_writer_integer(writer, "preemptions", stats->engine.preemptions);
    json_writer_end(writer, '}');
}

static void write_tokens(struct json_writer *writer, const struct sluice_engine_stats *stats,
                         const struct rates *rates) {
    json_writer_begin(writer, "tokens", '{');
    json_writer_integer(writer, "prompt", stats->prompt_tokens);
    json_writer_integer(writer, "cached_prompt", stats->cached_prompt_tokens);
    json_writer_integer(writer, "output", stats->output_tokens);
    write_known(writer, "prompt_per_second", rates->has_value, rates->prompt);
    write_known(writer, "output_per_second", rates->has_value, rates->output);
    json_writer_end(writer, '}');
    json_writer_begin(writer, "prefix_cache", '{');
    write_known(writer, "hit_rate", stats->prompt_tokens > 0,
                (double)stats->cached_prompt_tokens / (double)stats->prompt_tokens);
    json_writer_integer(writer, "pages", stats->cached_pages);
    json_writer_end(writer, '}');
}

static void write_pages(struct json_writer *writer, const struct sluice_engine_stats *stats,
                        const struct sluice_memory_ledger *memory) {
    json_writer_begin(writer, "kv", '{');
    json_writer_integer(writer, "pages", memory->page_count);
    json_writer_integer(writer, "free_pages", stats->free_pages + stats->cached_pages);
    json_writer_real(writer, "used_share", metrics_page_use(stats, memory));
    json_writer_end(writer, '}');
}

static void write_steps(struct json_writer *writer, const struct sluice_engine_stats *stats,
                        const struct rates *rates) {
    json_writer_begin(writer, "steps", '{');
    json_writer_integer(writer, "count", stats->steps);
    json_writer_integer(writer, "rows", stats->step_rows);
    json_writer_real(writer, "seconds", stats->step_seconds);
    json_writer_real(writer, "planning_seconds", stats->planning_seconds);
    json_writer_real(writer, "draft_seconds", stats->draft_seconds);
    write_known(writer, "busy_share", rates->has_value, rates->busy);
    json_writer_end(writer, '}');
}

static void write_stages(struct json_writer *writer, const struct sluice_engine_stats *stats) {
    json_writer_begin(writer, "stages", '[');
    for (int32_t i = 0; i < stats->stage_count; i++) {
        const struct sluice_stage_stats *stage = &stats->stages[i];
        json_writer_begin(writer, NULL, '{');
        json_writer_real(writer, "compute_seconds", stage->compute_seconds);
        json_writer_real(writer, "wait_seconds", stage->wait_seconds);
        json_writer_real(writer, "send_seconds", stage->send_seconds);
        json_writer_integer(writer, "expert_moves", stage->expert_moves);
        write_known(writer, "expert_imbalance", stage->expert_imbalance > 0.0, stage->expert_imbalance);
        json_writer_end(writer, '}');
    }
    json_writer_end(writer, ']');
}

static void write_links(struct json_writer *writer, const struct sluice_engine_stats *stats) {
    struct stage_link links[STAGE_LINKS_MAX];
    size_t count = stage_links_list(stats, links);
    json_writer_begin(writer, "links", '[');
    for (size_t i = 0; i < count; i++) {
        json_writer_begin(writer, NULL, '{');
        json_writer_integer(writer, "from", links[i].from);
        json_writer_integer(writer, "to", links[i].to);
        json_writer_text(writer, "kind", links[i].kind);
        json_writer_integer(writer, "bytes", links[i].bytes);
        json_writer_end(writer, '}');
    }
    json_writer_end(writer, ']');
}

void live_view_write(struct live_view *view, const struct live_state *state, struct string_buffer *out) {
    struct service *service = view->options->service;
    struct sluice_engine_facts facts = service->kind->facts(service);
    struct service_stats stats;
    service->kind->stats(service, &stats);
    struct rates rates = measure(view, &stats.engine);
    struct json_writer writer = json_writer_on(out);
    json_writer_begin(&writer, NULL, '{');
    json_writer_bool(&writer, "ready", state->is_ready);
    json_writer_text(&writer, "model", view->options->model_names[0]);
    json_writer_real(&writer, "uptime_seconds", clock_seconds() - view->started_at);
    write_requests(&writer, &stats, state);
    write_tokens(&writer, &stats.engine, &rates);
    write_pages(&writer, &stats.engine, &facts.memory);
    write_drafts(&writer, &stats.engine, (size_t)facts.draft_limit);
    write_steps(&writer, &stats.engine, &rates);
    write_stages(&writer, &stats.engine);
    write_known(&writer, "stage_imbalance", facts.stage_imbalance > 0.0, facts.stage_imbalance);
    write_links(&writer, &stats.engine);
    json_writer_end(&writer, '}');
}
