/*
 * What is in a file of the prefix cache on disk.
 *
 * A head, then the payload. The head: a fixed part (struct fixed_part in the source), the page's tokens as
 * 32-bit integers, and a checksum of all of that; the fixed part has the payload's size and checksum. Numbers
 * are in the byte order of the machine: a file of another order has an unknown version.
 */
#ifndef SLUICE_ENGINE_PREFIX_DISK_ENTRY_H
#define SLUICE_ENGINE_PREFIX_DISK_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PREFIX_KEY_BYTES = 32, PREFIX_PARENT_BYTES = 16, PREFIX_ENTRY_VERSION = 1 };

enum prefix_entry_kind { PREFIX_ENTRY_PAGE, PREFIX_ENTRY_SNAPSHOT };

/* A page with all that goes before it. The digest says it all; the rest is there for the file's name. */
struct prefix_key {
    uint8_t digest[PREFIX_KEY_BYTES];
    uint8_t parent[PREFIX_PARENT_BYTES]; /* the beginning of the parent's digest; zeros for a first page */
    int32_t page_index;                  /* pages before it */
};

struct prefix_entry {
    enum prefix_entry_kind kind;
    uint8_t digest[PREFIX_KEY_BYTES];
    const int32_t *tokens; /* [token_count] of the page */
    int32_t token_count;
    bool has_draft_rows;
    size_t payload_bytes;
};

/* Bytes of a head with this many tokens. */
size_t prefix_entry_head_bytes(int32_t token_count);

/* Writes the head that belongs to `entry` and its payload. */
void prefix_entry_write_head(const struct prefix_entry *entry, const void *payload, void *head);

/*
 * Compares a head and a payload of the right sizes with the entry that is wanted. Returns NULL and sets
 * *has_draft_rows if they are that entry, otherwise what is wrong with them.
 */
const char *prefix_entry_check(const struct prefix_entry *wanted, const void *head, const void *payload,
                               bool *has_draft_rows);

#endif
