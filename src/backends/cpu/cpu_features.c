/* Detection through the compiler's support functions; tiles need the system's permission as well. */
#include "backends/cpu/cpu_features.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The system hands out tile state on request only (arch_prctl ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). */
static int is_tile_state_allowed(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static int has_amx_bf16(void) {
    unsigned eax;
    unsigned ebx;
    unsigned ecx;
    unsigned edx;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
        return 0;
    }
    const unsigned amx_bf16 = 1u << 22;
    const unsigned amx_tile = 1u << 24;
    return (edx & amx_bf16) != 0 && (edx & amx_tile) != 0 && is_tile_state_allowed();
}

unsigned cpu_features_detect(void) {
    unsigned features = CPU_FEATURE_LANES;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        features |= CPU_FEATURE_AVX2;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        features |= CPU_FEATURE_AVX512;
    }
    if ((features & CPU_FEATURE_AVX512) != 0 && __builtin_cpu_supports("avx512bf16") &&
        __builtin_cpu_supports("avx512vbmi")) {
        features |= CPU_FEATURE_AVX512_BF16;
    }
    if ((features & CPU_FEATURE_AVX512_BF16) != 0 && has_amx_bf16()) {
        features |= CPU_FEATURE_AMX_BF16;
    }
    return features;
}
#else
unsigned cpu_features_detect(void) {
    return CPU_FEATURE_LANES;
}
#endif

static const struct {
    const char *name;
    unsigned bit;
} feature_names[] = {
#define X(CONSTANT, bit, name) {name, CPU_FEATURE_##CONSTANT},
    CPU_FEATURE_LIST(X)
#undef X
};

enum { FEATURE_COUNT = sizeof feature_names / sizeof feature_names[0] };

enum status cpu_features_parse(const char *text, unsigned *out) {
    unsigned detected = cpu_features_detect();
    if (strcmp(text, "auto") == 0) {
        *out = detected;
        return STATUS_OK;
    }
    *out = 0;
    if (strcmp(text, "reference") == 0) {
        return STATUS_OK;
    }
    for (int i = 0; i < FEATURE_COUNT; i++) {
        *out |= feature_names[i].bit;
        if (strcmp(text, feature_names[i].name) == 0) {
            CHECK((*out & ~detected) == 0, STATUS_UNSUPPORTED,
                  "this processor does not have %s (it has up to %s)", text, cpu_features_name(detected));
            return STATUS_OK;
        }
    }
    FAIL(STATUS_USAGE,
         "there is no set of processor features \"%s\" (auto, reference, portable, avx2, avx512, "
         "avx512_bf16, amx_bf16)",
         text);
}

const char *cpu_features_name(unsigned features) {
    const char *name = "reference";
    for (int i = 0; i < FEATURE_COUNT; i++) {
        name = (features & feature_names[i].bit) != 0 ? feature_names[i].name : name;
    }
    return name;
}
