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

/* How fast the ranks send, where nothing is known as fast as a byte a second. */
static double link_rate(const struct sharing_rates *rates) {
    if (rates->link_bytes_per_second > 0.0) {
        return rates->link_bytes_per_second;
    }
    return rates->read_bytes_per_second > 0.0 ? rates->read_bytes_per_second : 1.0;
}

bool sharing_prefers_whole(const struct whole_choice *choice, const struct sharing_rates *rates) {
    double others = 1.0 - 1.0 / choice->ranks;
    double link = link_rate(rates);
    double read = rates->read_bytes_per_second > 0.0 ? rates->read_bytes_per_second : link;
    double latency = rates->link_bytes_per_second > 0.0 ? rates->link_latency_seconds : 0.0;
    double sent_seconds = others * choice->rows * choice->row_bytes / link + 2.0 * latency;
    return sent_seconds > others * choice->bytes / read;
}

bool sharing_prefers_late(const struct gather_choice *choice, const struct sharing_rates *rates) {
    double more_bytes = choice->late_bytes - choice->early_bytes;
    bool is_known = rates->operations_per_second > 0.0 &&
                    (rates->link_bytes_per_second > 0.0 || rates->read_bytes_per_second > 0.0);
    return !is_known || more_bytes / link_rate(rates) <= choice->operations / rates->operations_per_second;
}
