/*
 * Responses that clients may ask for again: their JSON, and the conversation that they continue.
 *
 * Limited in bytes (the least recently used go first) and in age. Any thread.
 */
#ifndef SLUICE_SERVER_RESPONSE_STORE_H
#define SLUICE_SERVER_RESPONSE_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/string_buffer.h"

struct response_store;

enum status response_store_create(size_t byte_limit, double seconds, struct response_store **out);

/* Frees and nulls; NULL inside is allowed. */
void response_store_destroy(struct response_store **store);

/*
 * Keeps copies under the id, in place of what was there. `conversation`: chat messages as JSON, without the
 * brackets around them. What does not fit the limit is not kept.
 */
enum status response_store_put(struct response_store *store, const char *id, const struct string_buffer *body,
                               const struct string_buffer *conversation);

/* Appends copies; either may be NULL. False if there is no such response (any more). */
bool response_store_get(struct response_store *store, const char *id, struct string_buffer *body,
                        struct string_buffer *conversation);

/* False if there is none. */
bool response_store_delete(struct response_store *store, const char *id);

size_t response_store_bytes(struct response_store *store);

#endif
