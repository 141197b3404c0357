/* From command-line options to what a front is opened with. */
#ifndef SLUICE_CLI_SERVE_OPTIONS_H
#define SLUICE_CLI_SERVE_OPTIONS_H

#include "base/arena.h"
#include "base/string_buffer.h"
#include "cli/option_table.h"
#include "server/front.h"

enum { SERVE_NAMES_MAX = 256 };

/* The front's options and what they borrow besides the command line. */
struct serve_options {
    struct front_options front;
    struct arena arena;
    struct string_buffer key_file;
    const char *model_names[OPTION_LIST_MAX];
    const char *keys[SERVE_NAMES_MAX];
    const char *origins[SERVE_NAMES_MAX];
};

/*
 * Fills in all but the service and the tokenizer. USAGE for what does not fit together. `out` must stay where
 * it is. Owned, also after a failure: serve_options_deinit.
 */
enum status serve_options_read(const struct cli_options *options, const char *version,
                               struct serve_options *out);
void serve_options_deinit(struct serve_options *options);

#endif
