/* What the reports of all benchmarks are made of. */
#ifndef SLUICE_TOOLS_BENCH_REPORT_PARTS_H
#define SLUICE_TOOLS_BENCH_REPORT_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "lib/json.h"

/* Pairs of a JSON object under construction; false once memory is out. */
bool bench_set_real(struct json *object, const char *key, double value);
bool bench_set_integer(struct json *object, const char *key, int64_t value);
bool bench_set_text(struct json *object, const char *key, const char *text);

/* Appends the object as a line and frees it; NULL means that memory was out. */
enum status bench_write_line(struct json *object, struct string_buffer *out);

/* The machine in a line; `cpu_features` is the highest set that kernels use. */
void bench_append_machine(unsigned thread_count, unsigned cpu_features, struct string_buffer *out);

/* The same with keys "cpu", "threads" and "cpu_features"; NULL: memory was out. Owned. */
struct json *bench_new_machine(unsigned thread_count, unsigned cpu_features);

#endif
