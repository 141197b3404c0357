/* The results of `sluice kernelcheck` as text for people and as JSON for programs. */
#ifndef SLUICE_CLI_KERNELCHECK_REPORT_H
#define SLUICE_CLI_KERNELCHECK_REPORT_H

#include "base/status.h"
#include "base/string_buffer.h"
#include "kernelcheck/kernel_bench.h"
#include "kernelcheck/kernelcheck.h"

/* Appends one line per kernel, the failures in words, and a sum. */
enum status kernelcheck_report_text(const struct kernelcheck_result *result, struct string_buffer *out);

/*
 * Appends one JSON object and a newline: {"features", "seed", "failed", "kernels": [{"name", "operation",
 * "arithmetic", "features", "verdict", "cases", "failures", "message"}]}.
 */
enum status kernelcheck_report_json(const struct kernelcheck_result *result, unsigned features, uint64_t seed,
                                    struct string_buffer *out);

/* The limits and the head of a table of timings, and one line of it. */
void kernel_timing_head(const struct roofline *roofline, struct string_buffer *out);
void kernel_timing_line(const struct kernel_timing *timing, struct string_buffer *out);

/*
 * JSON of a benchmark, in pieces: the object's start with the limits, one timing after the other, its end.
 * Text instead of a tree, so that a run that is cut short has told what it knew.
 */
void kernel_timing_json_head(const struct roofline *roofline, unsigned features, struct string_buffer *out);
void kernel_timing_json_line(const struct kernel_timing *timing, bool is_first, struct string_buffer *out);
void kernel_timing_json_end(struct string_buffer *out);

#endif
