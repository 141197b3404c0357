/*
 * A device for tests: CPU memory that faults wherever device memory must not be touched.
 *
 * Outside kernels and copies every access dies by SIGSEGV. Inside them, an access past an allocation or to
 * freed memory dies too, by SIGBUS or SIGSEGV (up to 63 bytes past the end are not seen, nor are bytes in
 * front of an allocation on its first page). New memory is filled with 0xFF, a NaN in every float format, so
 * that a value read before it was written shows up. Copies that mix up host and device memory are errors.
 *
 * Any thread may allocate and different streams may be used by different threads; but memory is open to all
 * threads while one of them runs a kernel or a copy.
 */
#ifndef SLUICE_BACKENDS_GUARD_DEVICE_GUARD_H
#define SLUICE_BACKENDS_GUARD_DEVICE_GUARD_H

#include "device/device.h"

/* A device named "guard". Owned by the caller; ends with device_destroy. UNSUPPORTED if the system refuses.
 */
enum status device_guard_create(struct device **out);

#endif
