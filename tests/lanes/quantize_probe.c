/* Compiled once per instruction set, as the kernels are. */
#include "lanes/quantize_probe.h"

#include "backends/cpu/lanes/lanes.h"
#include "backends/cpu/lanes/quantize_lanes.h"

/* Applies a function of one piece to sixteen values. */
#define MAP_PIECES(function, x, out, type)                                                         \
    for (int i = 0; i < LANES; i += PIECE_LANES) {                                                 \
        type result = __builtin_convertvector(function(piece_read(DTYPE_F32, x, i, LANES)), type); \
        memcpy(out + i, &result, sizeof result);                                                   \
    }

static void e4m3_round(const float *x, float *out) {
    MAP_PIECES(piece_e4m3_round, x, out, f32_piece)
}

static void e2m1_round(const float *x, float *out) {
    MAP_PIECES(piece_e2m1_round, x, out, f32_piece)
}

static void e4m3_encode_codes(const float *x, uint8_t *out) {
    MAP_PIECES(piece_e4m3_encode, x, out, u8_piece)
}

static void e2m1_encode_codes(const float *x, uint8_t *out) {
    MAP_PIECES(piece_e2m1_encode, x, out, u8_piece)
}

#define PROBE_PASTE(isa) quantize_probe_##isa
#define PROBE_NAME(isa) PROBE_PASTE(isa)

const struct quantize_probe PROBE_NAME(LANES_ISA) = {
    .name = LANES_TEXT_EXPANDED(quantize, LANES_ISA),
    .features = LANES_FEATURES,
    .act8_row = lanes_act8_round_row,
    .act8_row_bf16 = lanes_act8_round_row_bf16,
    .e4m3_round = e4m3_round,
    .e4m3_encode = e4m3_encode_codes,
    .e2m1_round = e2m1_round,
    .e2m1_encode = e2m1_encode_codes,
};
