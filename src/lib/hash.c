/* The wrapper of xxhash and of libcrypto's digests. */
#include "lib/hash.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/random.h>
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

enum status hash_hmac_sha256(const void *key, size_t key_length, const void *bytes, size_t length,
                             uint8_t digest[HASH_SHA256_BYTES]) {
    size_t digest_length = 0;
    CHECK(EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, key, key_length, bytes, length, digest,
                    HASH_SHA256_BYTES, &digest_length) != NULL &&
              digest_length == HASH_SHA256_BYTES,
          STATUS_INTERNAL,
          "the cryptographic library (libcrypto) computes no HMAC-SHA256; check its configuration");
    return STATUS_OK;
}

bool hash_digest_is_equal(const uint8_t a[HASH_SHA256_BYTES], const uint8_t b[HASH_SHA256_BYTES]) {
    uint8_t difference = 0;
    for (int i = 0; i < HASH_SHA256_BYTES; i++) {
        difference |= (uint8_t)(a[i] ^ b[i]);
    }
    return difference == 0;
}

enum status hash_random_bytes(void *bytes, size_t length) {
    for (size_t done = 0; done < length;) {
        ssize_t got = getrandom((char *)bytes + done, length - done, 0);
        CHECK(got > 0 || (got < 0 && errno == EINTR), STATUS_IO, "the system gives no random bytes: %s",
              strerror(errno));
        done += got > 0 ? (size_t)got : 0;
    }
    return STATUS_OK;
}
