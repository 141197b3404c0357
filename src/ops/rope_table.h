/*
 * Rotary frequencies of one layer kind (spec deepseek-v4 4.5). Host memory, small, passed by pointer.
 */
#ifndef SLUICE_OPS_ROPE_TABLE_H
#define SLUICE_OPS_ROPE_TABLE_H

enum { ROPE_PAIRS_MAX = 128 };

struct rope_scaling {
    double factor;             /* 1: no scaling */
    double original_positions; /* context length before scaling; 0: no scaling */
    double beta_fast;
    double beta_slow;
};

struct rope_table {
    int pair_count;                  /* rotary channels / 2 */
    float frequency[ROPE_PAIRS_MAX]; /* radians per position, as fp32 */
};

/* Fills the table; `scaling` NULL gives plain RoPE. `pair_count` at most ROPE_PAIRS_MAX. */
void rope_table_init(struct rope_table *table, int pair_count, double theta,
                     const struct rope_scaling *scaling);

#endif
