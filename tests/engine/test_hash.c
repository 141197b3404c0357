/* Hashes against the vectors of their authors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/hash.h"

/* FIPS 180-2, appendix B: the empty message, "abc" and the message of two blocks. */
static void sha256_gives_the_published_digests(void **state) {
    (void)state;
    static const struct {
        const char *message;
        size_t length;
        uint8_t digest[HASH_SHA256_BYTES];
    } vectors[] = {
        {"", 0, {0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4,
                 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b,
                 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55}},
        {"abc", 3, {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                    0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                    0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad}},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         56,
         {0x24, 0x8d, 0x6a, 0x61, 0xd2, 0x06, 0x38, 0xb8, 0xe5, 0xc0, 0x26, 0x93, 0x0c, 0x3e, 0x60, 0x39,
          0xa3, 0x3c, 0xe4, 0x59, 0x64, 0xff, 0x21, 0x67, 0xf6, 0xec, 0xed, 0xd4, 0x19, 0xdb, 0x06, 0xc1}},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint8_t digest[HASH_SHA256_BYTES];
        assert_int_equal(hash_sha256(vectors[i].message, vectors[i].length, digest), STATUS_OK);
        assert_memory_equal(digest, vectors[i].digest, sizeof digest);
    }
}

/* RFC 4231, test cases 2 and 6 (a key longer than a block). */
static void hmac_gives_the_published_digests(void **state) {
    (void)state;
    static const uint8_t short_key[HASH_SHA256_BYTES] = {
        0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
        0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    static const uint8_t long_key[HASH_SHA256_BYTES] = {
        0x60, 0xe4, 0x31, 0x59, 0x1e, 0xe0, 0xb6, 0x7f, 0x0d, 0x8a, 0x26, 0xaa, 0xcb, 0xf5, 0xb7, 0x7f,
        0x8e, 0x0b, 0xc6, 0x21, 0x37, 0x28, 0xc5, 0x14, 0x05, 0x46, 0x04, 0x0f, 0x0e, 0xe3, 0x7f, 0x54};
    uint8_t key[131];
    uint8_t digest[HASH_SHA256_BYTES];
    memset(key, 0xaa, sizeof key);
    assert_int_equal(hash_hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, digest), STATUS_OK);
    assert_true(hash_digest_is_equal(digest, short_key));
    static const char text[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    assert_int_equal(hash_hmac_sha256(key, sizeof key, text, sizeof text - 1, digest), STATUS_OK);
    assert_true(hash_digest_is_equal(digest, long_key));
    digest[31] ^= 1;
    assert_false(hash_digest_is_equal(digest, long_key));
}

/* Lengths and seeds of the sanity check of xxhash's own program (xxhsum 0.8), over its test bytes. */
static void xxh3_gives_the_published_values(void **state) {
    (void)state;
    static const uint64_t prime32 = 2654435761u;
    static const uint64_t prime64 = 11400714785074694797u;
    static const struct {
        size_t length;
        uint64_t seed;
        struct hash128 hash;
    } vectors[] = {
        {0, 0, {0x6001C324468D497Fu, 0x99AA06D3014798D8u}},
        {0, 2654435761u, {0x5444F7869C671AB0u, 0x92220AE55E14AB50u}},
        {6, 2654435761u, {0x269D8F70BE98856Eu, 0x5A865B5389ABD2B1u}},
        {222, 2654435761u, {0xAE995BB8AF917A8Du, 0x91820016621E97F1u}},
        {512, 11400714785074694797u, {0x3CE457DE14C27708u, 0x925D06B8EC5B8040u}},
        {2367, 0, {0xCB37AEB9E5D361EDu, 0xE89C0F6FF369B427u}},
        {2367, 2654435761u, {0x6F5360AE69C2F406u, 0xD23AAE4B76C31ECBu}},
    };
    uint8_t bytes[2367];
    uint64_t generator = prime32;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(generator >> 56);
        generator *= prime64;
    }
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        struct hash128 hash = hash_xxh3_128(bytes, vectors[i].length, vectors[i].seed);
        assert_true(hash128_is_equal(hash, vectors[i].hash));
        assert_false(hash128_is_equal(hash, hash_xxh3_128(bytes, vectors[i].length, vectors[i].seed + 1)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_gives_the_published_digests),
        cmocka_unit_test(hmac_gives_the_published_digests),
        cmocka_unit_test(xxh3_gives_the_published_values),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
