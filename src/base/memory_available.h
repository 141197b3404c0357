/*
 * Memory that this process may still take: what the system has available, and what its control groups leave.
 *
 * Reads files at each call and keeps nothing. Any thread.
 */
#ifndef SLUICE_BASE_MEMORY_AVAILABLE_H
#define SLUICE_BASE_MEMORY_AVAILABLE_H

#include <stdint.h>

/*
 * The least of MemAvailable in `meminfo_path` ("/proc/meminfo") and of limit less usage (page cache excepted)
 * of the process's group and all its parents, as cgroup_quota_cores reads them. UINT64_MAX if nothing can be
 * read.
 */
uint64_t memory_available_bytes(const char *meminfo_path, const char *membership_path,
                                const char *mount_path);

#endif
