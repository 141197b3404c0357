/*
 * The backends that this program holds: a device and an operation table per numerics mode.
 */
#ifndef SLUICE_BACKENDS_BACKEND_REGISTRY_H
#define SLUICE_BACKENDS_BACKEND_REGISTRY_H

#include "base/status.h"
#include "device/device.h"
#include "ops/numerics.h"
#include "ops/op_queue.h"

struct backend {
    const char *name; /* as given to --device */
    enum status (*device_create)(struct device **out);
    /*
     * Fills the table of a mode from the backend's entries. `cpu_features` limits the instruction sets of
     * host kernels: "auto", or the name of the highest allowed one (USAGE, UNSUPPORTED as
     * cpu_features_parse).
     */
    enum status (*build_table)(enum numerics numerics, const char *cpu_features, struct op_table *out);
};

/* The backend of that name; NOT_FOUND lists the known ones. */
enum status backend_find(const char *name, const struct backend **out);

#endif
