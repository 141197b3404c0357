/* A bump allocator over one device allocation. */
#include "ops/device_arena.h"

#include <assert.h>
#include <stdint.h>

enum { DEVICE_ALIGNMENT = 64 };

void device_arena_init_planning(struct device_arena *arena) {
    *arena = (struct device_arena){.capacity = SIZE_MAX / 2};
}

enum status device_arena_init(struct device_arena *arena, struct device *device, size_t capacity) {
    *arena = (struct device_arena){.device = device, .capacity = capacity};
    TRY(device_memory_alloc(device, capacity, &arena->memory));
    return STATUS_OK;
}

void device_arena_deinit(struct device_arena *arena) {
    if (arena->device != NULL) {
        device_memory_free(arena->device, &arena->memory);
    }
    *arena = (struct device_arena){0};
}

enum status device_arena_alloc(struct device_arena *arena, size_t bytes, void **out) {
    size_t rounded = (bytes + DEVICE_ALIGNMENT - 1) & ~(size_t)(DEVICE_ALIGNMENT - 1);
    CHECK(rounded >= bytes && rounded <= arena->capacity - arena->used, STATUS_OUT_OF_MEMORY,
          "the step needs %zu bytes more than the %zu planned for it",
          rounded - (arena->capacity - arena->used), arena->capacity);
    /* A planning arena counts from one alignment unit, so that no address is NULL. */
    uintptr_t base = arena->device != NULL ? (uintptr_t)arena->memory : DEVICE_ALIGNMENT;
    *out = (void *)(base + arena->used);
    arena->used += rounded;
    arena->high_water = arena->used > arena->high_water ? arena->used : arena->high_water;
    return STATUS_OK;
}

enum status device_arena_tensor(struct device_arena *arena, enum dtype dtype, int rank, const int64_t *shape,
                                struct tensor *out) {
    assert(rank <= TENSOR_AXES_MAX);
    *out = (struct tensor){.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++) {
        out->shape[i] = shape[i];
    }
    TRY(device_arena_alloc(arena, tensor_bytes(out), &out->data));
    return STATUS_OK;
}

size_t device_arena_mark(const struct device_arena *arena) {
    return arena->used;
}

void device_arena_release(struct device_arena *arena, size_t mark) {
    assert(mark <= arena->used);
    arena->used = mark;
}
