/* What device.h promises, run on every device that lives in host memory. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/device_cpu.h"
#include "backends/guard/device_guard.h"
#include "device/device.h"
#include "device/device_impl.h"

/* So that an allocation of impossible size fails under the sanitizers as it does without. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);

const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void) {
    return "allocator_may_return_null=1";
}

struct fixture {
    struct device *device;
    struct stream *stream;
};

static int set_up(void **state, enum status (*create)(struct device **out)) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    assert_int_equal(create(&fixture->device), STATUS_OK);
    assert_int_equal(device_stream_create(fixture->device, &fixture->stream), STATUS_OK);
    *state = fixture;
    return 0;
}

static int set_up_cpu(void **state) {
    return set_up(state, device_cpu_create);
}

static int set_up_guard(void **state) {
    return set_up(state, device_guard_create);
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    device_stream_destroy(&fixture->stream);
    assert_null(fixture->stream);
    device_destroy(&fixture->device);
    assert_null(fixture->device);
    device_destroy(&fixture->device);
    device_stream_destroy(&fixture->stream);
    free(fixture);
    return 0;
}

static void *allocate(struct fixture *fixture, size_t bytes) {
    void *memory = NULL;
    assert_int_equal(device_memory_alloc(fixture->device, bytes, &memory), STATUS_OK);
    assert_non_null(memory);
    return memory;
}

static void names_and_kinds(void **state) {
    struct fixture *fixture = *state;
    bool is_cpu = strcmp(device_name(fixture->device), "cpu") == 0;
    assert_true(is_cpu || strcmp(device_name(fixture->device), "guard") == 0);
    assert_int_equal(device_reads_host_memory(fixture->device), is_cpu);
    assert_ptr_equal(stream_device(fixture->stream), fixture->device);
}

static void memory_is_aligned_and_counted(void **state) {
    struct fixture *fixture = *state;
    static const size_t sizes[] = {1, 63, 64, 65, 4095, 4096, 4097, 100000, 0};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    void *memories[COUNT];
    size_t total = 0;
    assert_int_equal(device_memory_bytes(fixture->device), 0);
    for (size_t i = 0; i < COUNT; i++) {
        memories[i] = allocate(fixture, sizes[i]);
        total += sizes[i];
        assert_int_equal((uintptr_t)memories[i] % 64, 0);
        assert_int_equal(device_memory_bytes(fixture->device), total);
        for (size_t j = 0; j < i; j++) {
            assert_ptr_not_equal(memories[i], memories[j]);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        size_t k = (i * 4 + 1) % COUNT;
        device_memory_free(fixture->device, &memories[k]);
        assert_null(memories[k]);
        total -= sizes[k];
        assert_int_equal(device_memory_bytes(fixture->device), total);
        device_memory_free(fixture->device, &memories[k]);
    }
    assert_int_equal(total, 0);
}

static void copies_move_bytes(void **state) {
    struct fixture *fixture = *state;
    unsigned char source[5000];
    unsigned char target[5000];
    for (size_t i = 0; i < sizeof source; i++) {
        source[i] = (unsigned char)(i * 31 + i / 256);
    }
    unsigned char *first = allocate(fixture, sizeof source);
    unsigned char *second = allocate(fixture, sizeof source);
    assert_int_equal(stream_copy_to_device(fixture->stream, first, source, sizeof source), STATUS_OK);
    assert_int_equal(stream_fill(fixture->stream, second, 0xA5, sizeof source), STATUS_OK);
    assert_int_equal(stream_copy_within(fixture->stream, second + 100, first + 7, 4000), STATUS_OK);
    assert_int_equal(stream_copy_to_host(fixture->stream, target, second, sizeof target), STATUS_OK);
    assert_int_equal(stream_synchronize(fixture->stream), STATUS_OK);
    for (size_t i = 0; i < sizeof target; i++) {
        unsigned char expected = i >= 100 && i < 4100 ? source[i - 100 + 7] : 0xA5;
        assert_int_equal(target[i], expected);
    }
    /* Two halves of one allocation that only touch do not overlap. */
    assert_int_equal(stream_copy_within(fixture->stream, first, first + 2500, 2500), STATUS_OK);
    assert_int_equal(stream_copy_to_host(fixture->stream, target, first, 2500), STATUS_OK);
    assert_int_equal(stream_synchronize(fixture->stream), STATUS_OK);
    assert_memory_equal(target, source + 2500, 2500);
    device_memory_free(fixture->device, (void **)&first);
    device_memory_free(fixture->device, (void **)&second);
}

static void kernels_read_and_write(void **state) {
    struct fixture *fixture = *state;
    float values[3] = {1.5f, -2.0f, 8.0f};
    float *memory = allocate(fixture, sizeof values);
    assert_int_equal(stream_copy_to_device(fixture->stream, memory, values, sizeof values), STATUS_OK);
    stream_kernel_enter(fixture->stream);
    stream_kernel_enter(fixture->stream);
    memory[0] *= 2.0f;
    stream_kernel_leave(fixture->stream);
    memory[2] = memory[0] + memory[1];
    stream_kernel_leave(fixture->stream);
    assert_int_equal(stream_copy_to_host(fixture->stream, values, memory, sizeof values), STATUS_OK);
    assert_int_equal(stream_synchronize(fixture->stream), STATUS_OK);
    assert_true(values[0] == 3.0f && values[1] == -2.0f && values[2] == 1.0f);
    device_memory_free(fixture->device, (void **)&memory);
}

