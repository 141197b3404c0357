/*
 * Ranks as processes over MPI (comm/comm.h). The only door to mpi.h.
 *
 * A rank that waits polls, sleeping longer the longer it waits (up to a millisecond): it costs a few percent
 * of a core, where a wait inside MPI would take all of it. Ranks are to be started with MPI's own waits set
 * to yield: mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1.
 *
 * Messages move while a rank is in a wait or, where processes share memory, while its peer is; between hosts
 * also while ranks compute, if comm_mpi_keep_moving is called.
 *
 * After PEER_LOST a send may still be read by its peer: its memory is to stay until the process ends.
 */
#ifndef SLUICE_COMM_COMM_MPI_H
#define SLUICE_COMM_COMM_MPI_H

#include "comm/comm.h"

enum { COMM_MPI_GROUP_IDS = 4096 };

/*
 * Collective over the processes that a launcher started together. Starts MPI, which a process can do once;
 * one rank alone never calls it. Returns the group of all ranks. PEER_LOST if they have not all come within
 * `seconds`; MPI goes on waiting in a thread that ends with the process.
 *
 * Owned: comm_destroy ends MPI, which waits for the other ranks to do so too, unless the group was aborted
 * or has lost a peer. Its groups are to be destroyed first.
 *
 * UNSUPPORTED if the program was built without MPI.
 */
enum status comm_mpi_start(double seconds, struct comm **world);

/*
 * Long messages of the world and of groups that are made from now on move without a rank in a wait
 * (comm_mpi_mover.h): for processes on several hosts. Not collective; before messages are started.
 */
enum status comm_mpi_keep_moving(struct comm *world);

/*
 * The group of `count` ranks of the world, in this order; the own one is among them. Nothing is sent: the
 * others may come later or never. `id`, 1 to COMM_MPI_GROUP_IDS - 1, is equal on all members, and groups that
 * have two ranks in common have different ones. A group of one rank is comm_self_create's.
 */
enum status comm_mpi_group(struct comm *world, const int *ranks, int count, int id, struct comm **out);

#endif
