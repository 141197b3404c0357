/* One explicit line per backend. */
#include "backends/backend_registry.h"

#include <string.h>

#include "backends/cpu/device_cpu.h"
#include "backends/guard/device_guard.h"
#include "ops/reference/reference_table.h"

static const struct backend backends[] = {
    {"cpu", device_cpu_create, reference_op_table},
    {"guard", device_guard_create, reference_op_table},
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
