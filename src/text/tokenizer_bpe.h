/*
 * Byte-pair encoding of one piece of text.
 *
 * Repeatedly merges the adjacent pair with the lowest rank, the leftmost first among equals, with a heap over
 * the pairs: O(n log n) for n bytes, whatever they are. The table of merges is built once and then read by
 * any thread; the scratch belongs to one call.
 */
#ifndef SLUICE_TEXT_TOKENIZER_BPE_H
#define SLUICE_TEXT_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/token_list.h"

struct merge_slot;

struct merge_table {
    struct merge_slot *slots; /* open addressing by (left, right) */
    size_t slot_count;
    int32_t *results; /* token id by rank */
    uint32_t count;   /* ranks 0..count-1 are in use */
};

enum { MERGE_COUNT_LIMIT = 1 << 20 };

/* Room for at most `limit` <= MERGE_COUNT_LIMIT merges. On failure the table is empty. */
enum status merge_table_init(struct merge_table *table, size_t limit);

/* Frees all; a zeroed struct is an empty table. */
void merge_table_deinit(struct merge_table *table);

/*
 * Adds the merge of the next rank. False if the pair has a merge already. The caller stays within the limit
 * given to merge_table_init.
 */
bool merge_table_add(struct merge_table *table, int32_t left, int32_t right, int32_t result);

struct bpe_symbol;

/* Working memory of bpe_encode; a zeroed struct is empty, bpe_scratch_deinit frees it. */
struct bpe_scratch {
    struct bpe_symbol *symbols;
    size_t symbol_capacity;
    uint64_t *heap; /* rank in the upper half, position in the lower */
    size_t heap_count;
    size_t heap_capacity;
    uint64_t step_count; /* swaps and comparisons of the heap so far, in all calls */
};

void bpe_scratch_deinit(struct bpe_scratch *scratch);

/*
 * Appends the tokens of `length` bytes, fewer than 2^31. `byte_ids` gives the token of each single byte.
 * On failure some ids may have been appended.
 */
enum status bpe_encode(const struct merge_table *merges, const int32_t byte_ids[256], const char *bytes,
                       size_t length, struct bpe_scratch *scratch, struct token_list *out);

#endif
