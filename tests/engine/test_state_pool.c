/* The state's memory: zeroed by all threads up to its last byte, on a device that watches over accesses too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backends/backend_registry.h"
#include "engine/state_pool.h"

/* Some slices of 2 MB and an odd rest. */
enum { SLOTS = 3, POSITIONS = 5000, WIDTH = 128 };

static void spread_zeroes_all(const char *device_name, unsigned threads) {
    const struct backend *backend;
    struct device *device;
    struct stream *stream;
    struct worker_pool *workers;
    struct state_pool pool;
    struct state_kind kind = {.name = "entries", .shape = STATE_APPEND, .ratio = 1, .row = ROW_KIND_FLOAT};
    kind.width = WIDTH;
    const struct state_table table = {.kinds = &kind, .count = 1};
    assert_int_equal(backend_find(device_name, &backend), STATUS_OK);
    assert_int_equal(backend->device_create(&device), STATUS_OK);
    assert_int_equal(device_stream_create(device, &stream), STATUS_OK);
    assert_int_equal(worker_pool_create(threads, &workers), STATUS_OK);
    assert_int_equal(state_pool_init(&pool, device, &table, NUMERICS_NATIVE, SLOTS, POSITIONS), STATUS_OK);
    assert_true(pool.bytes % (2 << 20) != 0);
    assert_int_equal(stream_fill(stream, pool.memory, 0xA5, pool.bytes), STATUS_OK);
    assert_int_equal(state_pool_spread(&pool, workers), STATUS_OK);
    unsigned char *bytes = malloc(pool.bytes);
    assert_non_null(bytes);
    assert_int_equal(stream_copy_to_host(stream, bytes, pool.memory, pool.bytes), STATUS_OK);
    assert_int_equal(stream_synchronize(stream), STATUS_OK);
    for (size_t i = 0; i < pool.bytes; i++) {
        if (bytes[i] != 0) {
            fail_msg("byte %zu of %zu is not zero", i, pool.bytes);
        }
    }
    free(bytes);
    state_pool_deinit(&pool);
    worker_pool_destroy(&workers);
    device_stream_destroy(&stream);
    device_destroy(&device);
}

static void all_bytes_are_zeroed(void **state) {
    (void)state;
    spread_zeroes_all("cpu", 1);
    spread_zeroes_all("cpu", 3);
    spread_zeroes_all("guard", 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_bytes_are_zeroed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
