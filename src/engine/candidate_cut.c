/*
 * A search for the logit at which the budget runs out, a few bits of it at a time: sum the weights by the
 * logit's leading bits, find the bucket in which the budget runs out, go on inside that bucket.
 */
#include "engine/candidate_cut.h"

#include <string.h>

#include "tensor/number_format.h"

enum { LEVELS = 3, BUCKETS_MAX = 2048 };

static const unsigned level_bits[LEVELS] = {11, 11, 10};

/* An integer that rises with the logit; 0 and -0 are the same. */
static uint32_t order_of(float logit) {
    uint32_t bits = f32_bits(logit + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* Adds up the weights of candidates whose order begins with `prefix`, by the `bits` that follow. */
static void sum_buckets(const struct candidate *candidates, size_t count, uint32_t prefix, unsigned shift,
                        unsigned bits, double sums[BUCKETS_MAX]) {
    uint32_t mask = (1u << bits) - 1;
    memset(sums, 0, BUCKETS_MAX * sizeof sums[0]);
    for (size_t i = 0; i < count; i++) {
        uint64_t order = order_of(candidates[i].logit);
        if (order >> (shift + bits) == prefix) {
            sums[order >> shift & mask] += candidates[i].weight;
        }
    }
}

/* The bucket, from the top, in which the budget runs out, or the last one; adds what lies above to *before.
 */
static uint32_t find_bucket(const double sums[BUCKETS_MAX], double budget, double *before) {
    uint32_t found = 0;
    double total = *before;
    for (uint32_t bucket = BUCKETS_MAX; bucket-- > 0;) {
        if (sums[bucket] > 0.0) {
            found = bucket;
            *before = total;
            total += sums[bucket];
            if (total >= budget) {
                break;
            }
        }
    }
    return found;
}

size_t candidate_cut(struct candidate *candidates, size_t count, double budget) {
    double sums[BUCKETS_MAX];
    double before = 0.0;
    uint32_t last_order = 0;
    unsigned shift = 32;
    for (int level = 0; level < LEVELS; level++) {
        shift -= level_bits[level];
        sum_buckets(candidates, count, last_order, shift, level_bits[level], sums);
        last_order = last_order << level_bits[level] | find_bucket(sums, budget, &before);
    }
    size_t kept_count = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t order = order_of(candidates[i].logit);
        if (order > last_order || (order == last_order && before < budget)) {
            before += order == last_order ? candidates[i].weight : 0.0;
            candidates[kept_count++] = candidates[i];
        }
    }
    return kept_count;
}
