/*
 * What `sluice generate` was asked for, worked out from options, files and the model's recommendations.
 */
#ifndef SLUICE_CLI_GENERATE_REQUEST_H
#define SLUICE_CLI_GENERATE_REQUEST_H

#include <stdbool.h>

#include "cli/answer_grammar.h"
#include "cli/option_table.h"
#include "cli/request_options.h"
#include "server/generation_config.h"
#include "sluice/request.h"
#include "text/token_list.h"
#include "text/tokenizer.h"

struct generate_request {
    const struct cli_options *options; /* borrowed */
    struct tokenizer *tokenizer;       /* NULL: the model has none, the prompt came as ids */
    struct token_list prompt;
    struct cli_sampling sampling;
    struct generation_config recommended;
    struct answer_grammar grammar;
    bool is_chat;
    bool starts_in_reasoning; /* the prompt ends inside the model's thinking */
};

/* Checks the options against each other, loads the tokenizer and encodes the prompt. */
enum status generate_request_init(struct generate_request *request, const struct cli_options *options);

void generate_request_deinit(struct generate_request *request);

/* What the request needs of the engine beside what the options say: room for it, and nothing for others. */
void generate_request_settle_engine(const struct generate_request *request,
                                    struct sluice_engine_options *engine);

/* The request as the engine takes it; borrows from this one. */
struct sluice_request_options generate_request_options(const struct generate_request *request);

#endif
