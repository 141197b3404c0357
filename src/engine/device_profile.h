/*
 * A device in numbers: of a data sheet, or measured by somebody and kept in a JSON file (`--profile`). Plans
 * reckon with them, and an engine that is given some cuts its stages by them (spec parallelism P-4).
 */
#ifndef SLUICE_ENGINE_DEVICE_PROFILE_H
#define SLUICE_ENGINE_DEVICE_PROFILE_H

#include <stdbool.h>

#include "base/status.h"
#include "parallel/sharing_choice.h"

enum { DEVICE_PROFILE_NAME_BYTES = 48 };

struct device_profile {
    char name[DEVICE_PROFILE_NAME_BYTES];
    double memory_bytes;
    double read_bytes_per_second;
    double operations_per_second;
    double link_bytes_per_second; /* to the other devices of its host, one way */
    double link_latency_seconds;
    double network_bytes_per_second; /* to other hosts */
    double network_latency_seconds;
    double read_share;    /* of read_bytes_per_second, what kernels reach */
    double compute_share; /* the same of operations_per_second */
};

/* No numbers but what kernels aim at: the shares. */
struct device_profile device_profile_default(void);

/* Numbers of the file go before those that `out` has. BAD_CONFIG names file and key; those of
 * json_parse_file. */
enum status device_profile_read(const char *path, struct device_profile *out);

/* How long the device reads so many bytes, and computes so many operations. */
double device_profile_read_seconds(const struct device_profile *profile, double bytes);
double device_profile_compute_seconds(const struct device_profile *profile, double operations);

/* How fast ranks on such devices share rows, on one host or not; 0 where the profile lacks a number. */
struct sharing_rates device_profile_sharing_rates(const struct device_profile *profile, bool is_local);

#endif
