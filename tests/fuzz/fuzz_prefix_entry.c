/*
 * Files of the prefix cache from hostile hands: no read outside the file, and what passes the check is the
 * entry that was wanted, as far as one can tell from its bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/prefix_disk_entry.h"
#include "lib/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The format in numbers, apart from the source that is under test. */
enum {
    TOKENS = 4,
    PAYLOAD_BYTES = 32,
    KIND_AT = 12,
    FLAGS_AT = 16,
    TOKEN_COUNT_AT = 20,
    PAYLOAD_BYTES_AT = 24,
    DIGEST_AT = 32,
    PAYLOAD_HASH_AT = 64,
    TOKENS_AT = 80,
    HEAD_HASH_AT = TOKENS_AT + 4 * TOKENS,
    PAYLOAD_AT = HEAD_HASH_AT + 16,
    FILE_BYTES = PAYLOAD_AT + PAYLOAD_BYTES,
};

static const int32_t tokens[TOKENS] = {1, 2, 3, 4};

static struct prefix_entry wanted_entry(enum prefix_entry_kind kind) {
    struct prefix_entry entry = {
        .kind = kind, .tokens = tokens, .token_count = TOKENS, .payload_bytes = PAYLOAD_BYTES};
    for (int i = 0; i < PREFIX_KEY_BYTES; i++) {
        entry.digest[i] = (uint8_t)i;
    }
    return entry;
}

/* Whether the parts that no checksum protects from a forger are those of the wanted entry. */
static bool is_wanted(const struct prefix_entry *wanted, const uint8_t *file) {
    static const uint8_t start[KIND_AT] = {'S', 'L', 'U', 'I', 'C', 'E', 'P', 'C', 1, 0, 0, 0};
    uint32_t kind, flags, token_count;
    uint64_t payload_bytes;
    memcpy(&kind, file + KIND_AT, sizeof kind);
    memcpy(&flags, file + FLAGS_AT, sizeof flags);
    memcpy(&token_count, file + TOKEN_COUNT_AT, sizeof token_count);
    memcpy(&payload_bytes, file + PAYLOAD_BYTES_AT, sizeof payload_bytes);
    return memcmp(file, start, sizeof start) == 0 && kind == (uint32_t)wanted->kind && flags <= 1 &&
           token_count == TOKENS && payload_bytes == PAYLOAD_BYTES &&
           memcmp(file + DIGEST_AT, wanted->digest, PREFIX_KEY_BYTES) == 0 &&
           memcmp(file + TOKENS_AT, tokens, sizeof tokens) == 0;
}

static bool has_right_hashes(const uint8_t *file) {
    struct hash128 payload_hash = hash_xxh3_128(file + PAYLOAD_AT, PAYLOAD_BYTES, 0);
    struct hash128 head_hash = hash_xxh3_128(file, HEAD_HASH_AT, 0);
    return memcmp(file + PAYLOAD_HASH_AT, &payload_hash, sizeof payload_hash) == 0 &&
           memcmp(file + HEAD_HASH_AT, &head_hash, sizeof head_hash) == 0;
}

static void check(const uint8_t *file) {
    for (int kind = PREFIX_ENTRY_PAGE; kind <= PREFIX_ENTRY_SNAPSHOT; kind++) {
        struct prefix_entry wanted = wanted_entry((enum prefix_entry_kind)kind);
        bool has_draft_rows = false;
        const char *fault = prefix_entry_check(&wanted, file, file + PAYLOAD_AT, &has_draft_rows);
        if ((fault == NULL) != (is_wanted(&wanted, file) && has_right_hashes(file)) ||
            (fault == NULL && has_draft_rows != (file[FLAGS_AT] == 1))) {
            __builtin_trap();
        }
    }
}

/* The file as it is, and once more with the checksums of what is in it, which mutations never hit. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (prefix_entry_head_bytes(TOKENS) != PAYLOAD_AT) {
        __builtin_trap();
    }
    uint8_t *file = size < FILE_BYTES ? NULL : malloc(FILE_BYTES);
    if (file == NULL) {
        return 0;
    }
    memcpy(file, data, FILE_BYTES);
    check(file);
    struct hash128 payload_hash = hash_xxh3_128(file + PAYLOAD_AT, PAYLOAD_BYTES, 0);
    memcpy(file + PAYLOAD_HASH_AT, &payload_hash, sizeof payload_hash);
    struct hash128 head_hash = hash_xxh3_128(file, HEAD_HASH_AT, 0);
    memcpy(file + HEAD_HASH_AT, &head_hash, sizeof head_hash);
    check(file);
    free(file);
    return 0;
}
