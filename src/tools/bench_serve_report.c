/* The table is for reading, the JSON object has all numbers. */
#include "tools/bench_serve_report.h"

#include "tools/bench_report_parts.h"

static bool has_goals(const struct bench_serve_goals *goals) {
    return goals->first_token_ms > 0.0 || goals->token_ms > 0.0 || goals->total_ms > 0.0;
}

static void append_times(const char *name, const struct bench_summary *summary, struct string_buffer *out) {
    string_buffer_append_format(out, "  %-30s %10.2f %10.2f %10.2f %10.2f\n", name, 1e3 * summary->mean,
                                1e3 * summary->median, 1e3 * summary->p90, 1e3 * summary->p99);
}

static void append_failures(const struct bench_serve_row *row, struct string_buffer *out) {
    const char *separator = " (";
    int64_t failed = row->request_count - row->completed_count;
    string_buffer_append_format(out, ", %lld failed", (long long)failed);
    for (int i = 0; i < BENCH_SERVE_FAILURES; i++) {
        if (row->failures[i] > 0) {
            string_buffer_append_format(out, "%s%lld %s", separator, (long long)row->failures[i],
                                        bench_serve_failure_name((enum bench_serve_failure)i));
            separator = ", ";
        }
    }
    string_buffer_append_text(out, failed > 0 ? ")\n" : "\n");
    if (failed > 0) {
        string_buffer_append_format(out, "  the first failure: %s\n", string_buffer_text(&row->first_error));
    }
}

static void append_row(const struct bench_serve_goals *goals, const struct bench_serve_row *row,
                       struct string_buffer *out) {
    if (row->request_rate > 0.0) {
        string_buffer_append_format(out, "\n%g requests per second asked, ", row->request_rate);
    } else {
        string_buffer_append_format(out, "\n%lld at once, ", (long long)row->concurrency);
    }
    string_buffer_append_format(out, "%lld requests in %.2f s", (long long)row->request_count, row->seconds);
    append_failures(row, out);
    string_buffer_append_format(
        out, "  %.2f requests/s, %.1f output tokens/s, %.1f tokens/s, at most %lld at once",
        bench_rate((double)row->completed_count, row->seconds),
        bench_rate((double)row->output_tokens, row->seconds),
        bench_rate((double)(row->prompt_tokens + row->output_tokens), row->seconds),
        (long long)row->concurrency_peak);
    if (has_goals(goals)) {
        string_buffer_append_format(out, ", goodput %.2f requests/s",
                                    bench_rate((double)row->good_count, row->seconds));
    }
    string_buffer_append_format(out, "\n  %-30s %10s %10s %10s %10s\n", "ms", "mean", "median", "p90", "p99");
    append_times("to the first token (TTFT)", &row->first_token, out);
    append_times("per token after it (TPOT)", &row->token, out);
    append_times("between pieces (ITL)", &row->gap, out);
    append_times("whole answer (E2E)", &row->total, out);
}

enum status bench_serve_text(const struct bench_serve_options *options,
                             const struct bench_serve_report *report, struct string_buffer *out) {
    const struct bench_serve_prompt_options *prompts = &options->prompts;
    string_buffer_append_format(out, "server   %s, model %s\n", string_buffer_text(&report->base_url),
                                string_buffer_text(&report->model));
    if (prompts->dataset_path != NULL) {
        string_buffer_append_format(out, "run      prompts of %s", prompts->dataset_path);
    } else {
        string_buffer_append_format(out, "run      prompts of %lld random tokens",
                                    (long long)prompts->input_tokens);
    }
    string_buffer_append_format(out, ", answers of %lld tokens at temperature %g, seed %llu\n",
                                (long long)prompts->output_tokens, prompts->temperature,
                                (unsigned long long)prompts->seed);
    for (int i = 0; i < report->row_count; i++) {
        append_row(&options->goals, &report->rows[i], out);
    }
    return string_buffer_check(out);
}

/* Milliseconds. */
static struct json *new_times(const struct bench_summary *summary) {
    struct json *object = json_new_object();
    bool is_complete = object != NULL && bench_set_real(object, "mean", 1e3 * summary->mean) &&
                       bench_set_real(object, "median", 1e3 * summary->median) &&
                       bench_set_real(object, "p90", 1e3 * summary->p90) &&
                       bench_set_real(object, "p99", 1e3 * summary->p99);
    if (!is_complete) {
        json_free(&object);
    }
    return object;
}

