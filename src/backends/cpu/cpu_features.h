/*
 * What kernels may ask of the processor, in rising order.
 *
 * Code for a set is compiled with that set's flags and chosen at run time; the baseline build runs anywhere.
 */
#ifndef SLUICE_BACKENDS_CPU_CPU_FEATURES_H
#define SLUICE_BACKENDS_CPU_CPU_FEATURES_H

#include "base/status.h"

/* X(CONSTANT, bit, name as in --cpu-features) */
#define CPU_FEATURE_LIST(X)                                                              \
    X(LANES, 0, "portable")          /* any processor; off leaves the reference alone */ \
    X(AVX2, 1, "avx2")               /* AVX2 and FMA */                                  \
    X(AVX512, 2, "avx512")           /* AVX-512 F, BW, DQ, VL */                         \
    X(AVX512_BF16, 3, "avx512_bf16") /* AVX-512 with BF16 and VBMI */                    \
    X(AMX_BF16, 4, "amx_bf16")       /* tiles with bf16 */

enum cpu_feature {
#define X(CONSTANT, bit, name) CPU_FEATURE_##CONSTANT = 1 << (bit),
    CPU_FEATURE_LIST(X)
#undef X
};

/* All that this processor and system offer. Any thread. */
unsigned cpu_features_detect(void);

/*
 * A mask from text: "auto" for all there is, "reference" for none, or a set's name for it and those below it
 * ("avx2"). USAGE for an unknown name; UNSUPPORTED if this processor lacks the set.
 */
enum status cpu_features_parse(const char *text, unsigned *out);

/* The name of the highest set in the mask: "reference" for none. A static string. */
const char *cpu_features_name(unsigned features);

#endif
