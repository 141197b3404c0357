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
    const struct op_table *(*op_table)(enum numerics numerics);
};

/* The backend of that name; NOT_FOUND lists the known ones. */
enum status backend_find(const char *name, const struct backend **out);

#endif
