/*
 * A benchmark as a picture: time of a decode step over the context, time of prefill over the prompt.
 *
 * One SVG document without scripts or fonts of its own, readable on light and dark backgrounds. Measured
 * times are drawn as lines from the fastest to the slowest repeat through the median, floors are dashed.
 */
#ifndef SLUICE_TOOLS_BENCH_PLOT_H
#define SLUICE_TOOLS_BENCH_PLOT_H

#include "base/status.h"
#include "base/string_buffer.h"
#include "tools/bench.h"

/* Appends the document. BAD_ARGUMENT if the report has no rows. */
enum status bench_plot_svg(const struct bench_report *report, struct string_buffer *out);

#endif
