#include "server/access_keys.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/hash.h"

enum { SECRET_BYTES = 32 };

struct access_keys {
    uint8_t secret[SECRET_BYTES];
    size_t count;
    uint8_t digests[][HASH_SHA256_BYTES];
};

static enum status digest_of(const struct access_keys *keys, const char *key, uint8_t *digest) {
    return hash_hmac_sha256(keys->secret, sizeof keys->secret, key, strlen(key), digest);
}

static enum status fill(struct access_keys *keys, const char *const *texts) {
    TRY(hash_random_bytes(keys->secret, sizeof keys->secret));
    for (size_t i = 0; i < keys->count; i++) {
        CHECK(texts[i][0] != '\0' && strpbrk(texts[i], " \t\r\n") == NULL, STATUS_USAGE,
              "an API key is empty or has blanks in it; give it without");
        TRY(digest_of(keys, texts[i], keys->digests[i]));
    }
    return STATUS_OK;
}

enum status access_keys_create(const char *const *texts, size_t count, struct access_keys **out) {
    struct access_keys *keys = calloc(1, sizeof *keys + count * sizeof keys->digests[0]);
    CHECK_MEMORY(keys);
    keys->count = count;
    enum status status = fill(keys, texts);
    if (status != STATUS_OK) {
        access_keys_destroy(&keys);
        return error_forward(status, ERROR_HERE);
    }
    *out = keys;
    return STATUS_OK;
}

void access_keys_destroy(struct access_keys **keys) {
    free(*keys);
    *keys = NULL;
}

static bool is_one_of(const struct access_keys *keys, const char *text) {
    uint8_t digest[HASH_SHA256_BYTES];
    bool is_equal = false;
    if (digest_of(keys, text, digest) != STATUS_OK) {
        return false;
    }
    for (size_t i = 0; i < keys->count; i++) {
        is_equal |= hash_digest_is_equal(digest, keys->digests[i]);
    }
    return is_equal;
}

bool access_keys_admit(const struct access_keys *keys, const char *authorization, const char *api_key) {
    static const char scheme[] = "Bearer ";
    size_t length = strlen(scheme);
    if (authorization != NULL && strncasecmp(authorization, scheme, length) == 0) {
        const char *token = authorization + length;
        if (is_one_of(keys, token + strspn(token, " "))) {
            return true;
        }
    }
    return api_key != NULL && is_one_of(keys, api_key);
}
