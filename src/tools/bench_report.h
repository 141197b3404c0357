/* A benchmark as text for people and as JSON for programs. */
#ifndef SLUICE_TOOLS_BENCH_REPORT_H
#define SLUICE_TOOLS_BENCH_REPORT_H

#include "base/status.h"
#include "base/string_buffer.h"
#include "tools/bench.h"

enum status bench_report_text(const struct bench_report *report, struct string_buffer *out);

/*
 * Appends one JSON object and a newline. Keys are stable: later versions may add some. Of a row,
 * bandwidth_fraction and bytes_per_step are those of decoding, flop_fraction is that of prefill; the objects
 * "prefill" and "decode" have all numbers of each.
 */
enum status bench_report_json(const struct bench_report *report, struct string_buffer *out);

/* The machine's limits alone. */
enum status bench_limits_text(const struct roofline *limits, unsigned thread_count, unsigned cpu_features,
                              struct string_buffer *out);
enum status bench_limits_json(const struct roofline *limits, unsigned thread_count, unsigned cpu_features,
                              struct string_buffer *out);

#endif
