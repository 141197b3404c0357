/*
 * A quota binds a group and everything below it, so each parent up to the mount point is asked too. Inside
 * a container the group's own path is often not mounted; its parents end at the mount point, which then is
 * the container's group.
 */
#include "base/cgroup_quota.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool read_first_line(const char *path, char *line, int line_bytes) {
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    bool is_read = fgets(line, line_bytes, file) != NULL;
    fclose(file);
    return is_read;
}

static unsigned cores_of(long long quota, long long period) {
    if (quota <= 0 || period <= 0) {
        return 0;
    }
    long long cores = quota / period + (quota % period != 0);
    return cores > INT_MAX ? INT_MAX : (unsigned)cores;
}

/* Version 2: "max 100000" or "150000 100000". */
static unsigned quota_version_2(const char *directory) {
    char path[PATH_MAX];
    char line[128];
    long long quota = 0;
    long long period = 0;
    int length = snprintf(path, sizeof path, "%s/cpu.max", directory);
    if (length >= PATH_MAX || !read_first_line(path, line, sizeof line) ||
        sscanf(line, "%lld %lld", &quota, &period) != 2) {
        return 0;
    }
    return cores_of(quota, period);
}

/* Version 1: two files; a quota of -1 is none. */
static unsigned quota_version_1(const char *directory) {
    char path[PATH_MAX];
    char line[128];
    long long quota = 0;
    long long period = 0;
    int length = snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", directory);
    if (length >= PATH_MAX || !read_first_line(path, line, sizeof line) ||
        sscanf(line, "%lld", &quota) != 1) {
        return 0;
    }
    length = snprintf(path, sizeof path, "%s/cpu.cfs_period_us", directory);
    if (length >= PATH_MAX || !read_first_line(path, line, sizeof line) ||
        sscanf(line, "%lld", &period) != 1) {
        return 0;
    }
    return cores_of(quota, period);
}

static unsigned tighter(unsigned a, unsigned b) {
    if (a == 0 || b == 0) {
        return a + b;
    }
    return a < b ? a : b;
}

/* Asks `mount`/`group` and each parent up to `mount` itself. */
static unsigned quota_of_group(const char *mount, const char *group, unsigned (*quota)(const char *)) {
    char directory[PATH_MAX];
    if (snprintf(directory, sizeof directory, "%s%s", mount, group) >= PATH_MAX) {
        return 0;
    }
    size_t mount_length = strlen(mount);
    unsigned cores = 0;
    for (;;) {
        cores = tighter(cores, quota(directory));
        char *slash = strrchr(directory + mount_length, '/');
        if (slash == NULL) {
            return cores;
        }
        *slash = '\0';
    }
}

static bool names_controller(const char *controllers, const char *wanted) {
    size_t wanted_length = strlen(wanted);
    for (const char *at = controllers; *at != '\0';) {
        size_t length = strcspn(at, ",");
        if (length == wanted_length && strncmp(at, wanted, length) == 0) {
            return true;
        }
        at += length + (at[length] == ',');
    }
    return false;
}

/* One line "id:controllers:/group"; without controllers it is version 2. */
static unsigned quota_of_line(char *line, const char *mount_path) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group == NULL) {
        return 0;
    }
    controllers++;
    *group++ = '\0';
    if (controllers[0] == '\0') {
        return quota_of_group(mount_path, group, quota_version_2);
    }
    char mount[PATH_MAX];
    if (!names_controller(controllers, "cpu") ||
        snprintf(mount, sizeof mount, "%s/cpu", mount_path) >= PATH_MAX) {
        return 0;
    }
    return quota_of_group(mount, group, quota_version_1);
}

unsigned cgroup_quota_cores(const char *membership_path, const char *mount_path) {
    FILE *file = fopen(membership_path, "re");
    if (file == NULL) {
        return 0;
    }
    char line[PATH_MAX];
    unsigned cores = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        cores = tighter(cores, quota_of_line(line, mount_path));
    }
    fclose(file);
    return cores;
}
