/* Checks arguments, counts bytes, and hands over to the implementation's table. */
#include "device/device.h"

#include <assert.h>
#include <stdint.h>

#include "device/device_impl.h"

const char *device_name(const struct device *device) {
    return device->functions->name;
}

void device_destroy(struct device **device) {
    if (*device != NULL) {
        assert(device_memory_bytes(*device) == 0);
        (*device)->functions->destroy(*device);
        *device = NULL;
    }
}

bool device_reads_host_memory(const struct device *device) {
    return device->functions->reads_host_memory;
}

enum status device_memory_alloc(struct device *device, size_t bytes, void **out) {
    *out = NULL;
    CHECK(bytes <= PTRDIFF_MAX, STATUS_OUT_OF_MEMORY,
          "device %s cannot allocate %zu bytes: no object can be that large; check the shape that was asked "
          "for",
          device_name(device), bytes);
    TRY(device->functions->memory_alloc(device, bytes, out));
    atomic_fetch_add(&device->allocated_bytes, bytes);
    return STATUS_OK;
}

void device_memory_free(struct device *device, void **memory) {
    if (*memory != NULL) {
        size_t bytes = device->functions->memory_free(device, *memory);
        atomic_fetch_sub(&device->allocated_bytes, bytes);
        *memory = NULL;
    }
}

size_t device_memory_bytes(const struct device *device) {
    return atomic_load(&device->allocated_bytes);
}

enum status device_stream_create(struct device *device, struct stream **out) {
    *out = NULL;
    TRY(device->functions->stream_create(device, out));
    return STATUS_OK;
}

void device_stream_destroy(struct stream **stream) {
    if (*stream != NULL) {
        (*stream)->device->functions->stream_destroy(*stream);
        *stream = NULL;
    }
}

static bool is_range_valid(const void *start, size_t bytes) {
    return start != NULL && bytes <= UINTPTR_MAX - (uintptr_t)start;
}

static enum status stream_copy(struct stream *stream, void *to, const void *from, size_t bytes,
                               enum copy_direction direction) {
    if (bytes == 0) {
        return STATUS_OK;
    }
    const struct device *device = stream->device;
    CHECK(
        is_range_valid(to, bytes), STATUS_BAD_ARGUMENT,
        "a copy of %zu bytes on device %s goes to address %p, which cannot hold them; pass allocated memory",
        bytes, device_name(device), to);
    CHECK(is_range_valid(from, bytes), STATUS_BAD_ARGUMENT,
          "a copy of %zu bytes on device %s comes from address %p, which cannot hold them; pass allocated "
          "memory",
          bytes, device_name(device), from);
    TRY(device->functions->copy(stream, to, from, bytes, direction));
    return STATUS_OK;
}

enum status stream_copy_to_device(struct stream *stream, void *device_memory, const void *host,
                                  size_t bytes) {
    TRY(stream_copy(stream, device_memory, host, bytes, COPY_TO_DEVICE));
    return STATUS_OK;
}

enum status stream_copy_to_host(struct stream *stream, void *host, const void *device_memory, size_t bytes) {
    TRY(stream_copy(stream, host, device_memory, bytes, COPY_TO_HOST));
    return STATUS_OK;
}

enum status stream_copy_within(struct stream *stream, void *to, const void *from, size_t bytes) {
    uintptr_t low = (uintptr_t)to < (uintptr_t)from ? (uintptr_t)to : (uintptr_t)from;
    uintptr_t high = (uintptr_t)to < (uintptr_t)from ? (uintptr_t)from : (uintptr_t)to;
    CHECK(bytes == 0 || high - low >= bytes, STATUS_BAD_ARGUMENT,
          "a copy of %zu bytes within device %s has its two ranges only %zu bytes apart; ranges must not "
          "overlap",
          bytes, device_name(stream->device), (size_t)(high - low));
    TRY(stream_copy(stream, to, from, bytes, COPY_WITHIN));
    return STATUS_OK;
}

enum status stream_fill(struct stream *stream, void *device_memory, unsigned char byte, size_t bytes) {
    if (bytes == 0) {
        return STATUS_OK;
    }
    const struct device *device = stream->device;
    CHECK(is_range_valid(device_memory, bytes), STATUS_BAD_ARGUMENT,
          "a fill of %zu bytes on device %s starts at address %p, which cannot hold them; pass allocated "
          "memory",
          bytes, device_name(device), device_memory);
    TRY(device->functions->fill(stream, device_memory, byte, bytes));
    return STATUS_OK;
}

enum status stream_synchronize(struct stream *stream) {
    TRY(stream->device->functions->synchronize(stream));
    return STATUS_OK;
}

enum status device_event_create(struct device *device, struct event **out) {
    *out = NULL;
    TRY(device->functions->event_create(device, out));
    return STATUS_OK;
}

void device_event_destroy(struct event **event) {
    if (*event != NULL) {
        (*event)->device->functions->event_destroy(*event);
        *event = NULL;
    }
}

static enum status check_event(const struct stream *stream, const struct event *event) {
    CHECK(
        event->device == stream->device, STATUS_BAD_ARGUMENT,
        "an event of device %s was given to a stream of another device (%s); create the event on that device",
        device_name(event->device), device_name(stream->device));
    return STATUS_OK;
}

enum status stream_record_event(struct stream *stream, struct event *event) {
    TRY(check_event(stream, event));
    TRY(stream->device->functions->event_record(stream, event));
    return STATUS_OK;
}

enum status stream_wait_event(struct stream *stream, struct event *event) {
    TRY(check_event(stream, event));
    TRY(stream->device->functions->event_wait(stream, event));
    return STATUS_OK;
}

struct device *stream_device(const struct stream *stream) {
    return stream->device;
}

void stream_kernel_enter(struct stream *stream) {
    if (stream->device->functions->kernel_enter != NULL) {
        stream->device->functions->kernel_enter(stream);
    }
}

void stream_kernel_leave(struct stream *stream) {
    if (stream->device->functions->kernel_leave != NULL) {
        stream->device->functions->kernel_leave(stream);
    }
}
