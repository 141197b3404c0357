/* Free memory read from made-up trees of both control group versions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/memory_available.h"
#include "support/temporary_directory.h"

static uint64_t available(void) {
    return memory_available_bytes("meminfo", "membership", "mount");
}

static void test_the_system_alone(void **state) {
    (void)state;
    assert_true(available() == UINT64_MAX);
    temporary_file_write("meminfo", "MemTotal: 4000 kB\nMemFree: 100 kB\nMemAvailable:    2000 kB\n");
    assert_true(available() == 2000 * 1024);
    temporary_file_write("membership", "0::/job\n");
    temporary_file_write("mount/job/memory.max", "max\n");
    temporary_file_write("mount/job/memory.current", "5000\n");
    assert_true(available() == 2000 * 1024);
}

static void test_version_2(void **state) {
    (void)state;
    temporary_file_write("meminfo", "MemAvailable: 2000 kB\n");
    temporary_file_write("membership", "0::/outer/inner\n");
    temporary_file_write("mount/outer/inner/memory.max", "1000000\n");
    temporary_file_write("mount/outer/inner/memory.current", "400000\n");
    assert_true(available() == 600000);
    temporary_file_write("mount/outer/inner/memory.stat", "anon 5\ninactive_file 150000\nactive_file 7\n");
    assert_true(available() == 750000);
    /* A parent leaves less. */
    temporary_file_write("mount/outer/memory.max", "900000\n");
    temporary_file_write("mount/outer/memory.current", "800000\n");
    assert_true(available() == 100000);
    temporary_file_write("mount/outer/memory.current", "950000\n");
    assert_true(available() == 0);
}

static void test_version_1(void **state) {
    (void)state;
    temporary_file_write("meminfo", "MemAvailable: 2000 kB\n");
    temporary_file_write("membership", "5:memory:/job\n4:cpu:/job\n");
    temporary_file_write("mount/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    temporary_file_write("mount/memory/job/memory.usage_in_bytes", "300000\n");
    assert_true(available() == 2000 * 1024);
    temporary_file_write("mount/memory/job/memory.limit_in_bytes", "500000\n");
    temporary_file_write("mount/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 50000\n");
    assert_true(available() == 250000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_system_alone, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_version_2, enter_temporary_directory, leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_version_1, enter_temporary_directory, leave_temporary_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
