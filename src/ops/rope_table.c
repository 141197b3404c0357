/* Plain and YaRN-interpolated frequencies. */
#include "ops/rope_table.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

/* The (fractional) pair index that turns `rotations` times over the original context. */
static double yarn_correction(double rotations, int dims, double theta, double original_positions) {
    double pi = acos(-1.0);
    return dims * log(original_positions / (rotations * 2.0 * pi)) / (2.0 * log(theta));
}

/* Blends the scaled and the plain frequency by a ramp over the pair index. */
static void apply_yarn(struct rope_table *table, double theta, const struct rope_scaling *scaling) {
    int dims = 2 * table->pair_count;
    double low = floor(yarn_correction(scaling->beta_fast, dims, theta, scaling->original_positions));
    double high = ceil(yarn_correction(scaling->beta_slow, dims, theta, scaling->original_positions));
    low = fmax(low, 0.0);
    high = fmin(high, dims - 1);
    if (low == high) {
        high += 0.001;
    }
    for (int i = 0; i < table->pair_count; i++) {
        float ramp = (float)fmin(fmax((i - low) / (high - low), 0.0), 1.0);
        float plain = table->frequency[i];
        table->frequency[i] = plain / (float)scaling->factor * ramp + plain * (1.0f - ramp);
    }
}

void rope_table_init(struct rope_table *table, int pair_count, double theta,
                     const struct rope_scaling *scaling) {
    assert(pair_count >= 0 && pair_count <= ROPE_PAIRS_MAX);
    table->pair_count = pair_count;
    for (int i = 0; i < pair_count; i++) {
        table->frequency[i] = 1.0f / powf((float)theta, (float)(2 * i) / (float)(2 * pair_count));
    }
    if (scaling != NULL && scaling->original_positions > 0.0 && scaling->factor != 1.0) {
        apply_yarn(table, theta, scaling);
    }
}
