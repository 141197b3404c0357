/* Rates are of the median time; the fastest run gives the largest rate. */
#include "tools/bench_report.h"

#include "tools/bench_report_parts.h"

static size_t state_bytes(const struct bench_report *report) {
    return report->facts.memory.slot_state_bytes + report->facts.memory.page_state_bytes;
}

static double bandwidth_fraction(const struct bench_measure *measure) {
    return bench_fraction(measure->bandwidth_floor_seconds, measure->seconds.median);
}

static double flop_fraction(const struct bench_measure *measure) {
    return bench_fraction(measure->flop_floor_seconds, measure->seconds.median);
}

/* Both are needed, so that the later one decides. */
static double floor_seconds(const struct bench_measure *measure) {
    return measure->bandwidth_floor_seconds > measure->flop_floor_seconds ? measure->bandwidth_floor_seconds
                                                                          : measure->flop_floor_seconds;
}

static void append_machine(const struct roofline *limits, unsigned thread_count, unsigned cpu_features,
                           struct string_buffer *out) {
    bench_append_machine(thread_count, cpu_features, out);
    string_buffer_append_format(out, "limits   reads %.1f GB/s, f32 %.0f GFLOP/s, bf16 %.0f GFLOP/s\n",
                                limits->read_bytes_per_second / 1e9, limits->f32_flops_per_second / 1e9,
                                limits->bf16_flops_per_second / 1e9);
}

enum status bench_limits_text(const struct roofline *limits, unsigned thread_count, unsigned cpu_features,
                              struct string_buffer *out) {
    append_machine(limits, thread_count, cpu_features, out);
    return string_buffer_check(out);
}

static void append_row(const struct bench_row *row, struct string_buffer *out) {
    const struct bench_measure *prefill = &row->prefill;
    const struct bench_measure *decode = &row->decode;
    double prompt = (double)row->prompt_tokens;
    double batch = (double)row->batch;
    string_buffer_append_format(out, "%8lld %6lld ", (long long)row->prompt_tokens, (long long)row->batch);
    string_buffer_append_format(out, "%10.1f %9.1f %9.1f %6.1f%% ",
                                bench_rate(prompt, prefill->seconds.median),
                                bench_rate(prompt, prefill->seconds.maximum),
                                bench_rate(prompt, prefill->seconds.minimum), 100.0 * flop_fraction(prefill));
    string_buffer_append_format(out, "%10.2f %9.2f %9.2f ", bench_rate(batch, decode->seconds.median),
                                bench_rate(batch, decode->seconds.maximum),
                                bench_rate(batch, decode->seconds.minimum));
    string_buffer_append_format(out, "%9.2f %9.2f %9.1f %8.1f%% %6.1f%%\n", decode->seconds.median * 1e3,
                                floor_seconds(decode) * 1e3, decode->work.bytes / 1e6,
                                100.0 * bandwidth_fraction(decode), 100.0 * flop_fraction(decode));
}

enum status bench_report_text(const struct bench_report *report, struct string_buffer *out) {
    string_buffer_append_format(out, "model    %s: %s\n", string_buffer_text(&report->model_directory),
                                string_buffer_text(&report->model_description));
    append_machine(&report->limits, report->thread_count, report->cpu_features, out);
    string_buffer_append_format(out,
                                "run      steps of up to %d prompt tokens, %lld tokens decoded, median (and "
                                "slowest, fastest) of %d\n",
                                report->chunk_tokens, (long long)report->gen_tokens, report->repeats);
    size_t peak = report->row_count > 0 ? report->rows[report->row_count - 1].peak_resident_bytes : 0;
    string_buffer_append_format(out, "loaded   in %.3f s; %.1f MB of state; peak memory %.0f MB",
                                report->facts.load_seconds, (double)state_bytes(report) / 1e6,
                                (double)peak / 1e6);
    if (report->facts.memory.mapped_weight_bytes > 0) {
        string_buffer_append_format(out, "; %.0f %% of mapped files in large pages",
                                    100.0 * report->large_page_fraction);
    }
    string_buffer_append_text(out, "\n\n");
    if (report->tensor > 1) {
        string_buffer_append_format(out, "ranks    %d, which share the threads\n\n", report->tensor);
    }
    string_buffer_append_format(out, "%8s %6s %10s %9s %9s %7s %10s %9s %9s %9s %9s %9s %9s %7s\n", "prompt",
                                "batch", "prefill/s", "min", "max", "flops", "decode/s", "min", "max",
                                "ms/step", "floor ms", "MB/step", "bandwidth", "flops");
    for (int i = 0; i < report->row_count; i++) {
        append_row(&report->rows[i], out);
    }
    return string_buffer_check(out);
}

static struct json *new_sent(const struct bench_sent *sent) {
    struct json *object = json_new_object();
    bool is_complete = object != NULL && bench_set_real(object, "sums", sent->sums) &&
                       bench_set_real(object, "gathers", sent->gathers) &&
                       bench_set_real(object, "exchanges", sent->exchanges);
    if (!is_complete) {
        json_free(&object);
    }
    return object;
}

