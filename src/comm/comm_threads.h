/* Ranks as threads of one process (comm/comm.h): for tests, and for machines whose ranks share memory. */
#ifndef SLUICE_COMM_COMM_THREADS_H
#define SLUICE_COMM_COMM_THREADS_H

#include "comm/comm.h"

/*
 * Makes all ends of a group of `size` ranks; each is given to its thread and destroyed there. The ends share
 * memory that goes with the last of them. A rank that waits for one whose end was destroyed gets PEER_LOST at
 * once.
 */
enum status comm_threads_create(int size, struct comm **ends);

#endif