static void nothing_to_copy_is_no_error(void **state) {
    struct fixture *fixture = *state;
    assert_int_equal(stream_copy_to_device(fixture->stream, NULL, NULL, 0), STATUS_OK);
    assert_int_equal(stream_copy_to_host(fixture->stream, NULL, NULL, 0), STATUS_OK);
    assert_int_equal(stream_copy_within(fixture->stream, NULL, NULL, 0), STATUS_OK);
    assert_int_equal(stream_fill(fixture->stream, NULL, 1, 0), STATUS_OK);
}

static void assert_says(enum status actual, enum status expected, const char *words) {
    assert_int_equal(actual, expected);
    assert_int_equal(error_last()->status, expected);
    if (strstr(error_last()->message, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error_last()->message, words);
    }
}

static void mistakes_are_named(void **state) {
    struct fixture *fixture = *state;
    struct stream *stream = fixture->stream;
    char host[64] = {0};
    char *memory = allocate(fixture, 64);
    assert_says(stream_copy_to_device(stream, NULL, host, 8), STATUS_BAD_ARGUMENT, "a copy of 8 bytes");
    assert_says(stream_copy_to_device(stream, memory, NULL, 8), STATUS_BAD_ARGUMENT, "comes from");
    assert_says(stream_copy_to_host(stream, NULL, memory, 8), STATUS_BAD_ARGUMENT, "goes to");
    assert_says(stream_copy_to_host(stream, host, memory, SIZE_MAX), STATUS_BAD_ARGUMENT, "cannot hold");
    assert_says(stream_fill(stream, NULL, 0, 3), STATUS_BAD_ARGUMENT, "a fill of 3 bytes");
    assert_says(stream_copy_within(stream, memory, memory + 10, 11), STATUS_BAD_ARGUMENT, "overlap");
    assert_says(stream_copy_within(stream, memory + 10, memory, 11), STATUS_BAD_ARGUMENT, "overlap");
    device_memory_free(fixture->device, (void **)&memory);

    void *too_large = host;
    size_t before = device_memory_bytes(fixture->device);
    assert_says(device_memory_alloc(fixture->device, SIZE_MAX, &too_large), STATUS_OUT_OF_MEMORY,
                "18446744073709551615 bytes");
    assert_null(too_large);
    /* Half of all addresses: passes the first check, no system gives it. */
    assert_says(device_memory_alloc(fixture->device, PTRDIFF_MAX, &too_large), STATUS_OUT_OF_MEMORY,
                "9223372036854775807 bytes");
    assert_null(too_large);
    assert_int_equal(device_memory_bytes(fixture->device), before);
}

static void events_belong_to_their_device(void **state) {
    struct fixture *fixture = *state;
    struct event *event = NULL;
    struct event *foreign = NULL;
    struct device *other = NULL;
    struct stream *second = NULL;
    assert_int_equal(device_stream_create(fixture->device, &second), STATUS_OK);
    assert_int_equal(device_event_create(fixture->device, &event), STATUS_OK);
    assert_int_equal(stream_wait_event(second, event), STATUS_OK);
    assert_int_equal(stream_record_event(fixture->stream, event), STATUS_OK);
    assert_int_equal(stream_wait_event(second, event), STATUS_OK);
    assert_int_equal(device_cpu_create(&other), STATUS_OK);
    assert_int_equal(device_event_create(other, &foreign), STATUS_OK);
    assert_says(stream_record_event(second, foreign), STATUS_BAD_ARGUMENT, "another device");
    assert_says(stream_wait_event(second, foreign), STATUS_BAD_ARGUMENT, "another device");
    device_event_destroy(&event);
    assert_null(event);
    device_event_destroy(&event);
    device_event_destroy(&foreign);
    device_destroy(&other);
    device_stream_destroy(&second);
}

enum { THREADS = 4, ROUNDS = 200 };

/* Each thread has its own stream and checks that its own bytes come back. */
static void *allocate_and_copy(void *argument) {
    struct device *device = argument;
    struct stream *stream = NULL;
    size_t failures = device_stream_create(device, &stream) != STATUS_OK;
    for (unsigned round = 0; round < ROUNDS && failures == 0; round++) {
        size_t bytes = 1 + round * 37u % 9000u;
        unsigned char sent = (unsigned char)(round + (uintptr_t)stream / 64);
        unsigned char received = (unsigned char)~sent;
        unsigned char *memory = NULL;
        failures += device_memory_alloc(device, bytes, (void **)&memory) != STATUS_OK;
        failures += stream_fill(stream, memory, sent, bytes) != STATUS_OK;
        failures += stream_copy_to_host(stream, &received, memory + bytes - 1, 1) != STATUS_OK;
        failures += stream_synchronize(stream) != STATUS_OK;
        failures += received != sent;
        device_memory_free(device, (void **)&memory);
    }
    device_stream_destroy(&stream);
    return (void *)failures;
}

static void threads_share_a_device(void **state) {
    struct fixture *fixture = *state;
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_copy, fixture->device), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *failures = NULL;
        assert_int_equal(pthread_join(threads[i], &failures), 0);
        assert_null(failures);
    }
    assert_int_equal(device_memory_bytes(fixture->device), 0);
}

#define ON_BOTH_DEVICES(test)                                  \
    {#test " on cpu", test, set_up_cpu, tear_down, NULL}, {    \
#test " on guard", test, set_up_guard, tear_down, NULL \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH_DEVICES(names_and_kinds),
        ON_BOTH_DEVICES(memory_is_aligned_and_counted),
        ON_BOTH_DEVICES(copies_move_bytes),
        ON_BOTH_DEVICES(kernels_read_and_write),
        ON_BOTH_DEVICES(nothing_to_copy_is_no_error),
        ON_BOTH_DEVICES(mistakes_are_named),
        ON_BOTH_DEVICES(events_belong_to_their_device),
        ON_BOTH_DEVICES(threads_share_a_device),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
