/* What the processor's tiles are set up with (palette 1: eight tiles of up to 16 rows of 64 bytes). */
#ifndef SLUICE_BACKENDS_CPU_AMX_BF16_TILE_CONFIG_H
#define SLUICE_BACKENDS_CPU_AMX_BF16_TILE_CONFIG_H

#include <stdint.h>

enum {
    TILE_COUNT = 8,
    TILE_ROWS = 16,
    TILE_BYTES_WIDE = 64,
    TILE_COLUMNS = 32, /* bf16 columns of a tile product */
};

/* The operand of _tile_loadconfig. */
struct tile_config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t bytes_wide[16];
    uint8_t rows[16];
};

#endif
