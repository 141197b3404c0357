/*
 * The control groups that bind this process: its own and all their parents, of versions 1 and 2.
 *
 * A limit binds a group and everything below it, so each parent up to the mount point is asked too. Inside a
 * container the group's own path is often not mounted; its parents end at the mount point, which then is the
 * container's group. Reads files at each call and keeps nothing. Any thread.
 */
#ifndef SLUICE_BASE_CGROUP_DIRECTORIES_H
#define SLUICE_BASE_CGROUP_DIRECTORIES_H

#include <stdbool.h>

/* What to do with one directory. `is_version_2` says which files it has. */
struct cgroup_visitor {
    const char *controller; /* "cpu", "memory" */
    void (*visit)(void *context, const char *directory, bool is_version_2);
    void *context;
};

/*
 * Visits all directories that bind the controller. `membership_path` is "/proc/self/cgroup" and `mount_path`
 * "/sys/fs/cgroup" outside tests. Visits none if they cannot be read.
 */
void cgroup_visit_directories(const char *membership_path, const char *mount_path,
                              const struct cgroup_visitor *visitor);

/* Reads the first line of `directory`/`name`; false if there is none. */
bool cgroup_read_line(const char *directory, const char *name, char *line, int line_bytes);

#endif
