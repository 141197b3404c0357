/*
 * Activation quantisation: ACT8 and ACT4 of spec deepseek-v4 2.6.
 */
#ifndef SLUICE_TENSOR_QUANTIZE_H
#define SLUICE_TENSOR_QUANTIZE_H

#include <stdint.h>

enum { ACT8_LINEAR_BLOCK = 128, ACT8_KV_BLOCK = 64, ACT4_BLOCK = 32 };

/* Quantises one block of `count` values: e4m3 codes, and the scale's exponent as the result. */
int act8_encode_block(const float *values, int64_t count, uint8_t *codes);

/* The same for e2m1 codes, one a byte. */
int act4_encode_block(const float *values, int64_t count, uint8_t *codes);

/*
 * Rounds values in place to what ACT8 (ACT4) in blocks of `block` leaves of them: code times scale, exact.
 * The last block may be shorter.
 */
void act8_round(float *values, int64_t count, int64_t block);
void act4_round(float *values, int64_t count, int64_t block);

#endif
