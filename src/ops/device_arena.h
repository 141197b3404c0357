/*
 * Device memory of one step, handed out from one block (the step arena).
 *
 * Sizes are planned by the code that uses the memory: a planning arena has no block, hands out addresses
 * that nobody may touch and records the high-water mark; the real arena is then allocated once with it.
 * One thread at a time.
 */
#ifndef SLUICE_OPS_DEVICE_ARENA_H
#define SLUICE_OPS_DEVICE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"
#include "tensor/tensor.h"

struct device_arena {
    struct device *device; /* NULL: planning */
    void *memory;
    size_t capacity;
    size_t used;
    size_t high_water;
};

/* An arena that only counts. */
void device_arena_init_planning(struct device_arena *arena);

/* An arena with one block of `capacity` bytes. */
enum status device_arena_init(struct device_arena *arena, struct device *device, size_t capacity);

/* Frees the block. */
void device_arena_deinit(struct device_arena *arena);

/* `bytes` of device memory at a multiple of 64. OUT_OF_MEMORY if the plan was exceeded. */
enum status device_arena_alloc(struct device_arena *arena, size_t bytes, void **out);

/* A tensor of the given shape, contents undefined. */
enum status device_arena_tensor(struct device_arena *arena, enum dtype dtype, int rank, const int64_t *shape,
                                struct tensor *out);

/* Position to return to: device_arena_release frees all that was handed out since the mark. */
size_t device_arena_mark(const struct device_arena *arena);
void device_arena_release(struct device_arena *arena, size_t mark);

#define DEVICE_ARENA_TENSOR(arena, dtype, out, ...)                                                  \
    device_arena_tensor((arena), (dtype), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                        (int64_t[]){__VA_ARGS__}, (out))

#endif
