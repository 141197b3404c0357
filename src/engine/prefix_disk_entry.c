/* Writing and checking heads. */
#include "engine/prefix_disk_entry.h"

#include <string.h>

#include "lib/hash.h"

enum { FLAG_DRAFT_ROWS = 1 };

static const char magic[8] = {'S', 'L', 'U', 'I', 'C', 'E', 'P', 'C'};

struct fixed_part {
    char magic[sizeof magic];
    uint32_t version;
    uint32_t kind;
    uint32_t flags;
    uint32_t token_count;
    uint64_t payload_bytes;
    uint8_t digest[PREFIX_KEY_BYTES];
    struct hash128 payload_hash;
};

_Static_assert(sizeof(struct fixed_part) == 80, "a file's head has no gaps");

static size_t token_bytes(int32_t token_count) {
    return (size_t)token_count * sizeof(int32_t);
}

/* Of the head up to the checksum at its end. */
static struct hash128 hash_head(const void *head, int32_t token_count) {
    return hash_xxh3_128(head, sizeof(struct fixed_part) + token_bytes(token_count), 0);
}

size_t prefix_entry_head_bytes(int32_t token_count) {
    return sizeof(struct fixed_part) + token_bytes(token_count) + sizeof(struct hash128);
}

void prefix_entry_write_head(const struct prefix_entry *entry, const void *payload, void *head) {
    struct fixed_part fixed = {.version = PREFIX_ENTRY_VERSION,
                               .kind = (uint32_t)entry->kind,
                               .flags = entry->has_draft_rows ? FLAG_DRAFT_ROWS : 0,
                               .token_count = (uint32_t)entry->token_count,
                               .payload_bytes = entry->payload_bytes,
                               .payload_hash = hash_xxh3_128(payload, entry->payload_bytes, 0)};
    memcpy(fixed.magic, magic, sizeof magic);
    memcpy(fixed.digest, entry->digest, sizeof fixed.digest);
    unsigned char *bytes = head;
    memcpy(bytes, &fixed, sizeof fixed);
    memcpy(bytes + sizeof fixed, entry->tokens, token_bytes(entry->token_count));
    struct hash128 hash = hash_head(head, entry->token_count);
    memcpy(bytes + sizeof fixed + token_bytes(entry->token_count), &hash, sizeof hash);
}

static const char *check_fixed_part(const struct prefix_entry *wanted, const struct fixed_part *fixed) {
    if (memcmp(fixed->magic, magic, sizeof magic) != 0) {
        return "it is no entry of a prefix cache";
    }
    if (fixed->version != PREFIX_ENTRY_VERSION) {
        return "its format has another version";
    }
    if (fixed->kind != (uint32_t)wanted->kind || (fixed->flags & ~(uint32_t)FLAG_DRAFT_ROWS) != 0) {
        return "it is of another kind";
    }
    if (fixed->token_count != (uint32_t)wanted->token_count ||
        fixed->payload_bytes != wanted->payload_bytes) {
        return "it has another size";
    }
    if (memcmp(fixed->digest, wanted->digest, sizeof fixed->digest) != 0) {
        return "it belongs to another prefix";
    }
    return NULL;
}

const char *prefix_entry_check(const struct prefix_entry *wanted, const void *head, const void *payload,
                               bool *has_draft_rows) {
    const unsigned char *bytes = head;
    struct fixed_part fixed;
    memcpy(&fixed, bytes, sizeof fixed);
    const char *fault = check_fixed_part(wanted, &fixed);
    if (fault != NULL) {
        return fault;
    }
    struct hash128 head_hash;
    memcpy(&head_hash, bytes + sizeof fixed + token_bytes(wanted->token_count), sizeof head_hash);
    if (!hash128_is_equal(head_hash, hash_head(head, wanted->token_count))) {
        return "the checksum of its head is wrong";
    }
    if (memcmp(bytes + sizeof fixed, wanted->tokens, token_bytes(wanted->token_count)) != 0) {
        return "it holds other tokens";
    }
    if (!hash128_is_equal(fixed.payload_hash, hash_xxh3_128(payload, wanted->payload_bytes, 0))) {
        return "the checksum of its rows is wrong";
    }
    *has_draft_rows = (fixed.flags & FLAG_DRAFT_ROWS) != 0;
    return NULL;
}
