/*
 * What checks and benchmarks run on: the program's kernels, this processor's features, a device.
 */
#ifndef SLUICE_KERNELCHECK_KERNEL_MACHINE_H
#define SLUICE_KERNELCHECK_KERNEL_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/cpu_kernels.h"
#include "base/status.h"
#include "device/device.h"

struct kernel_machine {
    const struct op_entry *entries[CPU_KERNELS_MAX];
    size_t entry_count;
    unsigned features;
    struct device *device;
};

/*
 * `device` is "cpu" or "guard", `cpu_features` as cpu_features_parse takes it. Owned: kernel_machine_deinit,
 * also after a failure.
 */
enum status kernel_machine_init(struct kernel_machine *out, const char *device, const char *cpu_features);
void kernel_machine_deinit(struct kernel_machine *machine);

/* Bits by enum op_id of the named operations; all for no names. USAGE names the nearest for a wrong one. */
enum status kernel_operations_parse(int count, char *const *names, uint64_t *out);

#endif
