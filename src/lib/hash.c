/* The wrapper of xxhash and of libcrypto's digests. */
#include "lib/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

struct hash128 hash_xxh3_128(const void *bytes, size_t length, uint64_t seed) {
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, length, seed);
    return (struct hash128){hash.low64, hash.high64};
}

enum status hash_sha256(const void *bytes, size_t length, uint8_t digest[HASH_SHA256_BYTES]) {
    CHECK(EVP_Digest(bytes, length, digest, NULL, EVP_sha256(), NULL) == 1, STATUS_INTERNAL,
          "the cryptographic library (libcrypto) computes no SHA-256; check its configuration");
    return STATUS_OK;
}
