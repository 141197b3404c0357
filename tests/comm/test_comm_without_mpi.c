/* What a build without MPI says to who asks for ranks as processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "comm/comm_mpi.h"

static void test_processes_are_refused(void **state) {
    (void)state;
    struct comm *comm = (struct comm *)&comm;
    assert_int_equal(comm_mpi_start(60, &comm), STATUS_UNSUPPORTED);
    assert_null(comm);
    assert_non_null(strstr(error_last()->message, "built without MPI"));
    assert_non_null(strstr(error_last()->message, "libopenmpi-dev"));
    comm = (struct comm *)&comm;
    assert_int_equal(comm_mpi_group(NULL, NULL, 0, 1, &comm), STATUS_UNSUPPORTED);
    assert_int_equal(comm_mpi_keep_moving(NULL), STATUS_UNSUPPORTED);
    assert_null(comm);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_processes_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
