/* In place of comm_mpi.c where the build has no MPI: says so to who asks for ranks as processes. */
#include "comm/comm_mpi.h"

enum status comm_mpi_start(double seconds, struct comm **world) {
    (void)seconds;
    *world = NULL;
    FAIL(STATUS_UNSUPPORTED,
         "this program was built without MPI, which ranks as processes (-tp, -pp, -dp) need; install "
         "libopenmpi-dev and openmpi-bin and build it again, or run it with one rank");
}

enum status comm_mpi_keep_moving(struct comm *world) {
    (void)world;
    FAIL(STATUS_UNSUPPORTED,
         "this program was built without MPI: there is no world whose messages could move");
}

enum status comm_mpi_group(struct comm *world, const int *ranks, int count, int id, struct comm **out) {
    (void)world;
    (void)ranks;
    (void)count;
    (void)id;
    *out = NULL;
    FAIL(STATUS_UNSUPPORTED, "this program was built without MPI: there is no world to make groups of");
}
