/*
 * Symbols are a doubly linked list in an array by position. A heap entry is stale when the pair at its
 * position has another rank by now; a symbol only grows, so no pair comes back.
 */
#include "text/tokenizer_bpe.h"

#include <stdlib.h>

static const uint32_t NO_RANK = UINT32_MAX;
static const uint32_t NO_SYMBOL = UINT32_MAX;

struct merge_slot {
    int32_t left; /* -1: free */
    int32_t right;
    uint32_t rank;
};

struct bpe_symbol {
    int32_t id;
    uint32_t previous, next; /* positions, NO_SYMBOL at the ends */
    uint32_t rank;           /* of the pair with `next`; NO_RANK if it does not merge or the symbol is gone */
};

enum status merge_table_init(struct merge_table *table, size_t limit) {
    *table = (struct merge_table){0};
    size_t slot_count = 16;
    while (slot_count < limit * 2) {
        slot_count *= 2;
    }
    table->slots = malloc(slot_count * sizeof *table->slots);
    table->results = malloc((limit + 1) * sizeof *table->results);
    if (table->slots == NULL || table->results == NULL) {
        merge_table_deinit(table);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < slot_count; i++) {
        table->slots[i].left = -1;
    }
    table->slot_count = slot_count;
    return STATUS_OK;
}

void merge_table_deinit(struct merge_table *table) {
    free(table->slots);
    free(table->results);
    *table = (struct merge_table){0};
}

/* The slot of the pair, or the free one where it belongs. */
static struct merge_slot *find_slot(const struct merge_table *table, int32_t left, int32_t right) {
    uint64_t hash = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    size_t mask = table->slot_count - 1;
    size_t index = (size_t)(hash >> 32) & mask;
    while (table->slots[index].left >= 0 &&
           (table->slots[index].left != left || table->slots[index].right != right)) {
        index = (index + 1) & mask;
    }
    return &table->slots[index];
}

bool merge_table_add(struct merge_table *table, int32_t left, int32_t right, int32_t result) {
    struct merge_slot *slot = find_slot(table, left, right);
    if (slot->left >= 0) {
        return false;
    }
    *slot = (struct merge_slot){left, right, table->count};
    table->results[table->count++] = result;
    return true;
}

static uint32_t find_rank(const struct merge_table *table, int32_t left, int32_t right) {
    const struct merge_slot *slot = find_slot(table, left, right);
    return slot->left < 0 ? NO_RANK : slot->rank;
}

void bpe_scratch_deinit(struct bpe_scratch *scratch) {
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (struct bpe_scratch){0};
}

/* n symbols have at most n - 1 pairs, and each of at most n - 1 merges makes at most two more. */
static enum status reserve_scratch(struct bpe_scratch *scratch, size_t length) {
    if (length > scratch->symbol_capacity) {
        size_t capacity = length < 256 ? 256 : length;
        struct bpe_symbol *symbols = realloc(scratch->symbols, capacity * sizeof *symbols);
        CHECK_MEMORY(symbols);
        scratch->symbols = symbols;
        scratch->symbol_capacity = capacity;
    }
    if (scratch->symbol_capacity * 3 > scratch->heap_capacity) {
        size_t capacity = scratch->symbol_capacity * 3;
        uint64_t *heap = realloc(scratch->heap, capacity * sizeof *heap);
        CHECK_MEMORY(heap);
        scratch->heap = heap;
        scratch->heap_capacity = capacity;
    }
    return STATUS_OK;
}

static void heap_push(struct bpe_scratch *scratch, uint64_t key) {
    size_t child = scratch->heap_count++;
    while (child > 0) {
        scratch->step_count++;
        size_t parent = (child - 1) / 2;
        if (scratch->heap[parent] <= key) {
            break;
        }
        scratch->heap[child] = scratch->heap[parent];
        child = parent;
    }
    scratch->heap[child] = key;
}

static uint64_t heap_pop(struct bpe_scratch *scratch) {
    uint64_t *heap = scratch->heap;
    uint64_t top = heap[0];
    uint64_t last = heap[--scratch->heap_count];
    size_t parent = 0;
    for (;;) {
        scratch->step_count++;
        size_t child = 2 * parent + 1;
        if (child >= scratch->heap_count) {
            break;
        }
        if (child + 1 < scratch->heap_count && heap[child + 1] < heap[child]) {
            child++;
        }
        if (heap[child] >= last) {
            break;
        }
        heap[parent] = heap[child];
        parent = child;
    }
    heap[parent] = last;
    return top;
}

/* Looks up the pair that starts at `position` and queues it if it merges. */
static void queue_pair(const struct merge_table *merges, struct bpe_scratch *scratch, uint32_t position) {
    struct bpe_symbol *symbol = &scratch->symbols[position];
    symbol->rank = NO_RANK;
    if (symbol->next != NO_SYMBOL) {
        symbol->rank = find_rank(merges, symbol->id, scratch->symbols[symbol->next].id);
    }
    if (symbol->rank != NO_RANK) {
        heap_push(scratch, (uint64_t)symbol->rank << 32 | position);
    }
}

static void merge_pair(const struct merge_table *merges, struct bpe_scratch *scratch, uint32_t position) {
    struct bpe_symbol *left = &scratch->symbols[position];
    struct bpe_symbol *right = &scratch->symbols[left->next];
    left->id = merges->results[left->rank];
    left->next = right->next;
    right->rank = NO_RANK;
    if (left->next != NO_SYMBOL) {
        scratch->symbols[left->next].previous = position;
    }
    queue_pair(merges, scratch, position);
    if (left->previous != NO_SYMBOL) {
        queue_pair(merges, scratch, left->previous);
    }
}

enum status bpe_encode(const struct merge_table *merges, const int32_t byte_ids[256], const char *bytes,
                       size_t length, struct bpe_scratch *scratch, struct token_list *out) {
    TRY(reserve_scratch(scratch, length));
    struct bpe_symbol *symbols = scratch->symbols;
    for (size_t i = 0; i < length; i++) {
        symbols[i] = (struct bpe_symbol){
            .id = byte_ids[(unsigned char)bytes[i]],
            .previous = i == 0 ? NO_SYMBOL : (uint32_t)i - 1,
            .next = i + 1 == length ? NO_SYMBOL : (uint32_t)i + 1,
        };
    }
    scratch->heap_count = 0;
    for (size_t i = 0; i < length; i++) {
        queue_pair(merges, scratch, (uint32_t)i);
    }
    while (scratch->heap_count > 0) {
        uint64_t key = heap_pop(scratch);
        uint32_t position = (uint32_t)key;
        if (symbols[position].rank == (uint32_t)(key >> 32)) {
            merge_pair(merges, scratch, position);
        }
    }
    size_t position = length == 0 ? NO_SYMBOL : 0;
    while (position != NO_SYMBOL) {
        TRY(token_list_append(out, symbols[position].id));
        position = symbols[position].next;
    }
    return STATUS_OK;
}
