/*
 * Hashes of bytes in memory, behind the hash libraries (xxhash, libcrypto). Any thread.
 */
#ifndef SLUICE_LIB_HASH_H
#define SLUICE_LIB_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { HASH_SHA256_BYTES = 32 };

struct hash128 {
    uint64_t low, high;
};

/*
 * XXH3 of 128 bits: fast, and with a random seed hard to collide by accident. Not by intent: whoever relies
 * on equality compares what was hashed.
 */
struct hash128 hash_xxh3_128(const void *bytes, size_t length, uint64_t seed);

static inline bool hash128_is_equal(struct hash128 a, struct hash128 b) {
    return a.low == b.low && a.high == b.high;
}

/* SHA-256: nobody can find two inputs with the same digest. INTERNAL if the library refuses to compute it. */
enum status hash_sha256(const void *bytes, size_t length, uint8_t digest[HASH_SHA256_BYTES]);

/*
 * HMAC-SHA256: only who knows the key can make the digest of the bytes. INTERNAL if the library refuses.
 */
enum status hash_hmac_sha256(const void *key, size_t key_length, const void *bytes, size_t length,
                             uint8_t digest[HASH_SHA256_BYTES]);

/* Whether two digests are equal, in a time that says nothing about where they differ. */
bool hash_digest_is_equal(const uint8_t a[HASH_SHA256_BYTES], const uint8_t b[HASH_SHA256_BYTES]);

/* Random bytes that nobody can guess. IO if the system gives none. */
enum status hash_random_bytes(void *bytes, size_t length);

#endif
