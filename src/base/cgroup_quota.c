/* The tightest of all groups' quotas. */
#include "base/cgroup_quota.h"

#include <limits.h>
#include <stdio.h>

#include "base/cgroup_directories.h"

enum { LINE_BYTES = 128 };

static unsigned cores_of(long long quota, long long period) {
    if (quota <= 0 || period <= 0) {
        return 0;
    }
    long long cores = quota / period + (quota % period != 0);
    return cores > INT_MAX ? INT_MAX : (unsigned)cores;
}

/* "max 100000" or "150000 100000". */
static unsigned quota_version_2(const char *directory) {
    char line[LINE_BYTES];
    long long quota = 0;
    long long period = 0;
    if (!cgroup_read_line(directory, "cpu.max", line, sizeof line) ||
        sscanf(line, "%lld %lld", &quota, &period) != 2) {
        return 0;
    }
    return cores_of(quota, period);
}

/* Two files; a quota of -1 is none. */
static unsigned quota_version_1(const char *directory) {
    char line[LINE_BYTES];
    long long quota = 0;
    long long period = 0;
    if (!cgroup_read_line(directory, "cpu.cfs_quota_us", line, sizeof line) ||
        sscanf(line, "%lld", &quota) != 1 ||
        !cgroup_read_line(directory, "cpu.cfs_period_us", line, sizeof line) ||
        sscanf(line, "%lld", &period) != 1) {
        return 0;
    }
    return cores_of(quota, period);
}

static void take_tighter(void *context, const char *directory, bool is_version_2) {
    unsigned *cores = context;
    unsigned quota = is_version_2 ? quota_version_2(directory) : quota_version_1(directory);
    if (quota != 0 && (*cores == 0 || quota < *cores)) {
        *cores = quota;
    }
}

unsigned cgroup_quota_cores(const char *membership_path, const char *mount_path) {
    unsigned cores = 0;
    cgroup_visit_directories(
        membership_path, mount_path,
        &(struct cgroup_visitor){.controller = "cpu", .visit = take_tighter, .context = &cores});
    return cores;
}
