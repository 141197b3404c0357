/*
 * Keys that let clients in. What is kept are digests under a secret of this process; comparing takes the same
 * time for every key, right or wrong. Any thread.
 */
#ifndef SLUICE_SERVER_ACCESS_KEYS_H
#define SLUICE_SERVER_ACCESS_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct access_keys;

/* USAGE for an empty key, or one with blanks, which no header can carry. Owned: access_keys_destroy. */
enum status access_keys_create(const char *const *keys, size_t count, struct access_keys **out);
void access_keys_destroy(struct access_keys **keys);

/* Whether "Authorization: Bearer KEY" or "x-api-key: KEY" carries one of the keys; NULL: no such header. */
bool access_keys_admit(const struct access_keys *keys, const char *authorization, const char *api_key);

#endif
