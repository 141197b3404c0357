/* One explicit line per backend. */
#include "backends/backend_registry.h"

#include <string.h>

#include "backends/cpu/cpu_features.h"
#include "backends/cpu/cpu_kernels.h"
#include "backends/cpu/device_cpu.h"
#include "backends/guard/device_guard.h"

/* The guard device runs the CPU's kernels, which cannot leave their operands unnoticed there. */
static enum status build_cpu_table(enum numerics numerics, const char *cpu_features, struct op_table *out) {
    unsigned features;
    TRY(cpu_features_parse(cpu_features, &features));
    cpu_kernels_build_table(numerics, features, out);
    return STATUS_OK;
}

static const struct backend backends[] = {
    {"cpu", device_cpu_create, build_cpu_table},
    {"guard", device_guard_create, build_cpu_table},
};

enum status backend_find(const char *name, const struct backend **out) {
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        if (strcmp(backends[i].name, name) == 0) {
            *out = &backends[i];
            return STATUS_OK;
        }
    }
    FAIL(STATUS_NOT_FOUND, "there is no device \"%s\" (known: cpu, guard)", name);
}
