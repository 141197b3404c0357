/*
 * A thread that calls MPI while ranks of this process compute.
 *
 * Between hosts MPI moves a long message piece by piece, and only while it is called: without this thread one
 * lies still as long as its rank computes. Where memory is shared a message is one copy, and the thread would
 * only take time. It looks about four thousand times a second while a long message is under way and no rank
 * waits, which calls MPI anyway; else it sleeps.
 */
#ifndef SLUICE_COMM_COMM_MPI_MOVER_H
#define SLUICE_COMM_COMM_MPI_MOVER_H

#include <stddef.h>

#include "base/status.h"

struct mpi_mover;

/* Shorter messages leave at once, and wait where they arrive. */
enum { MPI_MOVER_BYTES_MIN = 32 * 1024 };

/* MPI is started and may be called by several threads. Owned: mpi_mover_stop, before MPI ends. */
enum status mpi_mover_start(struct mpi_mover **out);

/* Ends the thread and nulls; NULL inside is allowed. */
void mpi_mover_stop(struct mpi_mover **mover);

/* A long message is under way (1), or no more (-1). NULL is allowed, here and below. Any thread. */
void mpi_mover_count_message(struct mpi_mover *mover, int change);

/* A thread is in a wait that calls MPI (1), or no more (-1). Any thread. */
void mpi_mover_count_wait(struct mpi_mover *mover, int change);

#endif
