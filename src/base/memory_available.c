/* The least of the system's estimate and of what each control group leaves. */
#include "base/memory_available.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cgroup_directories.h"

enum { LINE_BYTES = 256 };

static uint64_t system_bytes(const char *meminfo_path) {
    FILE *file = fopen(meminfo_path, "re");
    if (file == NULL) {
        return UINT64_MAX;
    }
    char line[LINE_BYTES];
    uint64_t kilobytes = 0;
    bool is_found = false;
    while (!is_found && fgets(line, sizeof line, file) != NULL) {
        is_found = sscanf(line, "MemAvailable: %" SCNu64 " kB", &kilobytes) == 1;
    }
    fclose(file);
    return is_found ? kilobytes * 1024 : UINT64_MAX;
}

static bool read_bytes(const char *directory, const char *name, uint64_t *bytes) {
    char line[LINE_BYTES];
    return cgroup_read_line(directory, name, line, sizeof line) && sscanf(line, "%" SCNu64, bytes) == 1;
}

/* Page cache that the kernel would give up: it counts as usage, but is no obstacle. */
static uint64_t reclaimable_bytes(const char *directory, bool is_version_2) {
    char path[4096];
    const char *wanted = is_version_2 ? "inactive_file " : "total_inactive_file ";
    uint64_t bytes = 0;
    if (snprintf(path, sizeof path, "%s/memory.stat", directory) >= (int)sizeof path) {
        return 0;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    char line[LINE_BYTES];
    while (bytes == 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, wanted, strlen(wanted)) == 0 &&
            sscanf(line + strlen(wanted), "%" SCNu64, &bytes) != 1) {
            bytes = 0;
        }
    }
    fclose(file);
    return bytes;
}

/* A group without a limit says "max", which is no number, or in version 1 an astronomic one. */
static void take_less(void *context, const char *directory, bool is_version_2) {
    uint64_t *least = context;
    uint64_t limit;
    uint64_t used;
    if (!read_bytes(directory, is_version_2 ? "memory.max" : "memory.limit_in_bytes", &limit) ||
        !read_bytes(directory, is_version_2 ? "memory.current" : "memory.usage_in_bytes", &used)) {
        return;
    }
    uint64_t reclaimable = reclaimable_bytes(directory, is_version_2);
    used -= reclaimable < used ? reclaimable : used;
    uint64_t left = used < limit ? limit - used : 0;
    *least = left < *least ? left : *least;
}

uint64_t memory_available_bytes(const char *meminfo_path, const char *membership_path,
                                const char *mount_path) {
    uint64_t least = system_bytes(meminfo_path);
    cgroup_visit_directories(
        membership_path, mount_path,
        &(struct cgroup_visitor){.controller = "memory", .visit = take_less, .context = &least});
    return least;
}
