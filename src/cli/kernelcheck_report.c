/* Tables and JSON. Names of kernels are plain ASCII, so JSON needs no escaping where it is written as text.
 */
#include "cli/kernelcheck_report.h"

#include <string.h>

#include "backends/cpu/cpu_features.h"
#include "lib/json.h"

enum status kernelcheck_report_text(const struct kernelcheck_result *result, struct string_buffer *out) {
    size_t counts[KERNEL_UNCHECKED + 1] = {0};
    string_buffer_append_format(out, "%-40s %-34s %-12s %6s  %s\n", "kernel", "arithmetic", "features",
                                "cases", "verdict");
    for (size_t i = 0; i < result->entry_count; i++) {
        const struct kernelcheck_entry *entry = &result->entries[i];
        counts[entry->verdict]++;
        string_buffer_append_format(out, "%-40s %-34s %-12s %6zu  %s\n", entry->entry->name,
                                    entry->entry->arithmetic, cpu_features_name(entry->entry->features),
                                    entry->case_count, kernel_verdict_name(entry->verdict));
    }
    for (size_t i = 0; i < result->entry_count; i++) {
        const struct kernelcheck_entry *entry = &result->entries[i];
        if (entry->verdict == KERNEL_FAILED) {
            string_buffer_append_format(out, "\n%s: %zu failed check%s, the first:\n  %s\n",
                                        entry->entry->name, entry->failure_count,
                                        entry->failure_count == 1 ? "" : "s", entry->message);
        } else if (entry->verdict == KERNEL_UNCHECKED) {
            string_buffer_append_format(out, "\n%s: no case has arguments that it can run\n",
                                        entry->entry->name);
        }
    }
    string_buffer_append_format(
        out, "\n%zu kernels: %zu passed, %zu failed, %zu without a case, %zu not run\n", result->entry_count,
        counts[KERNEL_PASSED], counts[KERNEL_FAILED], counts[KERNEL_UNCHECKED], counts[KERNEL_NOT_RUN]);
    return string_buffer_check(out);
}

static struct json *text_of(const char *text) {
    return json_new_string(text, strlen(text));
}

static bool append_kernel(struct json *kernels, const struct kernelcheck_entry *entry) {
    struct json *object = json_new_object();
    if (!json_append(kernels, object)) {
        return false;
    }
    bool is_set = json_set(object, "name", text_of(entry->entry->name));
    is_set = json_set(object, "operation", text_of(op_name(entry->entry->op))) && is_set;
    is_set = json_set(object, "arithmetic", text_of(entry->entry->arithmetic)) && is_set;
    is_set = json_set(object, "features", text_of(cpu_features_name(entry->entry->features))) && is_set;
    is_set = json_set(object, "verdict", text_of(kernel_verdict_name(entry->verdict))) && is_set;
    is_set = json_set(object, "cases", json_new_integer((int64_t)entry->case_count)) && is_set;
    is_set = json_set(object, "failures", json_new_integer((int64_t)entry->failure_count)) && is_set;
    return json_set(object, "message", text_of(entry->message)) && is_set;
}

enum status kernelcheck_report_json(const struct kernelcheck_result *result, unsigned features, uint64_t seed,
                                    struct string_buffer *out) {
    enum status status = STATUS_OK;
    struct json *root = json_new_object();
    struct json *kernels = json_new_array();
    CHECK_MEMORY_GOTO(root);
    bool is_set = json_set(root, "features", text_of(cpu_features_name(features)));
    is_set = json_set(root, "seed", json_new_integer((int64_t)seed)) && is_set;
    is_set = json_set(root, "failed", json_new_integer((int64_t)result->failed_count)) && is_set;
    is_set = json_set(root, "kernels", kernels) && is_set;
    for (size_t i = 0; is_set && i < result->entry_count; i++) {
        is_set = append_kernel(kernels, &result->entries[i]);
    }
    CHECK_MEMORY_GOTO(is_set ? root : NULL);
    TRY_GOTO(json_write(root, out));
    string_buffer_append_char(out, '\n');
    TRY_GOTO(string_buffer_check(out));
fail:
    json_free(&root);
    return status;
}

void kernel_timing_head(const struct roofline *roofline, struct string_buffer *out) {
    string_buffer_append_format(out, "limits: %.1f GB/s read, %.0f GFLOP/s f32, %.0f GFLOP/s bf16\n\n",
                                roofline->read_bytes_per_second / 1e9, roofline->f32_flops_per_second / 1e9,
                                roofline->bf16_flops_per_second / 1e9);
    string_buffer_append_format(out, "%-38s %-7s %-14s %-7s %5s %11s %8s %9s %6s\n", "kernel", "mode",
                                "shape", "load", "rows", "us", "GB/s", "GFLOP/s", "limit");
}

void kernel_timing_line(const struct kernel_timing *timing, struct string_buffer *out) {
    string_buffer_append_format(out, "%-38s %-7s %-14s %-7s %5lld %11.1f %8.2f", timing->entry->name,
                                numerics_name(timing->numerics), timing->label,
                                timing->is_prefill ? "prefill" : "decode", (long long)timing->rows,
                                timing->seconds * 1e6, timing->bytes / timing->seconds / 1e9);
    if (timing->operations > 0.0) {
        string_buffer_append_format(out, " %9.1f", timing->operations / timing->seconds / 1e9);
    } else {
        string_buffer_append_format(out, " %9s", "-");
    }
    if (timing->limit_seconds > 0.0) {
        string_buffer_append_format(out, " %5.0f%%", 100.0 * timing->limit_seconds / timing->seconds);
    }
    string_buffer_append_char(out, '\n');
}

void kernel_timing_json_head(const struct roofline *roofline, unsigned features, struct string_buffer *out) {
    string_buffer_append_format(
        out,
        "{\"features\":\"%s\",\"read_bytes_per_second\":%.4g,\"f32_flops_per_second\":%.4g,"
        "\"bf16_flops_per_second\":%.4g,\"timings\":[",
        cpu_features_name(features), roofline->read_bytes_per_second, roofline->f32_flops_per_second,
        roofline->bf16_flops_per_second);
}

void kernel_timing_json_line(const struct kernel_timing *timing, bool is_first, struct string_buffer *out) {
    string_buffer_append_format(
        out,
        "%s\n{\"name\":\"%s\",\"numerics\":\"%s\",\"shape\":\"%s\",\"is_prefill\":%s,\"rows\":%lld,"
        "\"is_cold\":%s,\"seconds\":%.6g,\"bytes\":%.0f,\"operations\":%.0f,\"limit_seconds\":%.6g}",
        is_first ? "" : ",", timing->entry->name, numerics_name(timing->numerics), timing->label,
        timing->is_prefill ? "true" : "false", (long long)timing->rows, timing->is_cold ? "true" : "false",
        timing->seconds, timing->bytes, timing->operations, timing->limit_seconds);
}

void kernel_timing_json_end(struct string_buffer *out) {
    string_buffer_append_text(out, "]}\n");
}
