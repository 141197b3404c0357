/* Tokens of an answer or prompt with their log-probabilities, until they are reported. One thread at a time.
 */
#ifndef SLUICE_SERVER_TOKEN_RECORDS_H
#define SLUICE_SERVER_TOKEN_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "server/service.h"

struct token_record {
    int32_t id;
    bool has_log_probability;
    double log_probability;
    size_t top_start, top_count; /* of `tops` */
};

struct token_records {
    struct token_record *items;
    size_t count, capacity;
    struct sluice_log_probability *tops;
    size_t top_count, top_capacity;
};

/* Frees all; a zeroed struct is empty. */
void token_records_deinit(struct token_records *records);

/* Empties and keeps the memory. */
void token_records_clear(struct token_records *records);

enum status token_records_append(struct token_records *records, const struct service_token *token,
                                 bool has_log_probability);

#endif
