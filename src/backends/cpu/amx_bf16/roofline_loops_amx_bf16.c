/* bf16 products of tiles. */
#include <immintrin.h>

#include "backends/cpu/amx_bf16/tile_config.h"
#include "backends/cpu/cpu_features.h"
#include "backends/cpu/roofline_entries.h"

enum { PAIRS = 16, PRODUCTS = 2, CHAINS = 4 };

static void load_config(void) {
    struct tile_config config = {.palette = 1};
    for (int tile = 0; tile < TILE_COUNT; tile++) {
        config.rows[tile] = TILE_ROWS;
        config.bytes_wide[tile] = TILE_BYTES_WIDE;
    }
    _tile_loadconfig(&config);
}

/* Four chains of full tiles: two tiles of inputs by two of weights, as in the matrix kernel. */
static float multiply_bf16(int64_t rounds) {
    float sums[TILE_ROWS * TILE_BYTES_WIDE / sizeof(float)];
    uint16_t factors[TILE_ROWS * TILE_BYTES_WIDE / sizeof(uint16_t)];
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        factors[i] = 0x3C00; /* 2^-7 */
    }
    load_config();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, factors, TILE_BYTES_WIDE);
    _tile_loadd(5, factors, TILE_BYTES_WIDE);
    _tile_loadd(6, factors, TILE_BYTES_WIDE);
    _tile_loadd(7, factors, TILE_BYTES_WIDE);
    for (int64_t i = 0; i < rounds; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    float total = 0.0f;
    _tile_stored(0, sums, TILE_BYTES_WIDE);
    total += sums[0];
    _tile_stored(1, sums, TILE_BYTES_WIDE);
    total += sums[0];
    _tile_stored(2, sums, TILE_BYTES_WIDE);
    total += sums[0];
    _tile_stored(3, sums, TILE_BYTES_WIDE);
    total += sums[0];
    _tile_release();
    return total;
}

const struct roofline_loops roofline_loops_amx_bf16 = {
    .features = CPU_FEATURE_AMX_BF16,
    .multiply_bf16 = multiply_bf16,
    .bf16_operations = 2.0 * CHAINS * TILE_ROWS * TILE_ROWS * PAIRS * PRODUCTS,
};
