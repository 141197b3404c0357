/* Quotas read from made-up trees of both control group versions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/cgroup_quota.h"
#include "support/temporary_directory.h"

/* B171: one and a half cores are two threads. */
static void test_version_2_rounds_up(void **state) {
    (void)state;
    temporary_file_write("membership", "0::/job\n");
    temporary_file_write("mount/job/cpu.max", "150000 100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 2);
    temporary_file_write("mount/job/cpu.max", "200000 100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 2);
    temporary_file_write("mount/job/cpu.max", "5000 100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 1);
}

static void test_version_2_without_limit(void **state) {
    (void)state;
    temporary_file_write("membership", "0::/job\n");
    temporary_file_write("mount/job/cpu.max", "max 100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 0);
    assert_int_equal(cgroup_quota_cores("membership", "elsewhere"), 0);
    assert_int_equal(cgroup_quota_cores("missing", "mount"), 0);
}

static void test_the_tightest_parent_counts(void **state) {
    (void)state;
    temporary_file_write("membership", "0::/outer/inner\n");
    temporary_file_write("mount/cpu.max", "800000 100000\n");
    temporary_file_write("mount/outer/cpu.max", "300000 100000\n");
    temporary_file_write("mount/outer/inner/cpu.max", "500000 100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 3);
}

static void test_group_path_of_the_host(void **state) {
    (void)state;
    /* Inside a container the host's path is not mounted, the mount point is the container's group. */
    temporary_file_write("membership", "0::/host/path/of/container\n");
    temporary_file_write("mount/cpu.max", "400000 100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 4);
}

static void test_version_1(void **state) {
    (void)state;
    temporary_file_write("membership", "5:cpuset:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/job\n");
    temporary_file_write("mount/cpu/job/cpu.cfs_quota_us", "250000\n");
    temporary_file_write("mount/cpu/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 3);
    temporary_file_write("mount/cpu/job/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 0);
    /* Only the controller named "cpu" counts. */
    temporary_file_write("mount/cpu/job/cpu.cfs_quota_us", "250000\n");
    temporary_file_write("membership", "5:cpuset:/job\n2:cpuacct:/job\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_version_2_rounds_up, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_version_2_without_limit, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_the_tightest_parent_counts, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_group_path_of_the_host, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_version_1, enter_temporary_directory, leave_temporary_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