static struct json *new_failures(const struct bench_serve_row *row) {
    struct json *object = json_new_object();
    for (int i = 0; i < BENCH_SERVE_FAILURES && object != NULL; i++) {
        if (!bench_set_integer(object, bench_serve_failure_name((enum bench_serve_failure)i),
                               row->failures[i])) {
            json_free(&object);
        }
    }
    return object;
}

static bool set_rates(struct json *object, const struct bench_serve_goals *goals,
                      const struct bench_serve_row *row) {
    int64_t tokens = row->prompt_tokens + row->output_tokens;
    return bench_set_real(object, "duration_seconds", row->seconds) &&
           bench_set_real(object, "request_throughput",
                          bench_rate((double)row->completed_count, row->seconds)) &&
           bench_set_real(object, "output_throughput",
                          bench_rate((double)row->output_tokens, row->seconds)) &&
           bench_set_real(object, "total_token_throughput", bench_rate((double)tokens, row->seconds)) &&
           (!has_goals(goals) ||
            (bench_set_integer(object, "good", row->good_count) &&
             bench_set_real(object, "request_goodput", bench_rate((double)row->good_count, row->seconds))));
}

static struct json *new_row(const struct bench_serve_goals *goals, const struct bench_serve_row *row) {
    struct json *object = json_new_object();
    const char *error = string_buffer_text(&row->first_error);
    bool is_closed = row->request_rate <= 0.0;
    bool is_complete =
        object != NULL &&
        json_set(object, "concurrency", is_closed ? json_new_integer(row->concurrency) : json_new_null()) &&
        json_set(object, "request_rate", is_closed ? json_new_null() : json_new_real(row->request_rate)) &&
        bench_set_integer(object, "requests", row->request_count) &&
        bench_set_integer(object, "completed", row->completed_count) &&
        bench_set_integer(object, "failed", row->request_count - row->completed_count) &&
        json_set(object, "failures", new_failures(row)) &&
        json_set(object, "first_error",
                 error[0] == '\0' ? json_new_null() : json_new_string(error, row->first_error.length)) &&
        bench_set_integer(object, "prompt_tokens", row->prompt_tokens) &&
        bench_set_integer(object, "output_tokens", row->output_tokens) &&
        bench_set_integer(object, "concurrency_peak", row->concurrency_peak) &&
        set_rates(object, goals, row) && json_set(object, "ttft_ms", new_times(&row->first_token)) &&
        json_set(object, "tpot_ms", new_times(&row->token)) &&
        json_set(object, "itl_ms", new_times(&row->gap)) &&
        json_set(object, "e2el_ms", new_times(&row->total));
    if (!is_complete) {
        json_free(&object);
    }
    return object;
}

static struct json *new_rows(const struct bench_serve_options *options,
                             const struct bench_serve_report *report) {
    struct json *array = json_new_array();
    for (int i = 0; i < report->row_count && array != NULL; i++) {
        if (!json_append(array, new_row(&options->goals, &report->rows[i]))) {
            json_free(&array);
        }
    }
    return array;
}

enum status bench_serve_json(const struct bench_serve_options *options,
                             const struct bench_serve_report *report, struct string_buffer *out) {
    const struct bench_serve_prompt_options *prompts = &options->prompts;
    struct json *object = json_new_object();
    bool is_random = prompts->dataset_path == NULL;
    bool is_complete =
        object != NULL && bench_set_text(object, "base_url", string_buffer_text(&report->base_url)) &&
        bench_set_text(object, "model", string_buffer_text(&report->model)) &&
        bench_set_text(object, "endpoint", report->endpoint == BENCH_SERVE_CHAT ? "chat" : "completions") &&
        (is_random ? bench_set_integer(object, "input_tokens", prompts->input_tokens)
                   : bench_set_text(object, "dataset_path", prompts->dataset_path)) &&
        bench_set_integer(object, "max_tokens", prompts->output_tokens) &&
        bench_set_real(object, "temperature", prompts->temperature) &&
        bench_set_integer(object, "seed", (int64_t)prompts->seed) &&
        bench_set_integer(object, "warmup", options->warmup_count) &&
        json_set(object, "rows", new_rows(options, report));
    if (!is_complete) {
        json_free(&object);
    }
    return bench_write_line(object, out);
}
