/*
 * What only the guard device does: it kills whoever touches its memory where nobody may.
 *
 * Each forbidden access runs in a child process whose signal is the result.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/guard/device_guard.h"
#include "device/device_impl.h"

enum { BYTES = 1000, PADDED_BYTES = 1024 };

struct fixture {
    struct device *device;
    struct stream *stream;
    unsigned char *memory; /* BYTES long */
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    assert_int_equal(device_guard_create(&fixture->device), STATUS_OK);
    assert_int_equal(device_stream_create(fixture->device, &fixture->stream), STATUS_OK);
    assert_int_equal(device_memory_alloc(fixture->device, BYTES, (void **)&fixture->memory), STATUS_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    device_memory_free(fixture->device, (void **)&fixture->memory);
    assert_int_equal(device_memory_bytes(fixture->device), 0);
    device_stream_destroy(&fixture->stream);
    device_destroy(&fixture->device);
    free(fixture);
    return 0;
}

/* The signal that `access` dies by in a child process, 0 if it returns. */
static int signal_of(void (*access)(struct fixture *fixture), struct fixture *fixture) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        access(fixture);
        _exit(0);
    }
    int wait_status = 0;
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    if (WIFSIGNALED(wait_status)) {
        return WTERMSIG(wait_status);
    }
    assert_int_equal(WEXITSTATUS(wait_status), 0);
    return 0;
}

static void read_first(struct fixture *fixture) {
    (void)*(volatile unsigned char *)fixture->memory;
}

static void read_last(struct fixture *fixture) {
    (void)*(volatile unsigned char *)(fixture->memory + BYTES - 1);
}

static void write_first(struct fixture *fixture) {
    *(volatile unsigned char *)fixture->memory = 1;
}

static void read_in_kernel(struct fixture *fixture) {
    stream_kernel_enter(fixture->stream);
    read_first(fixture);
    read_last(fixture);
    stream_kernel_leave(fixture->stream);
}

static void write_in_kernel(struct fixture *fixture) {
    stream_kernel_enter(fixture->stream);
    write_first(fixture);
    stream_kernel_leave(fixture->stream);
}

static void read_after_kernel(struct fixture *fixture) {
    read_in_kernel(fixture);
    read_first(fixture);
}

static void read_in_nested_kernel(struct fixture *fixture) {
    stream_kernel_enter(fixture->stream);
    read_in_kernel(fixture);
    read_first(fixture);
    stream_kernel_leave(fixture->stream);
}

static void read_after_nested_kernel(struct fixture *fixture) {
    read_in_nested_kernel(fixture);
    read_first(fixture);
}

static void read_after_copy(struct fixture *fixture) {
    char byte;
    if (stream_copy_to_host(fixture->stream, &byte, fixture->memory, 1) == STATUS_OK) {
        read_first(fixture);
    }
}

static void read_past_end_in_kernel(struct fixture *fixture) {
    stream_kernel_enter(fixture->stream);
    (void)*(volatile unsigned char *)(fixture->memory + PADDED_BYTES);
    stream_kernel_leave(fixture->stream);
}

/* A second allocation behind it must not make the gap between them readable. */
static void read_past_end_between_allocations(struct fixture *fixture) {
    void *second;
    if (device_memory_alloc(fixture->device, BYTES, &second) == STATUS_OK) {
        read_past_end_in_kernel(fixture);
    }
}

static void read_freed_in_kernel(struct fixture *fixture) {
    unsigned char *freed = fixture->memory;
    void *second;
    if (device_memory_alloc(fixture->device, BYTES, &second) == STATUS_OK) {
        device_memory_free(fixture->device, (void **)&fixture->memory);
        stream_kernel_enter(fixture->stream);
        (void)*(volatile unsigned char *)freed;
    }
}

static void use_memory_from_inside_kernel(struct fixture *fixture) {
    stream_kernel_enter(fixture->stream);
    unsigned char *second;
    if (device_memory_alloc(fixture->device, BYTES, (void **)&second) == STATUS_OK) {
        second[0] = fixture->memory[0];
    }
    stream_kernel_leave(fixture->stream);
}

