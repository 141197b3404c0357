/* Philox4x32-10 and the Gumbel distribution. */
#include "engine/noise.h"

#include <math.h>

void noise_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words[4]) {
    enum { ROUNDS = 10 };
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * c0;
        uint64_t product1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)product0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

void noise_block(const struct noise_place *place, uint32_t block, uint32_t words[NOISE_BLOCK_TOKENS]) {
    const uint32_t counter[4] = {block, place->position, place->choice_index, (uint32_t)place->purpose};
    const uint32_t key[2] = {(uint32_t)place->seed, (uint32_t)(place->seed >> 32)};
    noise_philox(counter, key, words);
}

double noise_gumbel(uint32_t word) {
    double uniform = ((double)word + 0.5) * 0x1p-32; /* never 0 or 1 */
    return -log(-log(uniform));
}

double noise_gumbel_bound(uint32_t word) {
    /* With tail = 1 - uniform: -log(uniform) >= tail, and tail >= 2^-(1 + leading zeros of ~word). */
    const double log_2 = 0.69314718055994531;
    uint32_t tail = ~word;
    int leading_zeros = tail == 0 ? 32 : __builtin_clz(tail);
    return log_2 * (double)(1 + leading_zeros) + 1e-9; /* more than the logarithms above may round */
}

double noise_uniform(const struct noise_place *place) {
    uint32_t words[NOISE_BLOCK_TOKENS];
    noise_block(place, 0, words);
    /* 52 bits and a half fill a double exactly: the largest number is not rounded to 1. */
    return ((double)(words[0] >> 6) * 0x1p26 + (double)(words[1] >> 6) + 0.5) * 0x1p-52;
}
