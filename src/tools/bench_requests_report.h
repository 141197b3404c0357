/* The benchmark of requests as text, as JSON and as a picture. */
#ifndef SLUICE_TOOLS_BENCH_REQUESTS_REPORT_H
#define SLUICE_TOOLS_BENCH_REQUESTS_REPORT_H

#include "base/status.h"
#include "base/string_buffer.h"
#include "tools/bench_requests.h"

enum status bench_requests_text(const struct bench_requests_options *options,
                                const struct bench_requests_report *report, struct string_buffer *out);

/*
 * Appends one JSON object and a newline. Keys are stable: later versions may add some. "rows" has one object
 * per concurrency and draft setting; lists of drafts are by draft position, as long as the setting's limit.
 */
enum status bench_requests_json(const struct bench_requests_options *options,
                                const struct bench_requests_report *report, struct string_buffer *out);

/* Appends an SVG document: tokens per second over concurrency, one line per setting. */
enum status bench_requests_plot(const struct bench_requests_report *report, struct string_buffer *out);

#endif
