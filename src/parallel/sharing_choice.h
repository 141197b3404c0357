/*
 * Choices that change what ranks send and read where they share rows, but no bit (spec parallelism 3.4, 3.5,
 * 5.2). Pure functions; any thread.
 */
#ifndef SLUICE_PARALLEL_SHARING_CHOICE_H
#define SLUICE_PARALLEL_SHARING_CHOICE_H

#include <stdbool.h>

#include "parallel/step.h"

/* Ranks other than its own that a token's experts are expected on, `picks` of them over `ranks` (3.4). */
double sharing_remote_ranks(double ranks, double picks);

/* How rows get to their experts: one by one if that sends clearly fewer than all of them everywhere (5.2). */
enum expert_exchange sharing_choose_exchange(int ranks, double picks);

/*
 * How fast the ranks of a tensor group are, at what kernels reach; 0: not known. Where the link is not known
 * a message is a copy in memory that the ranks share, and takes what reading as many bytes takes.
 */
struct sharing_rates {
    double link_bytes_per_second; /* that a rank sends to the others */
    double link_latency_seconds;
    double read_bytes_per_second;
    double operations_per_second;
};

/* What a rank that has a matrix set whole would read more, and what it would not send (S-12). */
struct whole_choice {
    int ranks;
    double rows;      /* of a step */
    double row_bytes; /* gathered and summed, per row */
    double bytes;     /* of the matrices */
};

/*
 * Whether the matrices are better whole on every rank than cut, with a gather before and a sum behind. Where
 * it is not known how fast ranks read, they read as fast as they send.
 */
bool sharing_prefers_whole(const struct whole_choice *choice, const struct sharing_rates *rates);

/* What the ranks would send and compute of a row for the first projections of an attention (S-14). */
struct gather_choice {
    double late_bytes;  /* what the projections give, or */
    double early_bytes; /* the row itself, */
    double operations;  /* which every rank then projects, not only the one whose row it is */
};

/*
 * Whether it is faster to gather late, what the projections give, than early, rows (S-15). Of n rows each of
 * T ranks sends, or else projects more, (T - 1) / T of n times these: so it does not depend on either number.
 * Late where not enough is known: it never computes more.
 */
bool sharing_prefers_late(const struct gather_choice *choice, const struct sharing_rates *rates);

#endif
