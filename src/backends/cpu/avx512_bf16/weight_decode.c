/* The decoding tables, as constants. */
#include "backends/cpu/avx512_bf16/weight_decode.h"

/* bf16 exponent field and the three mantissa bits of e4m3, moved up so that scale byte 247 subtracts nothing.
 */
#define FP8_RAISED(exponent, eighths) \
    (((exponent) + FP8_SCALE_LARGEST - 127) << BF16_EXPONENT_SHIFT | (eighths) << 4)

/* A normal code: exponent field code / 8 stands for 2^(field - 7), in bf16 field + 120. */
#define FP8_NORMAL(code) FP8_RAISED(((code) >> 3) + 120, (code)&7)

#define FP8_EIGHT(part, code)                                                                     \
    part(FP8_NORMAL(code)), part(FP8_NORMAL((code) + 1)), part(FP8_NORMAL((code) + 2)),           \
        part(FP8_NORMAL((code) + 3)), part(FP8_NORMAL((code) + 4)), part(FP8_NORMAL((code) + 5)), \
        part(FP8_NORMAL((code) + 6)), part(FP8_NORMAL((code) + 7))

/* All codes: the subnormal ones are 0 to 7 times 2^-9. */
#define FP8_ALL(part)                                                                               \
    {                                                                                               \
        0, part(FP8_RAISED(118, 0)), part(FP8_RAISED(119, 0)), part(FP8_RAISED(119, 4)),            \
            part(FP8_RAISED(120, 0)), part(FP8_RAISED(120, 2)), part(FP8_RAISED(120, 4)),           \
            part(FP8_RAISED(120, 6)), FP8_EIGHT(part, 8), FP8_EIGHT(part, 16), FP8_EIGHT(part, 24), \
            FP8_EIGHT(part, 32), FP8_EIGHT(part, 40), FP8_EIGHT(part, 48), FP8_EIGHT(part, 56),     \
            FP8_EIGHT(part, 64), FP8_EIGHT(part, 72), FP8_EIGHT(part, 80), FP8_EIGHT(part, 88),     \
            FP8_EIGHT(part, 96), FP8_EIGHT(part, 104), FP8_EIGHT(part, 112), FP8_EIGHT(part, 120)   \
    }

#define LOW_BYTE(bits) (uint8_t)((bits)&0xFF)
#define HIGH_BYTE(bits) (uint8_t)((bits) >> 8)

/* The same bits as they are without a scale: lowered by all that scale byte 127 lowers them. */
#define FP8_PLAIN(bits) ((bits) - ((FP8_SCALE_LARGEST - 127) << BF16_EXPONENT_SHIFT))
#define PLAIN_LOW_BYTE(bits) LOW_BYTE(FP8_PLAIN(bits))
#define PLAIN_HIGH_BYTE(bits) HIGH_BYTE(FP8_PLAIN(bits))

static const uint8_t fp8_low[128] = FP8_ALL(LOW_BYTE);
static const uint8_t fp8_high[128] = FP8_ALL(HIGH_BYTE);

static const uint8_t fp8_plain_low[128] = FP8_ALL(PLAIN_LOW_BYTE);
static const uint8_t fp8_plain_high[128] = FP8_ALL(PLAIN_HIGH_BYTE);

struct fp8_table fp8_plain_table_load(void) {
    const __mmask64 nan_code = (__mmask64)1 << 63; /* code 127 */
    struct fp8_table table = {{_mm512_loadu_si512(fp8_plain_low), _mm512_loadu_si512(fp8_plain_low + 64)},
                              {_mm512_loadu_si512(fp8_plain_high), _mm512_loadu_si512(fp8_plain_high + 64)}};
    table.low[1] = _mm512_mask_blend_epi8(nan_code, table.low[1], _mm512_set1_epi8((char)0xC0));
    table.high[1] = _mm512_mask_blend_epi8(nan_code, table.high[1], _mm512_set1_epi8(0x7F));
    return table;
}

struct fp8_table fp8_table_load(void) {
    return (struct fp8_table){{_mm512_loadu_si512(fp8_low), _mm512_loadu_si512(fp8_low + 64)},
                              {_mm512_loadu_si512(fp8_high), _mm512_loadu_si512(fp8_high + 64)}};
}

#define FP4_RAISED(exponent, halves) \
    (uint16_t)(((exponent) + FP4_SCALE_LARGEST - 127) << BF16_EXPONENT_SHIFT | (halves) << 6)

/* 0, 0.5, 1, 1.5, 2, 3, 4, 6 */
#define FP4_MAGNITUDES(sign)                                                                   \
    0, (sign) | FP4_RAISED(126, 0), (sign) | FP4_RAISED(127, 0), (sign) | FP4_RAISED(127, 1),  \
        (sign) | FP4_RAISED(128, 0), (sign) | FP4_RAISED(128, 1), (sign) | FP4_RAISED(129, 0), \
        (sign) | FP4_RAISED(129, 1)

static const uint16_t fp4_words[32] = {FP4_MAGNITUDES(0), FP4_MAGNITUDES(0x8000), FP4_MAGNITUDES(0),
                                       FP4_MAGNITUDES(0x8000)};

__m512i fp4_table_load(void) {
    return _mm512_loadu_si512(fp4_words);
}
