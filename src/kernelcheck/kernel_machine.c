/* The backend registry's device and the CPU's list of kernels. */
#include "kernelcheck/kernel_machine.h"

#include <string.h>

#include "backends/backend_registry.h"
#include "backends/cpu/cpu_features.h"
#include "base/options.h"

enum status kernel_machine_init(struct kernel_machine *out, const char *device, const char *cpu_features) {
    const struct backend *backend;
    *out = (struct kernel_machine){0};
    out->entry_count = cpu_kernels_collect(out->entries);
    TRY(cpu_features_parse(cpu_features, &out->features));
    TRY(backend_find(device, &backend));
    TRY(backend->device_create(&out->device));
    return STATUS_OK;
}

void kernel_machine_deinit(struct kernel_machine *machine) {
    device_destroy(&machine->device);
}

enum status kernel_operations_parse(int count, char *const *names, uint64_t *out) {
    const char *known[OP_COUNT];
    for (int op = 0; op < OP_COUNT; op++) {
        known[op] = op_name((enum op_id)op);
    }
    *out = count == 0 ? ((uint64_t)1 << OP_COUNT) - 1 : 0;
    for (int i = 0; i < count; i++) {
        int op = 0;
        while (op < OP_COUNT && strcmp(known[op], names[i]) != 0) {
            op++;
        }
        if (op == OP_COUNT) {
            const char *nearest = options_nearest_name(names[i], known, OP_COUNT);
            FAIL(STATUS_USAGE, "there is no operation \"%s\"%s%s", names[i],
                 nearest == NULL ? "; src/ops/op_list.h lists them" : "; did you mean ",
                 nearest == NULL ? "" : nearest);
        }
        *out |= (uint64_t)1 << op;
    }
    return STATUS_OK;
}
