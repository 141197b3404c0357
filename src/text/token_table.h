/*
 * The vocabulary: token id <-> bytes.
 *
 * A token is either a piece of bytes, which BPE can produce, or a text that only an added token or the file
 * itself names; the same bytes may be both under two ids, so a search says which kind it wants. Ids may have
 * holes. Built once, then read by any thread.
 */
#ifndef SLUICE_TEXT_TOKEN_TABLE_H
#define SLUICE_TEXT_TOKEN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/string_buffer.h"

enum { TOKEN_ID_LIMIT = 1 << 20 };

enum token_flag {
    TOKEN_PRESENT = 1, /* the id is no hole */
    TOKEN_TEXT = 2,    /* not a piece of bytes */
    TOKEN_ADDED = 4,   /* listed under added_tokens */
    TOKEN_SPECIAL = 8, /* listed there as special */
};

struct token_entry {
    uint32_t offset; /* in `bytes` */
    uint32_t length;
    unsigned flags; /* of enum token_flag */
};

struct token_table {
    struct string_buffer bytes;
    struct token_entry *entries; /* by id */
    int32_t size;                /* highest id + 1 */
    int32_t capacity;
    int32_t *slots; /* open addressing: token id or -1 */
    size_t slot_count;
    size_t used_count;
};

/* Frees all; a zeroed struct is an empty table. */
void token_table_deinit(struct token_table *table);

/*
 * Adds a token; `flags` without TOKEN_PRESENT. The caller has checked that 0 <= id < TOKEN_ID_LIMIT, that
 * the id is free, that `length` > 0 and that no token of this kind has these bytes.
 */
enum status token_table_add(struct token_table *table, int32_t id, const char *bytes, size_t length,
                            unsigned flags);

/* The id of the token with these bytes that is (or is not) a text, -1 if there is none. */
int32_t token_table_find(const struct token_table *table, const char *bytes, size_t length, bool is_text);

/* The token's entry; NULL if the id is out of range or a hole. */
const struct token_entry *token_table_get(const struct token_table *table, int32_t id);

#endif
