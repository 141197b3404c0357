/* Load on a server as text, as JSON and as a picture. */
#ifndef SLUICE_TOOLS_BENCH_SERVE_REPORT_H
#define SLUICE_TOOLS_BENCH_SERVE_REPORT_H

#include "tools/bench_serve.h"

enum status bench_serve_text(const struct bench_serve_options *options,
                             const struct bench_serve_report *report, struct string_buffer *out);

/* Appends one JSON object and a newline. Keys are stable: later versions may add some. */
enum status bench_serve_json(const struct bench_serve_options *options,
                             const struct bench_serve_report *report, struct string_buffer *out);

/*
 * Appends an SVG document: output tokens per second, and the times to the first token and per token, over
 * concurrency, or over the rate if there are levels of an open loop only.
 */
enum status bench_serve_plot(const struct bench_serve_report *report, struct string_buffer *out);

#endif
