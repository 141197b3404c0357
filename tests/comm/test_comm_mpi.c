/*
 * Ranks as processes: run by mpirun, each process is one rank. test_comm_mpi SECONDS: how long the ranks wait
 * for the last one while their time on the processor is measured.
 *
 * Groups after a fault are not used again, so each case has one of its own.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "comm/comm_cases.h"
#include "comm/comm_mpi.h"

enum { RANKS_MAX = 16 };

enum group_id { GROUP_REVERSED = 1, GROUP_HALVES, GROUP_OF_ONE, GROUP_LOST, GROUP_ABORTED, GROUP_MOVING };

static const double deadline_seconds = 0.3;
static const double margin_seconds = 5; /* the machine may be busy; without a deadline the wait never ends */

static void sleep_seconds(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

static double processor_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* All ranks in reverse; then the even and the odd ones apart, with one id; then each alone. */
static int check_groups(struct comm *comm) {
    int failure_count = 0;
    int size = comm_size(comm);
    int ranks[RANKS_MAX];
    struct comm *group = NULL;
    for (int i = 0; i < size; i++) {
        ranks[i] = size - 1 - i;
    }
    EXPECT(comm_mpi_group(comm, ranks, size, GROUP_REVERSED, &group) == STATUS_OK);
    EXPECT(comm_rank(group) == size - 1 - comm_rank(comm));
    EXPECT(comm_size(group) == size);
    failure_count += all_cases(group, 20);
    comm_destroy(&group);
    int count = 0;
    for (int i = comm_rank(comm) % 2; i < size; i += 2) {
        ranks[count++] = i;
    }
    EXPECT(comm_mpi_group(comm, ranks, count, GROUP_HALVES, &group) == STATUS_OK);
    EXPECT(comm_rank(group) == comm_rank(comm) / 2);
    failure_count += all_cases(group, 20);
    comm_destroy(&group);
    ranks[0] = comm_rank(comm);
    EXPECT(comm_mpi_group(comm, ranks, 1, GROUP_OF_ONE, &group) == STATUS_OK);
    EXPECT(comm_size(group) == 1);
    comm_destroy(&group);
    return failure_count;
}

static int check_bad_groups(struct comm *comm) {
    int failure_count = 0;
    struct comm *group;
    int ranks[] = {comm_rank(comm), comm_size(comm)};
    EXPECT(comm_mpi_group(comm, ranks, 2, 1, &group) == STATUS_BAD_ARGUMENT);
    ranks[0] = (comm_rank(comm) + 1) % comm_size(comm);
    EXPECT(comm_mpi_group(comm, ranks, 1, 1, &group) == STATUS_BAD_ARGUMENT);
    EXPECT(comm_mpi_group(comm, ranks, 1, 0, &group) == STATUS_BAD_ARGUMENT);
    EXPECT(comm_mpi_start(60, &group) == STATUS_INTERNAL);
    EXPECT(group == NULL);
    return failure_count;
}

static int make_whole_group(struct comm *comm, int id, struct comm **out) {
    int failure_count = 0;
    int ranks[RANKS_MAX];
    for (int i = 0; i < comm_size(comm); i++) {
        ranks[i] = i;
    }
    EXPECT(comm_mpi_group(comm, ranks, comm_size(comm), id, out) == STATUS_OK);
    return failure_count;
}

/* Rank 0 makes no group: the others wait for it in vain, and the world goes on. */
static int check_missing_rank(struct comm *comm) {
    int failure_count = 0;
    struct comm *group;
    double started = clock_seconds();
    if (comm_rank(comm) > 0) {
        failure_count += make_whole_group(comm, GROUP_LOST, &group);
        comm_set_deadline(group, deadline_seconds);
        float values[RANKS_MAX] = {0};
        size_t offsets[RANKS_MAX + 1] = {0};
        for (int i = 0; i <= comm_size(comm); i++) {
            offsets[i] = (size_t)i * sizeof *values;
        }
        EXPECT(comm_gather(group, NULL, &values[comm_rank(comm)], offsets, values) == STATUS_PEER_LOST);
        EXPECT(strstr(error_last()->message, "comm_gather for rank 0 to send 4 bytes") != NULL);
        EXPECT(clock_seconds() - started >= deadline_seconds);
        EXPECT(clock_seconds() - started < deadline_seconds + margin_seconds);
        comm_destroy(&group);
    }
    EXPECT(comm_barrier(comm) == STATUS_OK);
    return failure_count;
}

/* All but rank 0 wait for it; it ends the group instead. */
static int check_abort(struct comm *comm) {
    struct comm *group;
    int failure_count = make_whole_group(comm, GROUP_ABORTED, &group);
    double started = clock_seconds();
    if (comm_rank(comm) == 0) {
        sleep_seconds(0.05);
        comm_abort(group, "stage 1 is on fire");
    }
    EXPECT(comm_barrier(group) == STATUS_PEER_LOST);
    EXPECT(strstr(error_last()->message, "stage 1 is on fire") != NULL);
    EXPECT(comm_barrier(group) == STATUS_PEER_LOST);
    EXPECT(clock_seconds() - started < margin_seconds);
    EXPECT(comm_barrier(comm) == STATUS_OK);
    comm_destroy(&group);
    return failure_count;
}

/* The ranks that wait may take a fifth of a core together; waits inside MPI would take all of one each. */
static int check_idle(struct comm *comm, double seconds) {
    int failure_count = 0;
    EXPECT(comm_barrier(comm) == STATUS_OK);
    double before = processor_seconds();
    if (comm_rank(comm) == 0) {
        sleep_seconds(seconds);
    }
    EXPECT(comm_barrier(comm) == STATUS_OK);
    float used = (float)(processor_seconds() - before);
    EXPECT(comm_sum(comm, NULL, &used, 1) == STATUS_OK);
    EXPECT(used < 0.2 * seconds);
    if (comm_rank(comm) == 0) {
        printf("%d ranks that waited %.1f s used %.3f s of processor time\n", comm_size(comm), seconds,
               (double)used);
    }
    return failure_count;
}

/* Whether the byte becomes `value` without a call of this rank; false after some seconds. */
static bool changes_by_itself(const volatile unsigned char *byte, unsigned char value) {
    double until = clock_seconds() + margin_seconds;
    while (*byte != value && clock_seconds() < until) {
        sleep_seconds(1e-3);
    }
    return *byte == value;
}

/*
 * A message for which its receiver only waits when it has come; and a thread that has one to look after takes
 * no time from ranks that wait.
 */
static int check_moving(struct comm *comm, double seconds) {
    enum { BYTES = 4 << 20, MARK = 0x5a };
    struct comm *group;
    struct comm_request request = {0};
    int failure_count = 0;
    int last = comm_size(comm) - 1;
    unsigned char *memory = calloc(1, BYTES);
    EXPECT(comm_mpi_keep_moving(comm) == STATUS_OK);
    EXPECT(comm_mpi_keep_moving(comm) == STATUS_OK);
    failure_count += make_whole_group(comm, GROUP_MOVING, &group);
    if (comm_rank(comm) == last) {
        EXPECT(comm_start_receive(group, NULL, 0, memory, BYTES, &request) == STATUS_OK);
    }
    EXPECT(comm_barrier(comm) == STATUS_OK);
    failure_count += check_idle(comm, seconds);
    if (comm_rank(comm) == 0) {
        memory[BYTES - 1] = MARK;
        EXPECT(comm_start_send(group, NULL, last, memory, BYTES, &request) == STATUS_OK);
    } else if (comm_rank(comm) == last) {
        EXPECT(changes_by_itself(&memory[BYTES - 1], MARK));
    }
    EXPECT(comm_wait(group, &request) == STATUS_OK);
    EXPECT(comm_barrier(comm) == STATUS_OK);
    comm_destroy(&group);
    free(memory);
    return failure_count;
}

int main(int argument_count, char **arguments) {
    double idle_seconds = argument_count > 1 ? atof(arguments[1]) : 1;
    struct comm *comm;
    if (comm_mpi_start(60, &comm) != STATUS_OK) {
        fprintf(stderr, "%s\n", error_last()->message);
        return EXIT_FAILURE;
    }
    comm_set_deadline(comm, 60);
    int failure_count = all_cases(comm, 300) + case_long_message(comm) + case_idle_root(comm) +
                        check_groups(comm) + check_bad_groups(comm) + check_missing_rank(comm) +
                        check_abort(comm) + check_idle(comm, idle_seconds) + check_moving(comm, idle_seconds);
    comm_destroy(&comm);
    return failure_count == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
