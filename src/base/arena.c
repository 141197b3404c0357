/* A list of malloc'ed blocks; allocations bump a counter in the newest. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* gcc defines a macro, clang has a feature. */
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISONS 1
#endif
#endif
#if defined(ARENA_POISONS)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

enum { RED_ZONE_BYTES = 16 };

struct arena_block {
    struct arena_block *older;
    size_t capacity;
    size_t used;
    _Alignas(max_align_t) unsigned char bytes[];
};

void arena_init(struct arena *arena, size_t block_bytes) {
    *arena = (struct arena){.block_bytes = block_bytes};
}

void arena_deinit(struct arena *arena) {
    struct arena_block *block = arena->newest;
    while (block != NULL) {
        struct arena_block *older = block->older;
        ASAN_UNPOISON_MEMORY_REGION(block->bytes, block->capacity);
        free(block);
        block = older;
    }
    arena_init(arena, arena->block_bytes);
}

static struct arena_block *add_block(struct arena *arena, size_t bytes) {
    size_t capacity = bytes > arena->block_bytes ? bytes : arena->block_bytes;
    if (capacity > SIZE_MAX - sizeof(struct arena_block)) {
        return NULL;
    }
    struct arena_block *block = malloc(sizeof *block + capacity);
    if (block == NULL) {
        return NULL;
    }
    *block = (struct arena_block){.older = arena->newest, .capacity = capacity};
    ASAN_POISON_MEMORY_REGION(block->bytes, capacity);
    arena->newest = block;
    return block;
}

/* Bytes to skip in `block` so that the next allocation is aligned. */
static size_t padding_for(const struct arena_block *block, size_t alignment) {
    uintptr_t address = (uintptr_t)(block->bytes + block->used);
    return (size_t)(-address & (alignment - 1));
}

void *arena_alloc(struct arena *arena, size_t count, size_t element_bytes, size_t alignment) {
    if (element_bytes != 0 && count > (SIZE_MAX / 2) / element_bytes) {
        return NULL;
    }
    size_t bytes = count * element_bytes;
    size_t reserve = bytes + alignment + RED_ZONE_BYTES;
    struct arena_block *block = arena->newest;
    if (block == NULL || block->capacity - block->used < reserve) {
        block = add_block(arena, reserve);
        if (block == NULL) {
            return NULL;
        }
    }
    size_t padding = padding_for(block, alignment);
    unsigned char *start = block->bytes + block->used + padding;
    size_t step = padding + bytes + RED_ZONE_BYTES;
    block->used += step;
    arena->used_bytes += step;
    ASAN_UNPOISON_MEMORY_REGION(start, bytes);
    memset(start, 0, bytes);
    return start;
}

char *arena_copy_string(struct arena *arena, const char *text, size_t length) {
    char *copy = arena_alloc(arena, length + 1, 1, 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
    }
    return copy;
}

char *arena_format(struct arena *arena, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : arena_alloc(arena, (size_t)length + 1, 1, 1);
    if (text != NULL) {
        vsnprintf(text, (size_t)length + 1, format, again);
    }
    va_end(again);
    return text;
}
