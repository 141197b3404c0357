/* The text of metrics. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "server/metrics_internal.h"
#include "server/metrics_sample.h"
#include "server/metrics_stages.h"

enum { BOUND_BYTES = 32 };

static void write_histogram(const struct metrics_text *text, const char *name, const char *help,
                            const struct histogram *histogram) {
    char sample[128];
    uint64_t total = 0;
    metrics_text_describe(text, name, "histogram", help);
    snprintf(sample, sizeof sample, "%s_bucket", name);
    for (size_t i = 0; i <= histogram->bound_count; i++) {
        char bound[BOUND_BYTES] = ",le=\"+Inf\"";
        if (i < histogram->bound_count) {
            snprintf(bound, sizeof bound, ",le=\"%.10g\"", histogram->bounds[i]);
        }
        total += histogram->counts[i];
        metrics_text_sample(text, sample, bound, (double)total);
    }
    snprintf(sample, sizeof sample, "%s_sum", name);
    metrics_text_sample(text, sample, "", histogram->sum);
    snprintf(sample, sizeof sample, "%s_count", name);
    metrics_text_sample(text, sample, "", (double)total);
}

static void write_histograms(const struct metrics_text *text, const struct metrics *metrics) {
    static const struct {
        const char *name;
        const char *help;
    } rows[HISTOGRAM_COUNT] = {
        [HISTOGRAM_FIRST_TOKEN] = {"vllm:time_to_first_token_seconds", "Time until the first token came."},
        [HISTOGRAM_INTER_TOKEN] = {"vllm:inter_token_latency_seconds",
                                   "Time between tokens; of several that came together, their mean."},
        [HISTOGRAM_TIME_PER_TOKEN] = {"vllm:request_time_per_output_token_seconds",
                                      "Mean time per token of a request, without the first."},
        [HISTOGRAM_TOTAL] = {"vllm:e2e_request_latency_seconds",
                             "Time from a request to the end of its answer."},
        [HISTOGRAM_QUEUE] = {"vllm:request_queue_time_seconds", "Time that requests waited to run."},
        [HISTOGRAM_INFERENCE] = {"vllm:request_inference_time_seconds", "Time that requests ran."},
        [HISTOGRAM_PREFILL] = {"vllm:request_prefill_time_seconds", "Time that prompts were read."},
        [HISTOGRAM_DECODE] = {"vllm:request_decode_time_seconds", "Time from the first token to the last."},
        [HISTOGRAM_PROMPT_TOKENS] = {"vllm:request_prompt_tokens", "Tokens of prompts."},
        [HISTOGRAM_TOKENS] = {"vllm:request_generation_tokens", "Tokens of answers."},
        [HISTOGRAM_LONGEST_TOKENS] = {"vllm:request_max_num_generation_tokens",
                                      "Tokens of the longest of a request's answers."},
        [HISTOGRAM_CHOICES] = {"vllm:request_params_n", "Answers that a request asked for."},
        [HISTOGRAM_TOKEN_LIMIT] = {"vllm:request_params_max_tokens", "Most tokens that a request asked for."},
    };
    for (size_t i = 0; i < HISTOGRAM_COUNT; i++) {
        write_histogram(text, rows[i].name, rows[i].help, &metrics->histograms[i]);
    }
    write_histogram(text, "vllm:time_per_output_token_seconds", "The time between tokens under its old name.",
                    &metrics->histograms[HISTOGRAM_INTER_TOKEN]);
}

static void write_requests(const struct metrics_text *text, const struct metrics *metrics) {
    static const char *const reasons[METRICS_FINISH_COUNT] = {
        ",finished_reason=\"stop\"", ",finished_reason=\"length\"", ",finished_reason=\"abort\"",
        ",finished_reason=\"error\""};
    static const char *const classes[REPLY_CLASS_COUNT] = {",code=\"1xx\"", ",code=\"2xx\"", ",code=\"3xx\"",
                                                           ",code=\"4xx\"", ",code=\"5xx\""};
    metrics_text_one(text, "vllm:prompt_tokens_total", "counter", "Tokens of prompts whose answers ended.",
                     (double)metrics->prompt_tokens);
    metrics_text_one(text, "vllm:generation_tokens_total", "counter", "Tokens of answers.",
                     (double)metrics->tokens);
    metrics_text_one(text, "vllm:prefix_cache_queries_total", "counter",
                     "Tokens of prompts that were looked for in the prefix cache.",
                     (double)metrics->prompt_tokens);
    metrics_text_one(text, "vllm:prefix_cache_hits_total", "counter", "Of them, those that were found.",
                     (double)metrics->cached_prompt_tokens);
    metrics_text_describe(text, "vllm:request_success_total", "counter", "Answers that ended, by how.");
    for (size_t i = 0; i < METRICS_FINISH_COUNT; i++) {
        metrics_text_sample(text, "vllm:request_success_total", reasons[i], (double)metrics->finished[i]);
    }
    metrics_text_one(text, "vllm:corrupted_requests_total", "counter",
                     "Answers that ended because the model gave no numbers.", (double)metrics->corrupted);
    metrics_text_describe(text, "vllm:admission_rejections_total", "counter",
                          "Requests for which there was no place.");
    metrics_text_sample(text, "vllm:admission_rejections_total", ",reason=\"queue_full\"",
                        (double)metrics->rejected);
    metrics_text_describe(text, "sluice:http_replies_total", "counter", "Replies by their status.");
    for (size_t i = 0; i < REPLY_CLASS_COUNT; i++) {
        metrics_text_sample(text, "sluice:http_replies_total", classes[i], (double)metrics->replies[i]);
    }
}

double metrics_page_use(const struct sluice_engine_stats *stats, const struct sluice_memory_ledger *memory) {
    int32_t free_count = stats->free_pages + stats->cached_pages;
    bool is_told = free_count > 0 || stats->steps > 0;
    return memory->page_count > 0 && is_told
               ? (double)(memory->page_count - free_count) / (double)memory->page_count
               : 0.0;
}

static void write_gauges(const struct metrics_text *text, const struct metrics_context *context) {
    const struct sluice_engine_stats *stats = &context->stats->engine;
    const struct sluice_memory_ledger *memory = &context->facts->memory;
    char labels[128];
    double share = metrics_page_use(stats, memory);
    metrics_text_one(text, "vllm:num_requests_running", "gauge", "Requests that run.",
                     stats->running_requests);
    metrics_text_one(text, "vllm:num_requests_waiting", "gauge", "Requests that wait to run.",
                     stats->waiting_requests);
    metrics_text_one(text, "vllm:kv_cache_usage_perc", "gauge",
                     "Share of the pages that requests use; 1 is all.", share);
    metrics_text_one(text, "vllm:gpu_cache_usage_perc", "gauge", "The same under its old name.", share);
    snprintf(labels, sizeof labels, ",block_size=\"%d\",num_gpu_blocks=\"%d\",enable_prefix_caching=\"%s\"",
             memory->page_tokens, memory->page_count, context->has_prefix_cache ? "True" : "False");
    metrics_text_describe(text, "vllm:cache_config_info", "gauge", "How the cache is laid out.");
    metrics_text_sample(text, "vllm:cache_config_info", labels, 1);
}

/* Dashboards ask for it; this server never sleeps. */
static void write_sleep_state(const struct metrics_text *text) {
    static const char name[] = "vllm:engine_sleep_state";
    metrics_text_describe(text, name, "gauge", "Whether the engine sleeps; it is always awake.");
    metrics_text_sample(text, name, ",sleep_state=\"awake\"", 1);
    metrics_text_sample(text, name, ",sleep_state=\"weights_offloaded\"", 0);
    metrics_text_sample(text, name, ",sleep_state=\"discard_all\"", 0);
}

