/*
 * `--config FILE`: options in a file (lib/yaml.h), under their names, as vLLM takes them. Those of the
 * command line go before them.
 */
#ifndef SLUICE_CLI_CONFIG_FILE_H
#define SLUICE_CLI_CONFIG_FILE_H

#include "base/arena.h"
#include "base/options.h"

/*
 * Reads the file that the arguments name; without one there are no settings. With `takes_foreign` options of
 * other engines (cli/foreign_options.h) are left out with a warning. Texts lie in the arena. Errors name file
 * and line.
 */
enum status config_file_read(int argc, char **argv, bool takes_foreign, struct arena *arena,
                             struct option_settings *out);

#endif
