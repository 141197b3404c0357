/* What a server starts its workers with. */
#ifndef SLUICE_CLI_WORKER_ARGUMENTS_H
#define SLUICE_CLI_WORKER_ARGUMENTS_H

#include "base/arena.h"
#include "cli/option_table.h"

enum { WORKER_ARGUMENTS_MAX = 128 };

/*
 * Fills `words` with the words of `sluice worker` that open the engine `serve` was asked for, NULL at the
 * end: of all replicas if they share experts, else of one, which has its part of the cores if they may use
 * all. Texts lie in the arena and in the options.
 */
enum status worker_arguments_write(const struct cli_options *options, struct arena *arena,
                                   const char *words[WORKER_ARGUMENTS_MAX]);

#endif