static void use_memory_from_inside_kernel_later(struct fixture *fixture) {
    stream_kernel_enter(fixture->stream);
    unsigned char *second;
    enum status status = device_memory_alloc(fixture->device, BYTES, (void **)&second);
    stream_kernel_leave(fixture->stream);
    if (status == STATUS_OK) {
        second[0] = 1;
    }
}

static void access_outside_kernels_dies(void **state) {
    assert_int_equal(signal_of(read_first, *state), SIGSEGV);
    assert_int_equal(signal_of(read_last, *state), SIGSEGV);
    assert_int_equal(signal_of(write_first, *state), SIGSEGV);
    assert_int_equal(signal_of(read_after_kernel, *state), SIGSEGV);
    assert_int_equal(signal_of(read_after_nested_kernel, *state), SIGSEGV);
    assert_int_equal(signal_of(read_after_copy, *state), SIGSEGV);
    assert_int_equal(signal_of(use_memory_from_inside_kernel_later, *state), SIGSEGV);
}

static void access_inside_kernels_works(void **state) {
    assert_int_equal(signal_of(read_in_kernel, *state), 0);
    assert_int_equal(signal_of(write_in_kernel, *state), 0);
    assert_int_equal(signal_of(read_in_nested_kernel, *state), 0);
    assert_int_equal(signal_of(use_memory_from_inside_kernel, *state), 0);
}

static void access_to_no_allocation_dies_in_kernels_too(void **state) {
    assert_int_equal(signal_of(read_past_end_in_kernel, *state), SIGSEGV);
    assert_int_equal(signal_of(read_past_end_between_allocations, *state), SIGBUS);
    assert_int_equal(signal_of(read_freed_in_kernel, *state), SIGBUS);
}

static void new_memory_is_not_a_number(void **state) {
    struct fixture *fixture = *state;
    unsigned char host[BYTES];
    for (int round = 0; round < 3; round++) {
        assert_int_equal(stream_copy_to_host(fixture->stream, host, fixture->memory, BYTES), STATUS_OK);
        for (size_t i = 0; i < BYTES; i++) {
            assert_int_equal(host[i], 0xFF);
        }
        /* Used again, the same pages are as new. */
        assert_int_equal(stream_fill(fixture->stream, fixture->memory, 0, BYTES), STATUS_OK);
        unsigned char *before = fixture->memory;
        device_memory_free(fixture->device, (void **)&fixture->memory);
        assert_int_equal(device_memory_alloc(fixture->device, BYTES, (void **)&fixture->memory), STATUS_OK);
        assert_ptr_equal(fixture->memory, before);
    }
}

static void freed_memory_is_used_again(void **state) {
    enum { PAGE = 4096, COUNT = 6 };
    struct fixture *fixture = *state;
    unsigned char *memories[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(device_memory_alloc(fixture->device, PAGE, (void **)&memories[i]), STATUS_OK);
    }
    /* Two neighbours with the gap between them make room for three pages, not for four. */
    unsigned char *gap = memories[1];
    device_memory_free(fixture->device, (void **)&memories[1]);
    device_memory_free(fixture->device, (void **)&memories[2]);
    void *large = NULL;
    void *fitting = NULL;
    long page_bytes = sysconf(_SC_PAGESIZE);
    if (page_bytes == PAGE) {
        assert_int_equal(device_memory_alloc(fixture->device, (size_t)4 * PAGE, &large), STATUS_OK);
        assert_true((unsigned char *)large > memories[5]);
        assert_int_equal(device_memory_alloc(fixture->device, (size_t)3 * PAGE, &fitting), STATUS_OK);
        assert_ptr_equal(fitting, gap);
    }
    for (size_t i = 0; i < COUNT; i++) {
        device_memory_free(fixture->device, (void **)&memories[i]);
    }
    device_memory_free(fixture->device, &large);
    device_memory_free(fixture->device, &fitting);
    assert_int_equal(device_memory_bytes(fixture->device), BYTES);
}

static void assert_says(enum status actual, const char *words) {
    assert_int_equal(actual, STATUS_BAD_ARGUMENT);
    if (strstr(error_last()->message, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error_last()->message, words);
    }
}

