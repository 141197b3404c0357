/*
 * One reserved address range; allocations are whole pages inside it, kept in a table sorted by address.
 *
 * The reservation maps an empty file: protected, it faults by SIGSEGV, and even when it is opened for a
 * kernel it faults by SIGBUS, because no page lies behind it. So one mprotect over the used range opens all
 * allocations and no gap between them. An allocation maps memory over its pages, a free maps the empty file
 * back. Gaps between table entries are the free space; each allocation leaves one page of gap behind it.
 */
#include "backends/guard/device_guard.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/device_impl.h"

enum { MEMORY_ALIGNMENT = 64, FIRST_CAPACITY = 64 };

static const size_t RESERVE_BYTES_MAX = (size_t)64 << 30;
static const size_t RESERVE_BYTES_MIN = (size_t)1 << 30;

struct allocation {
    size_t first_page; /* counted from the start of the reservation */
    size_t page_count;
    unsigned char *memory; /* what the caller got: ends with the last page, so that overruns fault */
    size_t bytes;
};

struct device_guard {
    struct device device;
    unsigned char *base;
    size_t page_bytes;
    size_t reserved_pages;
    int empty_file;
    pthread_mutex_t lock;           /* guards all fields below */
    unsigned open_count;            /* kernels and copies that are running */
    struct allocation *allocations; /* sorted by first_page */
    size_t allocation_count;
    size_t allocation_capacity;
};

static struct device_guard *guard_of(struct device *device) {
    return (struct device_guard *)device;
}

static bool protect_used(struct device_guard *guard, int protection) {
    if (guard->allocation_count == 0) {
        return true;
    }
    const struct allocation *last = &guard->allocations[guard->allocation_count - 1];
    size_t used_pages = last->first_page + last->page_count;
    return mprotect(guard->base, used_pages * guard->page_bytes, protection) == 0;
}

static bool guard_open(struct device_guard *guard) {
    pthread_mutex_lock(&guard->lock);
    bool is_open = guard->open_count > 0 || protect_used(guard, PROT_READ | PROT_WRITE);
    if (is_open) {
        guard->open_count++;
    }
    pthread_mutex_unlock(&guard->lock);
    return is_open;
}

static void guard_close(struct device_guard *guard) {
    pthread_mutex_lock(&guard->lock);
    assert(guard->open_count > 0);
    guard->open_count--;
    if (guard->open_count == 0) {
        bool is_closed = protect_used(guard, PROT_NONE);
        assert(is_closed);
        (void)is_closed;
    }
    pthread_mutex_unlock(&guard->lock);
}

/* Puts the empty file back over pages, so that nothing is left there. */
static bool map_nothing(struct device_guard *guard, size_t first_page, size_t page_count) {
    size_t offset = first_page * guard->page_bytes;
    void *mapped = mmap(guard->base + offset, page_count * guard->page_bytes, PROT_NONE,
                        MAP_SHARED | MAP_NORESERVE | MAP_FIXED, guard->empty_file, (off_t)offset);
    return mapped != MAP_FAILED;
}

static void destroy_guard(struct device *device) {
    struct device_guard *guard = guard_of(device);
    if (guard->base != NULL) {
        munmap(guard->base, guard->reserved_pages * guard->page_bytes);
    }
    if (guard->empty_file >= 0) {
        close(guard->empty_file);
    }
    pthread_mutex_destroy(&guard->lock);
    free(guard->allocations);
    free(guard);
}

/* First fit: the table index of a new entry of `page_count` pages. False if no gap is large enough. */
static bool find_gap(const struct device_guard *guard, size_t page_count, size_t *index, size_t *first_page) {
    size_t start = 1; /* the page in front of the first allocation stays empty */
    for (size_t i = 0; i <= guard->allocation_count; i++) {
        bool is_last = i == guard->allocation_count;
        size_t end = is_last ? guard->reserved_pages : guard->allocations[i].first_page;
        if (end > start && end - start > page_count) {
            *index = i;
            *first_page = start;
            return true;
        }
        if (!is_last) {
            start = end + guard->allocations[i].page_count + 1;
        }
    }
    return false;
}

static enum status grow_table(struct device_guard *guard) {
    if (guard->allocation_count < guard->allocation_capacity) {
        return STATUS_OK;
    }
    size_t capacity = guard->allocation_capacity == 0 ? FIRST_CAPACITY : guard->allocation_capacity * 2;
    struct allocation *grown = realloc(guard->allocations, capacity * sizeof *grown);
    CHECK_MEMORY(grown);
    guard->allocations = grown;
    guard->allocation_capacity = capacity;
    return STATUS_OK;
}

