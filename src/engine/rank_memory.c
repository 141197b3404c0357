/* Host by host; the least number of pages counts. */
#include "engine/rank_memory.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

struct host_ranks {
    int first; /* its first and last rank */
    int last;
    int count;
};

static struct host_ranks sum_host(const struct rank_memory *ranks, int count, int32_t host,
                                  struct memory_plan_input *input) {
    struct host_ranks found = {.first = count};
    uint64_t copied_bytes = 0;
    input->fixed_bytes = 0;
    input->page_bytes = 0;
    input->available_bytes = UINT64_MAX;
    for (int i = 0; i < count; i++) {
        const struct rank_memory *rank = &ranks[i];
        if (rank->host != host) {
            continue;
        }
        found.first = i < found.first ? i : found.first;
        found.last = i;
        found.count++;
        input->fixed_bytes += rank->fixed_bytes;
        input->page_bytes += rank->page_bytes;
        copied_bytes += rank->ledger.copied_weight_bytes;
        /* Who looked later may have seen what others have taken since. */
        if (rank->available_bytes < input->available_bytes) {
            input->available_bytes = rank->available_bytes;
        }
    }
    /* Copies are part of what the ranks take, and no longer of what is available. */
    if (input->available_bytes <= UINT64_MAX - copied_bytes) {
        input->available_bytes += copied_bytes;
    }
    return found;
}

static enum status plan_host(const struct rank_memory *ranks, int count, int32_t host,
                             const struct memory_plan_input *wanted, int32_t *page_count) {
    struct memory_plan_input input = *wanted;
    struct host_ranks found = sum_host(ranks, count, host, &input);
    enum status status = memory_plan_pages(&input, page_count);
    if (status == STATUS_OK || count == 1) {
        return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
    }
    const struct sluice_memory_ledger *ledger = &ranks[found.first].ledger;
    char reason[ERROR_MESSAGE_BYTES];
    snprintf(reason, sizeof reason, "%s", error_last()->message);
    FAIL(
        status,
        "%d ranks share a host, %d to %d (rank %d: copied weights %.1f MB, slots %.1f MB, snapshots %.1f MB, "
        "step %.1f MB, host %.1f MB): %s",
        found.count, found.first, found.last, found.first, (double)ledger->copied_weight_bytes / 1e6,
        (double)ledger->slot_state_bytes / 1e6, (double)ledger->snapshot_bytes / 1e6,
        (double)ledger->step_bytes / 1e6, (double)ledger->host_bytes / 1e6, reason);
}

enum status rank_memory_agree(const struct rank_memory *ranks, int count,
                              const struct memory_plan_input *wanted, int32_t *page_count) {
    *page_count = INT32_MAX;
    for (int i = 0; i < count; i++) {
        int32_t pages;
        TRY(plan_host(ranks, count, ranks[i].host, wanted, &pages));
        *page_count = pages < *page_count ? pages : *page_count;
    }
    return STATUS_OK;
}

struct sluice_memory_ledger rank_memory_sum(const struct rank_memory *ranks, int count) {
    struct sluice_memory_ledger sum = ranks[0].ledger;
    for (int i = 1; i < count; i++) {
        const struct sluice_memory_ledger *other = &ranks[i].ledger;
        sum.mapped_weight_bytes += other->mapped_weight_bytes;
        sum.copied_weight_bytes += other->copied_weight_bytes;
        sum.slot_state_bytes += other->slot_state_bytes;
        sum.snapshot_bytes += other->snapshot_bytes;
        sum.page_state_bytes += other->page_state_bytes;
        sum.step_bytes += other->step_bytes;
        sum.draft_bytes += other->draft_bytes;
        sum.host_bytes += other->host_bytes;
    }
    return sum;
}

double rank_memory_stage_limit(const struct host_memory *ranks, int size, int first, int count) {
    double bytes = 0.0;
    for (int i = first; i < first + count; i++) {
        bool is_counted = false;
        for (int j = 0; j < size; j++) {
            bool is_same_host = ranks[j].host == ranks[i].host;
            if (is_same_host && (j < first || j >= first + count)) {
                return INFINITY;
            }
            is_counted |= is_same_host && j < i;
        }
        bytes += is_counted ? 0.0 : (double)(ranks[i].available_bytes - ranks[i].available_bytes / 10);
    }
    return bytes;
}
