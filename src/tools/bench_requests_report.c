/* The table is for reading, the JSON object has all numbers. */
#include "tools/bench_requests_report.h"

#include <stdio.h>

#include "tools/bench_loop.h"
#include "tools/bench_report_parts.h"

static double planning_fraction(const struct sluice_engine_stats *stats) {
    return bench_rate(stats->planning_seconds, stats->step_seconds);
}

static double draft_fraction(const struct sluice_engine_stats *stats) {
    return bench_rate(stats->draft_seconds, stats->step_seconds);
}

/* "0.96 0.91": the share of verified drafts that were accepted, by position; "-" without drafts. */
static void append_acceptance(const struct bench_requests_row *row, struct string_buffer *out) {
    bool has_any = row->stats.verified_drafts[0] > 0;
    for (int i = 0; i < row->setting.limit && row->stats.verified_drafts[i] > 0; i++) {
        double share =
            bench_rate((double)row->stats.accepted_drafts[i], (double)row->stats.verified_drafts[i]);
        string_buffer_append_format(out, "%s%.2f", i == 0 ? "" : " ", share);
    }
    string_buffer_append_text(out, has_any ? "\n" : "-\n");
}

static void append_row(const struct bench_requests_row *row, struct string_buffer *out) {
    char name[BENCH_SETTING_NAME_BYTES];
    const struct sluice_engine_stats *stats = &row->stats;
    bench_setting_name(&row->setting, name);
    string_buffer_append_format(out, "%11lld %8s%s ", (long long)row->concurrency, name,
                                row->is_best_fixed ? "*" : " ");
    string_buffer_append_format(out, "%9.1f %9.1f %9.1f %7.3f %7.3f ", row->tokens_per_second.median,
                                row->tokens_per_second.minimum, row->tokens_per_second.maximum, row->over_off,
                                row->over_best_fixed);
    string_buffer_append_format(out, "%8.2f %8.3f %8.2f%% %6.1f%% %7lld %7lld %6.3f %8.2f  ",
                                row->first_token_seconds * 1e3, row->token_seconds * 1e3,
                                100.0 * planning_fraction(stats), 100.0 * draft_fraction(stats),
                                (long long)stats->cold_ticks, (long long)stats->warm_ticks,
                                stats->draft_probe_gain, bench_mean_accepted_length(stats));
    append_acceptance(row, out);
}

static void append_prefix(const struct bench_prefix_result *prefix, struct string_buffer *out) {
    string_buffer_append_format(
        out,
        "\nprefix   first token of a prompt of %lld tokens: %.2f ms (%.2f to %.2f), with "
        "%lld cached %.2f ms (%.2f to %.2f): %.1f times as fast\n",
        (long long)prefix->prompt_tokens, prefix->cold_seconds.median * 1e3,
        prefix->cold_seconds.minimum * 1e3, prefix->cold_seconds.maximum * 1e3,
        (long long)prefix->cached_tokens, prefix->hit_seconds.median * 1e3, prefix->hit_seconds.minimum * 1e3,
        prefix->hit_seconds.maximum * 1e3, prefix->speedup);
}

enum status bench_requests_text(const struct bench_requests_options *options,
                                const struct bench_requests_report *report, struct string_buffer *out) {
    string_buffer_append_format(out, "model    %s\n", string_buffer_text(&report->model_directory));
    bench_append_machine(report->thread_count, report->cpu_features, out);
    string_buffer_append_format(
        out,
        "run      prompts of %lld tokens %s, answers of %lld to %lld at temperature %g, median "
        "(slowest, fastest) of %d\n\n",
        (long long)options->request_tokens,
        options->text == NULL ? "that the model wrote" : "of the given text",
        (long long)(options->gen_tokens - options->gen_tokens / 2),
        (long long)bench_loop_longest_answer(options->gen_tokens), options->temperature, options->repeats);
    string_buffer_append_format(out, "%11s %8s  %9s %9s %9s %7s %7s %8s %8s %9s %7s %7s %7s %6s %8s  %s\n",
                                "concurrency", "drafts", "tokens/s", "min", "max", "/off", "/best", "ttft ms",
                                "tpot ms", "planning", "draft", "cold", "warm", "probe", "length",
                                "accepted");
    for (int i = 0; i < report->row_count; i++) {
        append_row(&report->rows[i], out);
    }
    if (report->prefix.prompt_tokens > 0) {
        append_prefix(&report->prefix, out);
    }
    return string_buffer_check(out);
}

static struct json *new_counts(const int64_t *counts, int count) {
    struct json *array = json_new_array();
    for (int i = 0; i < count && array != NULL; i++) {
        if (!json_append(array, json_new_integer(counts[i]))) {
            json_free(&array);
        }
    }
    return array;
}

/* What share of the time of steps the stages of the pipeline waited for one another. */
static double bubble_fraction(const struct sluice_engine_stats *stats) {
    double waited = 0.0;
    double total = 0.0;
    for (int32_t i = 0; i < stats->stage_count; i++) {
        const struct sluice_stage_stats *stage = &stats->stages[i];
        waited += stage->wait_seconds;
        total += stage->compute_seconds + stage->wait_seconds + stage->send_seconds;
    }
    return total > 0.0 ? waited / total : 0.0;
}