static void copies_in_the_wrong_direction_are_errors(void **state) {
    struct fixture *fixture = *state;
    struct stream *stream = fixture->stream;
    unsigned char host[BYTES] = {0};
    unsigned char *second = NULL;
    assert_int_equal(device_memory_alloc(fixture->device, BYTES, (void **)&second), STATUS_OK);
    assert_says(stream_copy_to_device(stream, second, fixture->memory, 4), "is memory of device guard");
    assert_says(stream_copy_to_host(stream, second, fixture->memory, 4), "is memory of device guard");
    assert_says(stream_copy_to_device(stream, host, second, 4), "in no allocation");
    assert_says(stream_copy_to_host(stream, second, host, 4), "is memory of device guard");
    assert_says(stream_copy_to_host(stream, host, host + 100, 4), "in no allocation");
    assert_says(stream_copy_within(stream, second, host, 4), "in no allocation");
    assert_says(stream_copy_within(stream, host, second, 4), "in no allocation");
    assert_says(stream_fill(stream, host, 0, 4), "in no allocation");
    device_memory_free(fixture->device, (void **)&second);
}

static void ranges_end_with_their_allocation(void **state) {
    struct fixture *fixture = *state;
    struct stream *stream = fixture->stream;
    unsigned char host[2 * BYTES] = {0};
    assert_int_equal(stream_copy_to_device(stream, fixture->memory + 1, host, BYTES - 1), STATUS_OK);
    assert_says(stream_copy_to_device(stream, fixture->memory + 1, host, BYTES), "ends after 999");
    assert_says(stream_copy_to_host(stream, host, fixture->memory, BYTES + 1), "ends after 1000");
    assert_says(stream_fill(stream, fixture->memory + 990, 0, 11), "ends after 10");
    assert_says(stream_fill(stream, fixture->memory - 1, 0, 1), "in no allocation");
    assert_says(stream_fill(stream, fixture->memory + BYTES, 0, 1), "in no allocation");
    unsigned char *freed = fixture->memory;
    device_memory_free(fixture->device, (void **)&fixture->memory);
    assert_says(stream_fill(stream, freed, 0, 1), "in no allocation");
}

/* Against a plain list of what is allocated: many sizes, freed in mixed order, never overlapping. */
static void many_allocations_stay_apart(void **state) {
    enum { COUNT = 300 };
    struct fixture *fixture = *state;
    unsigned char *memories[COUNT] = {NULL};
    size_t sizes[COUNT] = {0};
    uint32_t random = 12345;
    for (int round = 0; round < 3000; round++) {
        random = random * 1664525u + 1013904223u;
        size_t i = (random >> 8) % COUNT;
        if (memories[i] != NULL) {
            unsigned char first;
            unsigned char last;
            assert_int_equal(stream_copy_to_host(fixture->stream, &first, memories[i], 1), STATUS_OK);
            assert_int_equal(stream_copy_to_host(fixture->stream, &last, memories[i] + sizes[i] - 1, 1),
                             STATUS_OK);
            assert_int_equal(first, i & 0xFF);
            assert_int_equal(last, i & 0xFF);
            device_memory_free(fixture->device, (void **)&memories[i]);
        } else {
            sizes[i] = 1 + (random >> 4) % 20000;
            assert_int_equal(device_memory_alloc(fixture->device, sizes[i], (void **)&memories[i]),
                             STATUS_OK);
            assert_int_equal(stream_fill(fixture->stream, memories[i], (unsigned char)i, sizes[i]),
                             STATUS_OK);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        device_memory_free(fixture->device, (void **)&memories[i]);
    }
    assert_int_equal(device_memory_bytes(fixture->device), BYTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(access_outside_kernels_dies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(access_inside_kernels_works, set_up, tear_down),
        cmocka_unit_test_setup_teardown(access_to_no_allocation_dies_in_kernels_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(new_memory_is_not_a_number, set_up, tear_down),
        cmocka_unit_test_setup_teardown(freed_memory_is_used_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies_in_the_wrong_direction_are_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ranges_end_with_their_allocation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_allocations_stay_apart, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("device_guard", tests, NULL, NULL);
}