/* `tokens` are done in the measured time. */
static struct json *new_measure(const struct bench_measure *measure, double tokens) {
    struct json *object = json_new_object();
    bool is_complete =
        object != NULL && bench_set_real(object, "seconds", measure->seconds.median) &&
        bench_set_real(object, "min_seconds", measure->seconds.minimum) &&
        bench_set_real(object, "max_seconds", measure->seconds.maximum) &&
        bench_set_real(object, "tokens_per_second", bench_rate(tokens, measure->seconds.median)) &&
        bench_set_real(object, "min_tokens_per_second", bench_rate(tokens, measure->seconds.maximum)) &&
        bench_set_real(object, "max_tokens_per_second", bench_rate(tokens, measure->seconds.minimum)) &&
        bench_set_real(object, "bytes", measure->work.bytes) &&
        bench_set_real(object, "operations", measure->work.operations) &&
        json_set(object, "sent_bytes", new_sent(&measure->sent)) &&
        bench_set_real(object, "read_bytes_per_second", measure->read_bytes_per_second) &&
        bench_set_real(object, "bandwidth_floor_seconds", measure->bandwidth_floor_seconds) &&
        bench_set_real(object, "flop_floor_seconds", measure->flop_floor_seconds) &&
        bench_set_real(object, "floor_seconds", floor_seconds(measure)) &&
        bench_set_real(object, "bandwidth_fraction", bandwidth_fraction(measure)) &&
        bench_set_real(object, "flop_fraction", flop_fraction(measure));
    if (!is_complete) {
        json_free(&object);
    }
    return object;
}

static struct json *new_row(const struct bench_report *report, const struct bench_row *row) {
    struct json *object = json_new_object();
    double prompt = (double)row->prompt_tokens;
    double batch = (double)row->batch;
    bool is_complete =
        object != NULL && bench_set_integer(object, "prompt_tokens", row->prompt_tokens) &&
        bench_set_integer(object, "context", row->prompt_tokens) &&
        bench_set_integer(object, "batch", row->batch) &&
        bench_set_integer(object, "threads", report->thread_count) &&
        bench_set_real(object, "prefill_tokens_per_second",
                       bench_rate(prompt, row->prefill.seconds.median)) &&
        bench_set_real(object, "decode_tokens_per_second", bench_rate(batch, row->decode.seconds.median)) &&
        bench_set_real(object, "bytes_per_step", row->decode.work.bytes) &&
        bench_set_real(object, "floor_seconds", floor_seconds(&row->decode)) &&
        bench_set_real(object, "bandwidth_fraction", bandwidth_fraction(&row->decode)) &&
        bench_set_real(object, "flop_fraction", flop_fraction(&row->prefill)) &&
        bench_set_integer(object, "peak_rss_bytes", (int64_t)row->peak_resident_bytes) &&
        bench_set_real(object, "load_seconds", report->facts.load_seconds) &&
        json_set(object, "prefill", new_measure(&row->prefill, prompt)) &&
        json_set(object, "decode", new_measure(&row->decode, batch));
    if (!is_complete) {
        json_free(&object);
    }
    return object;
}

static struct json *new_machine(const struct roofline *limits, unsigned thread_count, unsigned cpu_features) {
    struct json *object = bench_new_machine(thread_count, cpu_features);
    bool is_complete = object != NULL &&
                       bench_set_real(object, "read_bytes_per_second", limits->read_bytes_per_second) &&
                       bench_set_real(object, "f32_flops_per_second", limits->f32_flops_per_second) &&
                       bench_set_real(object, "bf16_flops_per_second", limits->bf16_flops_per_second);
    if (!is_complete) {
        json_free(&object);
    }
    return object;
}

static struct json *new_rows(const struct bench_report *report) {
    struct json *array = json_new_array();
    for (int i = 0; i < report->row_count && array != NULL; i++) {
        if (!json_append(array, new_row(report, &report->rows[i]))) {
            json_free(&array);
        }
    }
    return array;
}

static struct json *new_report(const struct bench_report *report) {
    struct json *object = json_new_object();
    bool is_complete =
        object != NULL && bench_set_text(object, "model", string_buffer_text(&report->model_directory)) &&
        bench_set_text(object, "description", string_buffer_text(&report->model_description)) &&
        json_set(object, "machine",
                 new_machine(&report->limits, report->thread_count, report->cpu_features)) &&
        bench_set_real(object, "peak_flops_per_second", report->peak_flops) &&
        bench_set_integer(object, "tensor_parallel", report->tensor) &&
        bench_set_integer(object, "chunk_tokens", report->chunk_tokens) &&
        bench_set_integer(object, "gen_tokens", report->gen_tokens) &&
        bench_set_integer(object, "repeats", report->repeats) &&
        bench_set_real(object, "load_seconds", report->facts.load_seconds) &&
        bench_set_integer(object, "state_bytes", (int64_t)state_bytes(report)) &&
        bench_set_integer(object, "mapped_bytes", (int64_t)report->facts.memory.mapped_weight_bytes) &&
        bench_set_real(object, "large_page_fraction", report->large_page_fraction) &&
        bench_set_integer(object, "copied_bytes", (int64_t)report->facts.memory.copied_weight_bytes) &&
        json_set(object, "rows", new_rows(report));
    if (!is_complete) {
        json_free(&object);
    }
    return object;
}

enum status bench_report_json(const struct bench_report *report, struct string_buffer *out) {
    return bench_write_line(new_report(report), out);
}

enum status bench_limits_json(const struct roofline *limits, unsigned thread_count, unsigned cpu_features,
                              struct string_buffer *out) {
    return bench_write_line(new_machine(limits, thread_count, cpu_features), out);
}
