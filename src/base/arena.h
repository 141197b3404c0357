/*
 * Arenas: memory that is handed out piece by piece and freed at once.
 *
 * The lifetime is in the name of the arena (model_arena, request_arena). One thread at a time.
 * Under AddressSanitizer the bytes between allocations are poisoned.
 */
#ifndef SLUICE_BASE_ARENA_H
#define SLUICE_BASE_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *newest;
    size_t block_bytes; /* size of an ordinary block */
    size_t used_bytes;  /* handed out, padding included */
};

/* An empty arena; allocates nothing yet. */
void arena_init(struct arena *arena, size_t block_bytes);

/* Frees all memory; the arena is empty and can be used again. */
void arena_deinit(struct arena *arena);

/*
 * `count` elements of `element_bytes` each, zeroed, at a multiple of `alignment` (a power of two).
 * Returns NULL if memory is out or the product overflows. `count` 0 gives a valid pointer to nothing.
 */
void *arena_alloc(struct arena *arena, size_t count, size_t element_bytes, size_t alignment);

/* A NUL-terminated copy of `length` bytes, or NULL if memory is out. */
char *arena_copy_string(struct arena *arena, const char *text, size_t length);

/* A formatted string, or NULL if memory is out. */
char *arena_format(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define ARENA_NEW(arena, type, count) ((type *)arena_alloc((arena), (count), sizeof(type), _Alignof(type)))

#endif
