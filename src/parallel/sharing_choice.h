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

/* What a rank that has a matrix set whole would read more, and what it would not send (S-12). */
struct whole_choice {
    int ranks;
    double rows;      /* of a step */
    double row_bytes; /* gathered and summed, per row */
    double bytes;     /* of the matrices */
    double link_bytes_per_second;
    double link_latency_seconds;
    double read_bytes_per_second;
};

/* Whether the matrices are better whole on every rank than cut, with a gather before and a sum behind. */
bool sharing_prefers_whole(const struct whole_choice *choice);

#endif
