/*
 * What every communicator must do, as one rank sees it: all ranks of a group call the same case with the same
 * arguments, each in its thread or process. Cmocka's assertions belong to one thread, so failures are printed
 * and counted.
 */
#ifndef SLUICE_TESTS_COMM_COMM_CASES_H
#define SLUICE_TESTS_COMM_COMM_CASES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "comm/comm.h"

/* Adds to the int `failure_count` that is in scope. */
#define EXPECT(condition)                                                                                \
    do {                                                                                                 \
        if (!(condition)) {                                                                              \
            fprintf(stderr, "%s:%d: rank %d of %d: not so: %s (last failure: %s)\n", __FILE__, __LINE__, \
                    comm_rank(comm), comm_size(comm), #condition, error_last()->message);                \
            failure_count++;                                                                             \
        }                                                                                                \
    } while (0)

/* Each returns the number of expectations that did not hold. */
int case_sums(struct comm *comm);
int case_scattered_sums(struct comm *comm);
int case_gather(struct comm *comm);
int case_idle_root(struct comm *comm);
int case_exchange(struct comm *comm);
int case_flights(struct comm *comm);
int case_broadcast(struct comm *comm);
int case_agree(struct comm *comm);
int case_messages(struct comm *comm);
int case_long_message(struct comm *comm);
int case_sent_bytes(struct comm *comm);
int case_early_receives(struct comm *comm);

/* A receive and a message of different sizes; in groups of more than one. */
int case_wrong_size(struct comm *comm);

/* Collectives and messages in an order that `seed` chooses, with pauses on some ranks. */
int case_random(struct comm *comm, uint64_t seed, int count);

/* All of the above, with `random_count` random operations. */
int all_cases(struct comm *comm, int random_count);

#endif
