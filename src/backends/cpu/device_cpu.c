/*
 * Host memory with its size in front, and streams that run each call before they return.
 *
 * So a stream is in order by itself and has nothing to wait for. An event only has to make what one thread
 * wrote visible to the thread that waits.
 */
#include "backends/cpu/device_cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "device/device_impl.h"

enum { MEMORY_ALIGNMENT = 64 };

/* Stands in front of each allocation and keeps its alignment. */
struct memory_header {
    _Alignas(MEMORY_ALIGNMENT) size_t bytes;
};

struct event_cpu {
    struct event event;
    atomic_uint record_count;
};

static void destroy_cpu(struct device *device) {
    free(device);
}

static enum status memory_alloc_cpu(struct device *device, size_t bytes, void **out) {
    (void)device;
    size_t padded = bytes / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT + MEMORY_ALIGNMENT;
    struct memory_header *header = aligned_alloc(MEMORY_ALIGNMENT, sizeof *header + padded);
    CHECK(header != NULL, STATUS_OUT_OF_MEMORY,
          "device cpu cannot allocate %zu bytes; use a smaller model or context, or free memory", bytes);
    header->bytes = bytes;
    *out = header + 1;
    return STATUS_OK;
}

static size_t memory_free_cpu(struct device *device, void *memory) {
    (void)device;
    struct memory_header *header = (struct memory_header *)memory - 1;
    size_t bytes = header->bytes;
    free(header);
    return bytes;
}

static enum status stream_create_cpu(struct device *device, struct stream **out) {
    struct stream *stream = malloc(sizeof *stream);
    CHECK_MEMORY(stream);
    *stream = (struct stream){.device = device};
    *out = stream;
    return STATUS_OK;
}

static void stream_destroy_cpu(struct stream *stream) {
    free(stream);
}

static enum status copy_cpu(struct stream *stream, void *to, const void *from, size_t bytes,
                            enum copy_direction direction) {
    (void)stream;
    (void)direction;
    memcpy(to, from, bytes);
    return STATUS_OK;
}

static enum status fill_cpu(struct stream *stream, void *memory, unsigned char byte, size_t bytes) {
    (void)stream;
    memset(memory, byte, bytes);
    return STATUS_OK;
}

static enum status synchronize_cpu(struct stream *stream) {
    (void)stream;
    return STATUS_OK;
}

static enum status event_create_cpu(struct device *device, struct event **out) {
    struct event_cpu *event = malloc(sizeof *event);
    CHECK_MEMORY(event);
    event->event = (struct event){.device = device};
    atomic_init(&event->record_count, 0);
    *out = &event->event;
    return STATUS_OK;
}

static void event_destroy_cpu(struct event *event) {
    free(event);
}

static enum status event_record_cpu(struct stream *stream, struct event *event) {
    (void)stream;
    atomic_fetch_add_explicit(&((struct event_cpu *)event)->record_count, 1, memory_order_release);
    return STATUS_OK;
}

static enum status event_wait_cpu(struct stream *stream, struct event *event) {
    (void)stream;
    (void)atomic_load_explicit(&((struct event_cpu *)event)->record_count, memory_order_acquire);
    return STATUS_OK;
}

static const struct device_functions functions_cpu = {
    .name = "cpu",
    .reads_host_memory = true,
    .destroy = destroy_cpu,
    .memory_alloc = memory_alloc_cpu,
    .memory_free = memory_free_cpu,
    .stream_create = stream_create_cpu,
    .stream_destroy = stream_destroy_cpu,
    .copy = copy_cpu,
    .fill = fill_cpu,
    .synchronize = synchronize_cpu,
    .event_create = event_create_cpu,
    .event_destroy = event_destroy_cpu,
    .event_record = event_record_cpu,
    .event_wait = event_wait_cpu,
};

enum status device_cpu_create(struct device **out) {
    *out = NULL;
    struct device *device = malloc(sizeof *device);
    CHECK_MEMORY(device);
    device->functions = &functions_cpu;
    atomic_init(&device->allocated_bytes, 0);
    *out = device;
    return STATUS_OK;
}
