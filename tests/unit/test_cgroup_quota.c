/* Quotas read from made-up trees of both control group versions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cgroup_quota.h"
#include "support/temporary_directory.h"

/* Writes a file and the folders above it. */
static void write_file(const char *path, const char *text) {
    char folder[256];
    strcpy(folder, path);
    for (char *slash = strchr(folder, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(folder, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void test_version_2_rounds_up(void **state) {
    (void)state;
    write_file("membership", "0::/job\n");
    write_file("mount/job/cpu.max", "150000 100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 2);
    write_file("mount/job/cpu.max", "200000 100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 2);
    write_file("mount/job/cpu.max", "5000 100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 1);
}

static void test_version_2_without_limit(void **state) {
    (void)state;
    write_file("membership", "0::/job\n");
    write_file("mount/job/cpu.max", "max 100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 0);
    assert_int_equal(cgroup_quota_cores("membership", "elsewhere"), 0);
    assert_int_equal(cgroup_quota_cores("missing", "mount"), 0);
}

static void test_the_tightest_parent_counts(void **state) {
    (void)state;
    write_file("membership", "0::/outer/inner\n");
    write_file("mount/cpu.max", "800000 100000\n");
    write_file("mount/outer/cpu.max", "300000 100000\n");
    write_file("mount/outer/inner/cpu.max", "500000 100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 3);
}

static void test_group_path_of_the_host(void **state) {
    (void)state;
    /* Inside a container the host's path is not mounted, the mount point is the container's group. */
    write_file("membership", "0::/host/path/of/container\n");
    write_file("mount/cpu.max", "400000 100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 4);
}

static void test_version_1(void **state) {
    (void)state;
    write_file("membership", "5:cpuset:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/job\n");
    write_file("mount/cpu/job/cpu.cfs_quota_us", "250000\n");
    write_file("mount/cpu/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 3);
    write_file("mount/cpu/job/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(cgroup_quota_cores("membership", "mount"), 0);
    /* Only the controller named "cpu" counts. */
    write_file("mount/cpu/job/cpu.cfs_quota_us", "250000\n");
    write_file("membership", "5:cpuset:/job\n2:cpuacct:/job\n");
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
