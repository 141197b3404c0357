/*
 * A search for the order of the last one chosen, from its leading bits down: count the orders by their next
 * bits, find the bucket in which the limit is reached, go on inside that bucket.
 */
#include "backends/cpu/select_largest.h"

#include <string.h>

#include "tensor/number_format.h"

enum {
    LEVELS = 3,
    LEVEL_BITS = 11,
    BUCKETS = 1 << LEVEL_BITS,
    COPIES = 4,           /* neighbours count apart: equal ones would wait for each other's store */
    STRIDE = BUCKETS + 1, /* the last counter takes orders outside the bucket */
};

void select_make_orders(void *scores, int64_t count) {
    unsigned char *bytes = scores;
    for (int64_t i = 0; i < count; i++) {
        float score;
        memcpy(&score, bytes + 4 * i, sizeof score);
        uint32_t bits = f32_bits(score + 0.0f);
        uint32_t is_negative = 0u - (bits >> 31);
        uint32_t order = bits ^ (is_negative | 0x80000000u);
        memcpy(bytes + 4 * i, &order, sizeof order);
    }
}

/* Counts the orders that begin with `prefix`, by the LEVEL_BITS bits from `shift` up. */
static void count_buckets(const uint32_t *orders, int64_t count, uint64_t prefix, unsigned shift,
                          uint32_t *counters) {
    memset(counters, 0, SELECT_COUNTERS * sizeof *counters);
    for (int64_t i = 0; i < count; i++) {
        uint64_t order = orders[i];
        uint64_t bucket = order >> shift;
        uint64_t counter = bucket >> LEVEL_BITS == prefix ? bucket & (BUCKETS - 1) : BUCKETS;
        counters[(i % COPIES) * STRIDE + (int64_t)counter]++;
    }
}

/* The bucket, from the top, in which `limit` is reached; lowers *limit by what lies above it. */
static uint32_t find_bucket(const uint32_t *counters, int64_t *limit) {
    for (uint32_t bucket = BUCKETS; bucket-- > 1;) {
        int64_t count = 0;
        for (int copy = 0; copy < COPIES; copy++) {
            count += counters[copy * STRIDE + bucket];
        }
        if (count >= *limit) {
            return bucket;
        }
        *limit -= count;
    }
    return 0;
}

void select_largest(const uint32_t *orders, int64_t count, int64_t limit, uint32_t *counters, int32_t *out) {
    /* 33 bits in three levels: the first one begins with a zero. */
    uint64_t last = 0;
    int64_t tie_count = limit;
    for (int level = LEVELS - 1; level >= 0; level--) {
        unsigned shift = (unsigned)(level * LEVEL_BITS);
        count_buckets(orders, count, last, shift, counters);
        last = last << LEVEL_BITS | find_bucket(counters, &tie_count);
    }
    int64_t chosen = 0;
    for (int64_t i = 0; chosen < limit; i++) {
        int is_tie = orders[i] == last;
        out[chosen] = (int32_t)i;
        chosen += (orders[i] > last) | (is_tie & (tie_count > 0));
        tie_count -= is_tie;
    }
}
