/*
 * The rows of the command line's options, by what they are about (option_table.h). Only for the files that
 * have these rows and for the table that joins them.
 */
#ifndef SLUICE_CLI_OPTION_GROUPS_H
#define SLUICE_CLI_OPTION_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/options.h"
#include "cli/option_table.h"

/* Commands that take the same options. */
enum {
    ALL = CLI_GENERATE | CLI_TOKENIZE | CLI_INSPECT | CLI_SYNTH | CLI_BENCH | CLI_KERNELCHECK | CLI_CHAT |
          CLI_PLAN | CLI_SERVE | CLI_WORKER | CLI_BENCH_SERVE | CLI_EVAL,
    ASKING = CLI_BENCH_SERVE | CLI_EVAL,                              /* commands that may ask a server */
    SERVED = CLI_SERVE | CLI_WORKER,                                  /* serve says it, its workers do it */
    ENGINE = CLI_GENERATE | CLI_BENCH | CLI_CHAT | CLI_EVAL | SERVED, /* commands that open an engine */
    RANKS = ENGINE, /* of them, those that may run on several ranks */
};

#define FIELD(name) .offset = offsetof(struct cli_options, name), .given_offset = SIZE_MAX
#define FIELD_AND_GIVEN(name) \
    .offset = offsetof(struct cli_options, name), .given_offset = offsetof(struct cli_options, name##_given)

#define OPTION_GROUP(heading, array) \
    { .title = (heading), .rows = (array), .row_count = sizeof(array) / sizeof(array)[0] }

extern const struct option_group cli_file_options;
extern const struct option_group cli_prompt_options;
extern const struct option_group cli_answer_options;
extern const struct option_group cli_output_options;
extern const struct option_group cli_bench_options;
extern const struct option_group cli_load_options;
extern const struct option_group cli_evaluation_options;
extern const struct option_group cli_check_options;
extern const struct option_group cli_conversation_options;
extern const struct option_group cli_layout_options;
extern const struct option_group cli_server_options;
extern const struct option_group cli_engine_options;
extern const struct option_group cli_general_options;

#endif
