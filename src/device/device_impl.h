/*
 * For device implementations only: the table of functions behind device.h.
 *
 * An implementation embeds struct device, struct stream and struct event as the first member of its own
 * structs and fills one static table.
 */
#ifndef SLUICE_DEVICE_DEVICE_IMPL_H
#define SLUICE_DEVICE_DEVICE_IMPL_H

#include <stdatomic.h>

#include "device/device.h"

enum copy_direction { COPY_TO_DEVICE, COPY_TO_HOST, COPY_WITHIN };

struct device_functions {
    const char *name;
    bool reads_host_memory;
    void (*destroy)(struct device *device);
    enum status (*memory_alloc)(struct device *device, size_t bytes, void **out);
    /* Frees and returns the bytes that the allocation had. */
    size_t (*memory_free)(struct device *device, void *memory);
    enum status (*stream_create)(struct device *device, struct stream **out);
    void (*stream_destroy)(struct stream *stream);
    enum status (*copy)(struct stream *stream, void *to, const void *from, size_t bytes,
                        enum copy_direction direction);
    enum status (*fill)(struct stream *stream, void *memory, unsigned char byte, size_t bytes);
    enum status (*synchronize)(struct stream *stream);
    enum status (*event_create)(struct device *device, struct event **out);
    void (*event_destroy)(struct event *event);
    enum status (*event_record)(struct stream *stream, struct event *event);
    enum status (*event_wait)(struct stream *stream, struct event *event);
    /* Around each kernel that runs on the host: optional, NULL where nothing has to happen. */
    void (*kernel_enter)(struct stream *stream);
    void (*kernel_leave)(struct stream *stream);
};

struct device {
    const struct device_functions *functions;
    atomic_size_t allocated_bytes;
};

struct stream {
    struct device *device;
};

struct event {
    struct device *device;
};

/* Called by the operation queue around a host kernel. */
void stream_kernel_enter(struct stream *stream);
void stream_kernel_leave(struct stream *stream);

#endif
