/* Routing is taken to be uniform. */
#include "parallel/sharing_choice.h"

#include <math.h>

/* Below this much less it does not pay to sort rows by their ranks. */
static const double dispatch_share = 0.85;

double sharing_remote_ranks(double ranks, double picks) {
    return (ranks - 1.0) * (1.0 - pow(1.0 - 1.0 / ranks, picks));
}

enum expert_exchange sharing_choose_exchange(int ranks, double picks) {
    return sharing_remote_ranks(ranks, picks) <= dispatch_share * (ranks - 1) ? EXPERT_EXCHANGE_DISPATCH
                                                                              : EXPERT_EXCHANGE_GATHER;
}

bool sharing_prefers_whole(const struct whole_choice *choice) {
    double others = 1.0 - 1.0 / choice->ranks;
    double sent_seconds = others * choice->rows * choice->row_bytes / choice->link_bytes_per_second +
                          2.0 * choice->link_latency_seconds;
    return sent_seconds > others * choice->bytes / choice->read_bytes_per_second;
}
