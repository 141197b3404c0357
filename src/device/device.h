/*
 * A device: memory, streams, events and copies. The only door to memory that kernels read and write.
 *
 * Nothing above src/ops may dereference device memory: it travels as an opaque pointer, is filled and read
 * through stream copies, and is touched by kernels only. On the CPU device the pointers happen to be host
 * addresses; the guard device makes any touch outside a kernel or copy fault.
 *
 * A stream runs its work in order. One thread at a time may use a stream; different streams may be used by
 * different threads. Allocation is safe from any thread.
 */
#ifndef SLUICE_DEVICE_DEVICE_H
#define SLUICE_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct device;
struct stream;
struct event;

/* The device's name as on the command line ("cpu"). A static string. */
const char *device_name(const struct device *device);

/* Destroys the device; its memory, streams and events must be gone. Nulls the pointer; NULL is allowed. */
void device_destroy(struct device **device);

/* Whether kernels can read ordinary host memory in place (mapped weights need no copy). */
bool device_reads_host_memory(const struct device *device);

/* Memory aligned to 64 bytes, contents undefined. OUT_OF_MEMORY names the bytes asked for. */
enum status device_memory_alloc(struct device *device, size_t bytes, void **out);

/* Frees and nulls; NULL inside is allowed. Work that uses it must be done. */
void device_memory_free(struct device *device, void **memory);

/* Bytes now allocated on the device. */
size_t device_memory_bytes(const struct device *device);

enum status device_stream_create(struct device *device, struct stream **out);
void device_stream_destroy(struct stream **stream);

/*
 * Copies between host and device memory. Host memory must stay valid until the stream has run the copy.
 * The ranges of a copy within the device must not overlap.
 */
enum status stream_copy_to_device(struct stream *stream, void *device_memory, const void *host, size_t bytes);
enum status stream_copy_to_host(struct stream *stream, void *host, const void *device_memory, size_t bytes);
enum status stream_copy_within(struct stream *stream, void *to, const void *from, size_t bytes);

/* Sets every byte of device memory. */
enum status stream_fill(struct stream *stream, void *device_memory, unsigned char byte, size_t bytes);

/* Waits until all work given to the stream is done and returns the first error it met. */
enum status stream_synchronize(struct stream *stream);

/* An event marks a point of one stream that another can wait for. */
enum status device_event_create(struct device *device, struct event **out);
void device_event_destroy(struct event **event);
enum status stream_record_event(struct stream *stream, struct event *event);
enum status stream_wait_event(struct stream *stream, struct event *event);

/* The device a stream belongs to. */
struct device *stream_device(const struct stream *stream);

#endif
