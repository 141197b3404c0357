/* `sluice synth`: a checkpoint of pseudo-random weights for a configuration. */
#include <stdio.h>

#include "base/worker_pool.h"
#include "cli/commands.h"
#include "tools/synth.h"

enum status command_synth(const struct cli_options *options, int word_count, char **words) {
    (void)word_count;
    (void)words;
    CHECK(options->config != NULL, STATUS_USAGE,
          "--config is missing: the config.json that says what to write");
    CHECK(options->out != NULL, STATUS_USAGE, "--out is missing: the directory to write the checkpoint to");
    const struct synth_request request = {
        .config_path = options->config,
        .directory = options->out,
        .shard_bytes = (size_t)options->shard_bytes,
        .thread_count = options->threads > 0 ? (unsigned)options->threads : worker_pool_cores_allowed(),
    };
    TRY(synth_write_model(&request));
    printf("%s\n", options->out);
    return STATUS_OK;
}
