/* The server that bench serve and eval ask, by their options. */
#ifndef SLUICE_CLI_CLI_SERVER_H
#define SLUICE_CLI_CLI_SERVER_H

#include "base/string_buffer.h"
#include "cli/option_table.h"
#include "tools/api_client.h"

/*
 * Fills in address, model, key and timeout; `key` keeps a key from a file and must live as long as *out. The
 * key is --api-key, else the first of --api-key-file, else the environment's OPENAI_API_KEY, as clients do.
 */
enum status cli_server_read(const struct cli_options *options, struct string_buffer *key,
                            struct api_client_options *out);

#endif
