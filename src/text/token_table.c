/* The bytes lie in one string in the order of adding; the hash table holds ids only. */
#include "text/token_table.h"

#include <stdlib.h>
#include <string.h>

void token_table_deinit(struct token_table *table) {
    string_buffer_deinit(&table->bytes);
    free(table->entries);
    free(table->slots);
    *table = (struct token_table){0};
}

/* FNV-1a with the kind as its first byte. */
static uint64_t hash_bytes(const char *bytes, size_t length, bool is_text) {
    uint64_t hash = 0xCBF29CE484222325u ^ (uint64_t)is_text;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001B3u;
    }
    return hash ^ hash >> 32;
}

/* The slot that holds the token, or the free one where it belongs. */
static size_t find_slot(const struct token_table *table, const char *bytes, size_t length, bool is_text) {
    size_t mask = table->slot_count - 1;
    size_t slot = (size_t)hash_bytes(bytes, length, is_text) & mask;
    while (table->slots[slot] >= 0) {
        const struct token_entry *entry = &table->entries[table->slots[slot]];
        if (entry->length == length && ((entry->flags & TOKEN_TEXT) != 0) == is_text &&
            memcmp(table->bytes.data + entry->offset, bytes, length) == 0) {
            break;
        }
        slot = (slot + 1) & mask;
    }
    return slot;
}

static enum status grow_slots(struct token_table *table) {
    size_t slot_count = table->slot_count == 0 ? 1024 : table->slot_count * 2;
    int32_t *slots = malloc(slot_count * sizeof *slots);
    CHECK_MEMORY(slots);
    memset(slots, 0xFF, slot_count * sizeof *slots);
    free(table->slots);
    table->slots = slots;
    table->slot_count = slot_count;
    for (int32_t id = 0; id < table->size; id++) {
        const struct token_entry *entry = &table->entries[id];
        if ((entry->flags & TOKEN_PRESENT) != 0) {
            const char *bytes = table->bytes.data + entry->offset;
            slots[find_slot(table, bytes, entry->length, (entry->flags & TOKEN_TEXT) != 0)] = id;
        }
    }
    return STATUS_OK;
}

static enum status grow_entries(struct token_table *table, int32_t id) {
    int32_t capacity = table->capacity == 0 ? 1024 : table->capacity;
    while (capacity <= id) {
        capacity *= 2;
    }
    struct token_entry *entries = realloc(table->entries, (size_t)capacity * sizeof *entries);
    CHECK_MEMORY(entries);
    memset(entries + table->capacity, 0, (size_t)(capacity - table->capacity) * sizeof *entries);
    table->entries = entries;
    table->capacity = capacity;
    return STATUS_OK;
}

enum status token_table_add(struct token_table *table, int32_t id, const char *bytes, size_t length,
                            unsigned flags) {
    CHECK(table->bytes.length + length <= UINT32_MAX, STATUS_OUT_OF_RANGE,
          "the tokens have more than 4 GiB of text");
    if (id >= table->capacity) {
        TRY(grow_entries(table, id));
    }
    if ((table->used_count + 1) * 2 > table->slot_count) {
        TRY(grow_slots(table));
    }
    uint32_t offset = (uint32_t)table->bytes.length;
    string_buffer_append(&table->bytes, bytes, length);
    TRY(string_buffer_check(&table->bytes));
    size_t slot = find_slot(table, bytes, length, (flags & TOKEN_TEXT) != 0);
    table->entries[id] = (struct token_entry){offset, (uint32_t)length, flags | TOKEN_PRESENT};
    table->slots[slot] = id;
    table->used_count++;
    table->size = id >= table->size ? id + 1 : table->size;
    return STATUS_OK;
}

int32_t token_table_find(const struct token_table *table, const char *bytes, size_t length, bool is_text) {
    if (table->slot_count == 0) {
        return -1;
    }
    return table->slots[find_slot(table, bytes, length, is_text)];
}

const struct token_entry *token_table_get(const struct token_table *table, int32_t id) {
    if (id < 0 || id >= table->size || (table->entries[id].flags & TOKEN_PRESENT) == 0) {
        return NULL;
    }
    return &table->entries[id];
}
