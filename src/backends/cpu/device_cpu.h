/*
 * The CPU as a device: its memory is host memory and its streams run work at once.
 *
 * Any thread may allocate; different streams may be used by different threads.
 */
#ifndef SLUICE_BACKENDS_CPU_DEVICE_CPU_H
#define SLUICE_BACKENDS_CPU_DEVICE_CPU_H

#include "device/device.h"

/* A device named "cpu". Owned by the caller; ends with device_destroy. */
enum status device_cpu_create(struct device **out);

#endif