static double sum(const int64_t *values, size_t count) {
    double total = 0;
    for (size_t i = 0; i < count; i++) {
        total += (double)values[i];
    }
    return total;
}

static void write_list(const struct metrics_text *text, const char *name, const char *label,
                       const int64_t *values, size_t count) {
    char labels[64];
    for (size_t i = 0; i < count; i++) {
        snprintf(labels, sizeof labels, ",%s=\"%zu\"", label, i);
        metrics_text_sample(text, name, labels, (double)values[i]);
    }
}

static void write_drafts(const struct metrics_text *text, const struct metrics_context *context) {
    static const char per_position[] = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
    const struct sluice_engine_stats *stats = &context->stats->engine;
    size_t limit = (size_t)context->facts->draft_limit;
    if (limit == 0) {
        return;
    }
    metrics_text_one(text, "vllm:spec_decode_num_drafts_total", "counter", "Times that drafts were verified.",
                     (double)stats->verified_drafts[0]);
    metrics_text_one(text, "vllm:spec_decode_num_draft_tokens_total", "counter",
                     "Tokens of drafts that were verified.", sum(stats->verified_drafts, limit));
    metrics_text_one(text, "vllm:spec_decode_num_accepted_tokens_total", "counter",
                     "Of them, those that were accepted.", sum(stats->accepted_drafts, limit));
    metrics_text_describe(text, per_position, "counter", "The same by position in the draft.");
    write_list(text, per_position, "position", stats->accepted_drafts, limit);
    metrics_text_describe(text, "sluice:draft_ticks_total", "counter",
                          "Steps by the number of drafts that the controller chose.");
    write_list(text, "sluice:draft_ticks_total", "length", stats->ticks_by_draft_length, limit + 1);
    metrics_text_one(text, "sluice:draft_cold_ticks_total", "counter",
                     "Steps in which the draft layer did not run.", (double)stats->cold_ticks);
    metrics_text_one(text, "sluice:draft_warm_ticks_total", "counter",
                     "Steps that only kept its state up to date.", (double)stats->warm_ticks);
    metrics_text_one(text, "sluice:draft_switches_total", "counter", "Changes of the number of drafts.",
                     (double)stats->draft_switches);
    metrics_text_one(text, "sluice:draft_guard_trips_total", "counter",
                     "Times that drafting was given up because it cost time.",
                     (double)stats->draft_guard_trips);
    metrics_text_one(text, "sluice:draft_probe_gain", "gauge",
                     "Tokens per second over those of the last probe without drafts; 0: none yet.",
                     stats->draft_probe_gain);
    metrics_text_one(text, "sluice:draft_seconds_total", "counter", "Time in the draft layer.",
                     stats->draft_seconds);
    metrics_text_one(text, "sluice:draft_length", "gauge",
                     "Drafts that the last step made for a request at most.", stats->draft_length);
    metrics_text_one(
        text, "sluice:draft_regime", "gauge",
        "What the draft layer did in the last step: 0 nothing, 1 kept its state up to date, 2 drafted.",
        (double)stats->draft_regime);
}

