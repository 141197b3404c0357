/*
 * A group that is put together of two others: each peer is reached through one of them.
 *
 * It is for groups of which two ranks are in one process, as a leader and the first rank that it leads: these
 * two meet in a group of threads, each of them meets the other processes in a group of its own, and for all
 * of them there is one group with one numbering.
 */
#ifndef SLUICE_COMM_COMM_JOINT_H
#define SLUICE_COMM_COMM_JOINT_H

#include "comm/comm.h"

enum { COMM_JOINT_PARTS = 2 };

/* How a peer is reached; of the own rank of no account. */
struct comm_route {
    int part;
    int rank; /* the peer's, in that part */
};

struct comm_joint_options {
    int rank;
    int size;
    const struct comm_route *routes;      /* [size] */
    struct comm *parts[COMM_JOINT_PARTS]; /* in which this end is one rank each */
    /* Aborted with the parts, borrowed; NULL: none. Who waits in it need not wait for who waits here to see
       an abort. */
    struct comm *also_aborted;
};

/*
 * Takes the parts over, also after an error; comm_destroy leaves them. An abort of a part is one of this end
 * when it waits there next. `also_aborted` is to be there until no end of the group can be aborted any more.
 */
enum status comm_joint_create(const struct comm_joint_options *options, struct comm **out);

#endif
