/*
 * From command-line options to what the engine is opened with; one place for all commands that open one.
 */
#ifndef SLUICE_CLI_ENGINE_OPTIONS_H
#define SLUICE_CLI_ENGINE_OPTIONS_H

#include "cli/option_table.h"
#include "sluice/engine.h"

enum { CLI_DRAFT_SCHEDULE_MAX = 64 };

/* The engine's options and what they borrow besides the command line. */
struct cli_engine_options {
    struct sluice_engine_options engine;
    struct sluice_draft_schedule_row schedule[CLI_DRAFT_SCHEDULE_MAX];
};

/*
 * Fills in what the options say: device, numerics, threads, sizes, memory, prefix cache, drafts. Without
 * --speculative-config `default_drafts` holds. `out` must stay where it is while the engine is opened.
 */
enum status cli_engine_options_read(const struct cli_options *options, int default_drafts,
                                    struct cli_engine_options *out);

#endif