static bool set_counters(struct json *object, const struct bench_requests_row *row) {
    const struct sluice_engine_stats *stats = &row->stats;
    int limit = row->setting.limit;
    return bench_set_integer(object, "steps", stats->steps) &&
           bench_set_integer(object, "step_rows", stats->step_rows) &&
           bench_set_real(object, "step_seconds", stats->step_seconds) &&
           bench_set_real(object, "planning_fraction", planning_fraction(stats)) &&
           bench_set_real(object, "draft_fraction", draft_fraction(stats)) &&
           bench_set_real(object, "bubble_fraction", bubble_fraction(stats)) &&
           bench_set_integer(object, "preemptions", stats->preemptions) &&
           bench_set_integer(object, "output_tokens", stats->output_tokens) &&
           bench_set_integer(object, "draft_tokens", stats->draft_tokens) &&
           json_set(object, "verified_drafts", new_counts(stats->verified_drafts, limit)) &&
           json_set(object, "accepted_drafts", new_counts(stats->accepted_drafts, limit)) &&
           json_set(object, "ticks_by_draft_length", new_counts(stats->ticks_by_draft_length, limit + 1)) &&
           bench_set_real(object, "mean_accepted_length", bench_mean_accepted_length(stats)) &&
           bench_set_integer(object, "cold_ticks", stats->cold_ticks) &&
           bench_set_integer(object, "warm_ticks", stats->warm_ticks) &&
           bench_set_integer(object, "draft_switches", stats->draft_switches) &&
           bench_set_integer(object, "draft_guard_trips", stats->draft_guard_trips) &&
           bench_set_real(object, "draft_probe_gain", stats->draft_probe_gain);
}

static struct json *new_row(const struct bench_requests_row *row) {
    char name[BENCH_SETTING_NAME_BYTES];
    struct json *object = json_new_object();
    bench_setting_name(&row->setting, name);
    bool is_complete = object != NULL && bench_set_integer(object, "concurrency", row->concurrency) &&
                       bench_set_text(object, "drafts", name) &&
                       bench_set_integer(object, "draft_limit", row->setting.limit) &&
                       bench_set_real(object, "tokens_per_second", row->tokens_per_second.median) &&
                       bench_set_real(object, "min_tokens_per_second", row->tokens_per_second.minimum) &&
                       bench_set_real(object, "max_tokens_per_second", row->tokens_per_second.maximum) &&
                       bench_set_real(object, "over_off", row->over_off) &&
                       bench_set_real(object, "over_best_fixed", row->over_best_fixed) &&
                       json_set(object, "is_best_fixed", json_new_bool(row->is_best_fixed)) &&
                       bench_set_real(object, "first_token_seconds", row->first_token_seconds) &&
                       bench_set_real(object, "token_seconds", row->token_seconds) &&
                       set_counters(object, row);
    if (!is_complete) {
        json_free(&object);
    }
    return object;
}

static struct json *new_rows(const struct bench_requests_report *report) {
    struct json *array = json_new_array();
    for (int i = 0; i < report->row_count && array != NULL; i++) {
        if (!json_append(array, new_row(&report->rows[i]))) {
            json_free(&array);
        }
    }
    return array;
}

static struct json *new_prefix(const struct bench_prefix_result *prefix) {
    struct json *object = json_new_object();
    bool is_complete = object != NULL && bench_set_integer(object, "prompt_tokens", prefix->prompt_tokens) &&
                       bench_set_integer(object, "cached_tokens", prefix->cached_tokens) &&
                       bench_set_real(object, "cold_seconds", prefix->cold_seconds.median) &&
                       bench_set_real(object, "min_cold_seconds", prefix->cold_seconds.minimum) &&
                       bench_set_real(object, "max_cold_seconds", prefix->cold_seconds.maximum) &&
                       bench_set_real(object, "hit_seconds", prefix->hit_seconds.median) &&
                       bench_set_real(object, "min_hit_seconds", prefix->hit_seconds.minimum) &&
                       bench_set_real(object, "max_hit_seconds", prefix->hit_seconds.maximum) &&
                       bench_set_real(object, "speedup", prefix->speedup);
    if (!is_complete) {
        json_free(&object);
    }
    return object;
}

enum status bench_requests_json(const struct bench_requests_options *options,
                                const struct bench_requests_report *report, struct string_buffer *out) {
    struct json *object = json_new_object();
    bool has_prefix = report->prefix.prompt_tokens > 0;
    bool is_complete =
        object != NULL && bench_set_text(object, "model", string_buffer_text(&report->model_directory)) &&
        json_set(object, "machine", bench_new_machine(report->thread_count, report->cpu_features)) &&
        bench_set_integer(object, "request_tokens", options->request_tokens) &&
        bench_set_integer(object, "gen_tokens", options->gen_tokens) &&
        bench_set_real(object, "temperature", options->temperature) &&
        bench_set_integer(object, "repeats", options->repeats) &&
        bench_set_integer(object, "chunk_tokens", options->engine.step_token_limit) &&
        bench_set_real(object, "load_seconds", report->facts.load_seconds) &&
        json_set(object, "rows", new_rows(report)) &&
        (!has_prefix || json_set(object, "prefix", new_prefix(&report->prefix)));
    if (!is_complete) {
        json_free(&object);
    }
    return bench_write_line(object, out);
}
