/* The JSON object of `sluice generate --json` (field names are stable). */
#ifndef SLUICE_CLI_GENERATE_JSON_H
#define SLUICE_CLI_GENERATE_JSON_H

#include "cli/generate_output.h"

/* Appends {"token", "token_id", "logprob", "top_logprobs": [...]}; `tokenizer` NULL leaves "token" null. */
enum status generate_json_add_log_probabilities(struct json *list, const struct tokenizer *tokenizer,
                                                const struct sluice_log_probability *chosen,
                                                const struct sluice_log_probability *top, size_t top_count);

/* Prints the whole object as one line. Takes the output's log-probabilities. */
enum status generate_json_print(struct generate_output *output, enum finish_reason reason,
                                const struct generate_timings *timings);

#endif