/* The lock is held. */
static enum status add_allocation(struct device_guard *guard, size_t bytes, void **out) {
    size_t padded = (bytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
    size_t page_count = padded == 0 ? 1 : (padded - 1) / guard->page_bytes + 1;
    size_t index;
    size_t first_page;
    CHECK(find_gap(guard, page_count, &index, &first_page), STATUS_OUT_OF_MEMORY,
          "device guard cannot allocate %zu bytes: its %zu reserved pages have no gap that large; use a "
          "smaller model or context",
          bytes, guard->reserved_pages);
    TRY(grow_table(guard));
    unsigned char *start = guard->base + first_page * guard->page_bytes;
    size_t span_bytes = page_count * guard->page_bytes;
    void *mapped = mmap(start, span_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    CHECK(mapped != MAP_FAILED, STATUS_OUT_OF_MEMORY,
          "device guard cannot allocate %zu bytes: the system gives no more pages or mappings", bytes);
    memset(start, 0xFF, span_bytes);
    if (guard->open_count == 0 && mprotect(start, span_bytes, PROT_NONE) != 0) {
        map_nothing(guard, first_page, page_count);
        FAIL(STATUS_OUT_OF_MEMORY, "device guard cannot protect %zu bytes: the system gives no more mappings",
             bytes);
    }
    struct allocation *place = &guard->allocations[index];
    memmove(place + 1, place, (guard->allocation_count - index) * sizeof *place);
    *place = (struct allocation){first_page, page_count, start + span_bytes - padded, bytes};
    guard->allocation_count++;
    *out = place->memory;
    return STATUS_OK;
}

static enum status memory_alloc_guard(struct device *device, size_t bytes, void **out) {
    struct device_guard *guard = guard_of(device);
    pthread_mutex_lock(&guard->lock);
    enum status status = add_allocation(guard, bytes, out);
    pthread_mutex_unlock(&guard->lock);
    TRY(status);
    return STATUS_OK;
}

/* The allocation that holds `address`, NULL if none does. The lock is held. */
static struct allocation *find_allocation(const struct device_guard *guard, const void *address) {
    uintptr_t wanted = (uintptr_t)address;
    size_t low = 0;
    size_t high = guard->allocation_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)guard->allocations[middle].memory <= wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return NULL;
    }
    struct allocation *candidate = &guard->allocations[low - 1];
    size_t offset = wanted - (uintptr_t)candidate->memory;
    return offset < candidate->bytes || offset == 0 ? candidate : NULL;
}

static size_t memory_free_guard(struct device *device, void *memory) {
    struct device_guard *guard = guard_of(device);
    size_t bytes = 0;
    pthread_mutex_lock(&guard->lock);
    struct allocation *found = find_allocation(guard, memory);
    bool is_start = found != NULL && found->memory == memory;
    assert(is_start);
    if (is_start && map_nothing(guard, found->first_page, found->page_count)) {
        bytes = found->bytes;
        size_t index = (size_t)(found - guard->allocations);
        memmove(found, found + 1, (guard->allocation_count - index - 1) * sizeof *found);
        guard->allocation_count--;
    }
    pthread_mutex_unlock(&guard->lock);
    return bytes;
}

static enum status stream_create_guard(struct device *device, struct stream **out) {
    struct stream *stream = malloc(sizeof *stream);
    CHECK_MEMORY(stream);
    *stream = (struct stream){.device = device};
    *out = stream;
    return STATUS_OK;
}

static void stream_destroy_guard(struct stream *stream) {
    free(stream);
}

/* `what` names the range in the sentence: "the target of a copy to the device". */
static enum status check_device_range(struct device_guard *guard, const char *what, const void *start,
                                      size_t bytes) {
    pthread_mutex_lock(&guard->lock);
    const struct allocation *found = find_allocation(guard, start);
    bool is_found = found != NULL;
    size_t available = is_found ? found->bytes - ((uintptr_t)start - (uintptr_t)found->memory) : 0;
    pthread_mutex_unlock(&guard->lock);
    CHECK(is_found, STATUS_BAD_ARGUMENT,
          "%s, address %p, is in no allocation of device guard; pass memory from device_memory_alloc", what,
          start);
    CHECK(bytes <= available, STATUS_BAD_ARGUMENT,
          "%s is %zu bytes long, but its allocation on device guard ends after %zu; check offset and length",
          what, bytes, available);
    return STATUS_OK;
}

static enum status check_host_range(const struct device_guard *guard, const char *what, const void *start,
                                    size_t bytes) {
    uintptr_t first = (uintptr_t)start;
    uintptr_t base = (uintptr_t)guard->base;
    size_t reserved_bytes = guard->reserved_pages * guard->page_bytes;
    CHECK(first >= base + reserved_bytes || first + bytes <= base, STATUS_BAD_ARGUMENT,
          "%s, address %p, is memory of device guard; pass host memory, or copy within the device", what,
          start);
    return STATUS_OK;
}

