/* What the benchmarks behind `sluice bench` share. */
#ifndef SLUICE_CLI_BENCH_COMMAND_H
#define SLUICE_CLI_BENCH_COMMAND_H

#include "base/status.h"
#include "base/string_buffer.h"
#include "cli/option_table.h"
#include "tools/bench_numbers.h"

/* `sluice bench --concurrency`: requests through the engine's public interface. */
enum status command_bench_requests(const struct cli_options *options);

/* Adds numbers from text like "128,512" in ascending order, each once; NULL adds none. */
enum status bench_command_parse_numbers(const char *text, const char *option, struct bench_numbers *out);

/* Writes the text to a new file. */
enum status bench_command_write_file(const char *path, const struct string_buffer *text);

/* Writes the text to standard output. */
enum status bench_command_print(const struct string_buffer *text);

#endif
