/* Cores from made-up trees of sibling lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cpu_topology.h"
#include "support/temporary_directory.h"

static void write_siblings(int cpu, const char *list) {
    char path[128];
    snprintf(path, sizeof path, "cpu%d", cpu);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "cpu%d/topology", cpu);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "cpu%d/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(list, file);
    assert_int_equal(fclose(file), 0);
}

static void allow(cpu_set_t *set, const int *cpus, size_t count) {
    CPU_ZERO(set);
    for (size_t i = 0; i < count; i++) {
        CPU_SET((size_t)cpus[i], set);
    }
}

/* Four cores of two threads: 0 and 4, 1 and 5, ... */
static void write_four_cores(void) {
    for (int cpu = 0; cpu < 8; cpu++) {
        char list[32];
        snprintf(list, sizeof list, "%d,%d\n", cpu % 4, cpu % 4 + 4);
        write_siblings(cpu, list);
    }
}

static void test_siblings_are_one_core(void **state) {
    (void)state;
    static struct cpu_topology topology;
    cpu_set_t allowed;
    write_four_cores();
    allow(&allowed, (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
    cpu_topology_read(".", &allowed, &topology);
    assert_int_equal(topology.core_count, 4);
    for (int cpu = 0; cpu < 8; cpu++) {
        assert_int_equal(topology.cores[cpu], cpu % 4);
    }
    assert_int_equal(topology.cores[8], CPU_CORE_NONE);
    cpu_set_t core;
    cpu_set_t expected;
    cpu_topology_core_set(&topology, 2, &core);
    allow(&expected, (int[]){2, 6}, 2);
    assert_true(CPU_EQUAL(&core, &expected));
}

static void test_only_allowed_processors_count(void **state) {
    (void)state;
    static struct cpu_topology topology;
    cpu_set_t allowed;
    write_four_cores();
    /* Both threads of core 1, and the second thread of core 3. */
    allow(&allowed, (int[]){1, 5, 7}, 3);
    cpu_topology_read(".", &allowed, &topology);
    assert_int_equal(topology.core_count, 2);
    assert_int_equal(topology.cores[1], 0);
    assert_int_equal(topology.cores[5], 0);
    assert_int_equal(topology.cores[7], 1);
    assert_int_equal(topology.cores[3], CPU_CORE_NONE);
}

static void test_ranges_and_odd_files(void **state) {
    (void)state;
    static struct cpu_topology topology;
    cpu_set_t allowed;
    write_siblings(0, "0-1,4-5\n");
    write_siblings(2, "");
    write_siblings(3, "3,x\n");
    allow(&allowed, (int[]){0, 1, 2, 3, 4, 5, 900}, 7);
    cpu_topology_read(".", &allowed, &topology);
    /* 0 with 1, 4 and 5; 2 and 3 alone; 900 has no file. */
    assert_int_equal(topology.core_count, 4);
    assert_int_equal(topology.cores[5], 0);
    assert_int_equal(topology.cores[2], 1);
    assert_int_equal(topology.cores[3], 2);
    assert_int_equal(topology.cores[900], 3);
}

static void test_memory_nodes_are_counted(void **state) {
    (void)state;
    assert_int_equal(cpu_topology_memory_nodes("missing"), 1);
    assert_int_equal(cpu_topology_memory_nodes("."), 1);
    static const char *const entries[] = {"node0", "node1", "node12", "node", "nodes", "has_cpu"};
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        assert_int_equal(mkdir(entries[i], 0700), 0);
    }
    assert_int_equal(cpu_topology_memory_nodes("."), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_siblings_are_one_core, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_only_allowed_processors_count, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_ranges_and_odd_files, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_memory_nodes_are_counted, enter_temporary_directory,
                                        leave_temporary_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