static enum status copy_guard(struct stream *stream, void *to, const void *from, size_t bytes,
                              enum copy_direction direction) {
    struct device_guard *guard = guard_of(stream->device);
    switch (direction) {
    case COPY_TO_DEVICE:
        TRY(check_device_range(guard, "the target of a copy to the device", to, bytes));
        TRY(check_host_range(guard, "the source of a copy to the device", from, bytes));
        break;
    case COPY_TO_HOST:
        TRY(check_host_range(guard, "the target of a copy to the host", to, bytes));
        TRY(check_device_range(guard, "the source of a copy to the host", from, bytes));
        break;
    case COPY_WITHIN:
        TRY(check_device_range(guard, "the target of a copy within the device", to, bytes));
        TRY(check_device_range(guard, "the source of a copy within the device", from, bytes));
        break;
    }
    CHECK(guard_open(guard), STATUS_INTERNAL, "device guard could not open its memory for a copy");
    memcpy(to, from, bytes);
    guard_close(guard);
    return STATUS_OK;
}

static enum status fill_guard(struct stream *stream, void *memory, unsigned char byte, size_t bytes) {
    struct device_guard *guard = guard_of(stream->device);
    TRY(check_device_range(guard, "the target of a fill", memory, bytes));
    CHECK(guard_open(guard), STATUS_INTERNAL, "device guard could not open its memory for a fill");
    memset(memory, byte, bytes);
    guard_close(guard);
    return STATUS_OK;
}

static enum status synchronize_guard(struct stream *stream) {
    (void)stream;
    return STATUS_OK;
}

/* Calls run at once and the lock orders memory between threads, so an event carries nothing. */
static enum status event_create_guard(struct device *device, struct event **out) {
    struct event *event = malloc(sizeof *event);
    CHECK_MEMORY(event);
    *event = (struct event){.device = device};
    *out = event;
    return STATUS_OK;
}

static void event_destroy_guard(struct event *event) {
    free(event);
}

static enum status event_do_nothing_guard(struct stream *stream, struct event *event) {
    (void)stream;
    (void)event;
    return STATUS_OK;
}

static void kernel_enter_guard(struct stream *stream) {
    bool is_open = guard_open(guard_of(stream->device));
    assert(is_open);
    (void)is_open;
}

static void kernel_leave_guard(struct stream *stream) {
    guard_close(guard_of(stream->device));
}

static const struct device_functions functions_guard = {
    .name = "guard",
    .reads_host_memory = false,
    .destroy = destroy_guard,
    .memory_alloc = memory_alloc_guard,
    .memory_free = memory_free_guard,
    .stream_create = stream_create_guard,
    .stream_destroy = stream_destroy_guard,
    .copy = copy_guard,
    .fill = fill_guard,
    .synchronize = synchronize_guard,
    .event_create = event_create_guard,
    .event_destroy = event_destroy_guard,
    .event_record = event_do_nothing_guard,
    .event_wait = event_do_nothing_guard,
    .kernel_enter = kernel_enter_guard,
    .kernel_leave = kernel_leave_guard,
};

/* Reserves addresses: as many as the system gives, up to RESERVE_BYTES_MAX. */
static enum status reserve_range(struct device_guard *guard) {
    guard->empty_file = memfd_create("sluice_guard", MFD_CLOEXEC);
    CHECK(guard->empty_file >= 0, STATUS_UNSUPPORTED,
          "device guard needs memfd_create, which this system refuses; use device cpu");
    for (size_t bytes = RESERVE_BYTES_MAX; bytes >= RESERVE_BYTES_MIN; bytes /= 2) {
        void *mapped = mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, guard->empty_file, 0);
        if (mapped != MAP_FAILED) {
            guard->base = mapped;
            guard->reserved_pages = bytes / guard->page_bytes;
            return STATUS_OK;
        }
    }
    FAIL(STATUS_UNSUPPORTED,
         "device guard cannot reserve %zu bytes of addresses; raise the limit of ulimit -v",
         RESERVE_BYTES_MIN);
}

enum status device_guard_create(struct device **out) {
    enum status status = STATUS_OK;
    *out = NULL;
    struct device_guard *guard = calloc(1, sizeof *guard);
    CHECK_MEMORY(guard);
    guard->device.functions = &functions_guard;
    atomic_init(&guard->device.allocated_bytes, 0);
    guard->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    guard->empty_file = -1;
    pthread_mutex_init(&guard->lock, NULL);
    TRY_GOTO(reserve_range(guard));
    *out = &guard->device;
    return STATUS_OK;
fail:
    destroy_guard(&guard->device);
    return status;
}
