/*
 * The commands of the program, one file each (command_<name>.c).
 *
 * A command gets its checked options and the words that were no options. It prints its result on stdout and
 * nothing else; on failure it leaves the error record, which main prints.
 */
#ifndef SLUICE_CLI_COMMANDS_H
#define SLUICE_CLI_COMMANDS_H

#include "base/status.h"
#include "cli/option_table.h"

/* Prompt in, text out. */
enum status command_generate(const struct cli_options *options, int word_count, char **words);

/* A conversation in the terminal. */
enum status command_chat(const struct cli_options *options, int word_count, char **words);

/* Text to token ids and back. */
enum status command_tokenize(const struct cli_options *options, int word_count, char **words);

/* What a checkpoint holds. */
enum status command_inspect(const struct cli_options *options, int word_count, char **words);

/* Writes a checkpoint of random weights. */
enum status command_synth(const struct cli_options *options, int word_count, char **words);

/* How fast a checkpoint runs here, beside the machine's limits. */
enum status command_bench(const struct cli_options *options, int word_count, char **words);

/* How fast a server answers under load. */
enum status command_bench_serve(const struct cli_options *options, int word_count, char **words);

/* How well a model answers. */
enum status command_eval(const struct cli_options *options, int word_count, char **words);

/* What a layout would hold, send and do, without weights. */
enum status command_plan(const struct cli_options *options, int word_count, char **words);

/* A server of the APIs that clients speak, over workers that run the model. */
enum status command_serve(const struct cli_options *options, int word_count, char **words);

/* The engine behind a server's front, as a process of its own. */
enum status command_worker(const struct cli_options *options, int word_count, char **words);

/* Every kernel against the reference. */
enum status command_kernelcheck(const struct cli_options *options, int word_count, char **words);

#endif
