/*
 * The CPU quota that Linux control groups give this process, versions 1 and 2.
 *
 * Reads files at each call and keeps nothing. Any thread.
 */
#ifndef SLUICE_BASE_CGROUP_QUOTA_H
#define SLUICE_BASE_CGROUP_QUOTA_H

/*
 * Cores of the tightest quota among the process's groups and all their parents, rounded up; 0 if there is
 * none or it cannot be read. `membership_path` is "/proc/self/cgroup" and `mount_path` "/sys/fs/cgroup"
 * outside tests.
 */
unsigned cgroup_quota_cores(const char *membership_path, const char *mount_path);

#endif