/* Beginnings on disk: memory asks them for what it does not know. */
static void write_prefix_disk(const struct metrics_text *text, const struct sluice_engine_stats *stats) {
    const struct {
        const char *name, *help;
        int64_t value;
    } rows[] = {
        {"vllm:external_prefix_cache_queries_total",
         "Tokens of prompts that were looked for in the prefix cache on disk.", stats->disk_queried_tokens},
        {"vllm:external_prefix_cache_hits_total", "Of them, those that were found.",
         stats->disk_found_tokens},
        {"sluice:prefix_disk_read_bytes_total", "Bytes of state read from the prefix cache on disk.",
         stats->disk_read_bytes},
        {"sluice:prefix_disk_written_bytes_total", "Bytes of files written to it.",
         stats->disk_written_bytes},
        {"sluice:prefix_disk_damaged_entries_total", "Its entries that did not pass the check.",
         stats->disk_damaged_entries},
        {"sluice:prefix_disk_failed_writes_total", "Entries that could not be written.",
         stats->disk_failed_writes},
        {"sluice:prefix_disk_dropped_entries_total",
         "Entries that were not written because the disk did not keep up.", stats->disk_dropped_entries},
        {"sluice:prefix_disk_evicted_entries_total", "Entries deleted to stay below the limit.",
         stats->disk_evicted_entries},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        metrics_text_one(text, rows[i].name, "counter", rows[i].help, (double)rows[i].value);
    }
}

static void write_engine(const struct metrics_text *text, const struct metrics_context *context) {
    const struct service_stats *stats = context->stats;
    metrics_text_one(text, "vllm:num_preemptions_total", "counter", "Times that a request lost its place.",
                     (double)stats->engine.preemptions);
    /* Engines tell sums only. */
    struct histogram iterations = {.counts = {(uint64_t)stats->engine.steps},
                                   .sum = (double)stats->engine.step_rows};
    write_histogram(text, "vllm:iteration_tokens_total", "Tokens of a step.", &iterations);
    metrics_text_one(text, "sluice:step_seconds_total", "counter", "Time in steps.",
                     stats->engine.step_seconds);
    metrics_text_one(text, "sluice:planning_seconds_total", "counter", "Of it, planning and bookkeeping.",
                     stats->engine.planning_seconds);
    metrics_text_one(text, "sluice:workers", "gauge", "Workers.", stats->worker_count);
    metrics_text_one(text, "sluice:workers_ready", "gauge", "Workers that can answer.", stats->ready_count);
    metrics_text_one(text, "sluice:worker_restarts_total", "counter", "Restarts of workers.",
                     (double)stats->restarts);
    metrics_text_one(text, "sluice:unknown_fields_total", "counter", "Fields of requests that no API knows.",
                     (double)context->unknown_field_count);
    metrics_text_one(text, "sluice:access_log_dropped_lines_total", "counter",
                     "Lines of the access log that nobody read in time.",
                     (double)context->dropped_line_count);
    metrics_text_one(text, "sluice:log_lost_lines_total", "counter",
                     "Lines of the front's log that nobody read in time.", (double)context->lost_line_count);
}

void metrics_write(struct metrics *metrics, const struct metrics_context *context,
                   struct string_buffer *out) {
    struct metrics_text text;
    metrics_text_begin(&text, out, context->model_name);
    write_gauges(&text, context);
    write_sleep_state(&text);
    pthread_mutex_lock(&metrics->mutex);
    write_requests(&text, metrics);
    write_histograms(&text, metrics);
    pthread_mutex_unlock(&metrics->mutex);
    write_engine(&text, context);
    if (context->has_prefix_disk) {
        write_prefix_disk(&text, &context->stats->engine);
    }
    write_drafts(&text, context);
    metrics_write_stages(&text, &context->stats->engine, context->facts->stage_imbalance);
}
