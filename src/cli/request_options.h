/*
 * From command-line options to what requests are made with: sampling and the chat format. One place for all
 * commands that make requests.
 */
#ifndef SLUICE_CLI_REQUEST_OPTIONS_H
#define SLUICE_CLI_REQUEST_OPTIONS_H

#include "base/status.h"
#include "cli/option_table.h"
#include "server/generation_config.h"
#include "sluice/sampling.h"
#include "text/chat_encoder_v4.h"

struct cli_sampling {
    struct sluice_sampling sampling;
    struct sluice_logit_bias *logit_bias; /* what sampling points to */
};

/* The command line goes before the model's recommendation, that before the defaults. */
enum status cli_sampling_init(struct cli_sampling *sampling, const struct cli_options *options,
                              const struct generation_config *recommended);
void cli_sampling_deinit(struct cli_sampling *sampling);

/* Thinking and effort. */
struct chat_encode_options cli_chat_options(const struct cli_options *options);

#endif
