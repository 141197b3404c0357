/* Compiled once per instruction set, as the kernels are. */
#include "lanes/quantize_probe.h"

#include "backends/cpu/lanes/quantize_lanes.h"

static void e4m3_round(const float *x, float *out) {
    lanes_store(out, lanes_e4m3_round(lanes_load(x)));
}

static void e2m1_round(const float *x, float *out) {
    lanes_store(out, lanes_e2m1_round(lanes_load(x)));
}

static void store_codes(u32x16 codes, uint8_t *out) {
    lanes_store_bytes(out, codes, LANES);
}

static void e4m3_encode_codes(const float *x, uint8_t *out) {
    store_codes(lanes_e4m3_encode(lanes_load(x)), out);
}

static void e2m1_encode_codes(const float *x, uint8_t *out) {
    store_codes(lanes_e2m1_encode(lanes_load(x)), out);
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
