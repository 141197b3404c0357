/*
 * FP8 and FP4 codes to floats, a register of lanes at a time: the values of tensor/number_format.h, exactly.
 */
#ifndef SLUICE_BACKENDS_CPU_LANES_DECODE_PIECES_H
#define SLUICE_BACKENDS_CPU_LANES_DECODE_PIECES_H

#include "backends/cpu/lanes/pieces.h"

/* One instruction where the generic conversion takes several. */
static inline u32_piece piece_load_bytes(const unsigned char *from) {
#if defined(__AVX512F__)
    return (u32_piece)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
#elif defined(__AVX2__)
    return (u32_piece)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
#else
    u8_piece bytes;
    memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(bytes, u32_piece);
#endif
}

static inline f32_piece piece_decode_e4m3(u32_piece code) {
    u32_piece magnitude = code & 0x7Fu;
    f32_piece small = __builtin_convertvector((i32_piece)magnitude, f32_piece) * 0x1p-9f;
    f32_piece normal = (f32_piece)((magnitude << 20) + (120u << 23));
    f32_piece value = piece_select((i32_piece)(magnitude < 8u), small, normal);
    value = piece_select((i32_piece)(magnitude == 0x7Fu), piece_splat(__builtin_nanf("")), value);
    return (f32_piece)((u32_piece)value | ((code & 0x80u) << 24));
}

static inline f32_piece piece_decode_e2m1(u32_piece code) {
    u32_piece magnitude = code & 7u;
    f32_piece small = __builtin_convertvector((i32_piece)magnitude, f32_piece) * 0.5f;
    f32_piece normal = (f32_piece)((magnitude << 22) + (126u << 23));
    f32_piece value = piece_select((i32_piece)(magnitude < 2u), small, normal);
    return (f32_piece)((u32_piece)value | ((code & 8u) << 28));
}

#endif
