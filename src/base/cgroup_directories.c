/* Lines "id:controllers:/group" of the membership file; without controllers a line is of version 2. */
#include "base/cgroup_directories.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

bool cgroup_read_line(const char *directory, const char *name, char *line, int line_bytes) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= PATH_MAX) {
        return false;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    bool is_read = fgets(line, line_bytes, file) != NULL;
    fclose(file);
    return is_read;
}

/* `mount`/`group` and each parent up to `mount` itself. */
static void visit_group(const char *mount, const char *group, bool is_version_2,
                        const struct cgroup_visitor *visitor) {
    char directory[PATH_MAX];
    if (snprintf(directory, sizeof directory, "%s%s", mount, group) >= PATH_MAX) {
        return;
    }
    size_t mount_length = strlen(mount);
    for (;;) {
        visitor->visit(visitor->context, directory, is_version_2);
        char *slash = strrchr(directory + mount_length, '/');
        if (slash == NULL) {
            return;
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

static void visit_line(char *line, const char *mount_path, const struct cgroup_visitor *visitor) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group == NULL) {
        return;
    }
    controllers++;
    *group++ = '\0';
    if (controllers[0] == '\0') {
        visit_group(mount_path, group, true, visitor);
        return;
    }
    char mount[PATH_MAX];
    if (names_controller(controllers, visitor->controller) &&
        snprintf(mount, sizeof mount, "%s/%s", mount_path, visitor->controller) < PATH_MAX) {
        visit_group(mount, group, false, visitor);
    }
}

void cgroup_visit_directories(const char *membership_path, const char *mount_path,
                              const struct cgroup_visitor *visitor) {
    FILE *file = fopen(membership_path, "re");
    if (file == NULL) {
        return;
    }
    char line[PATH_MAX];
    while (fgets(line, sizeof line, file) != NULL) {
        visit_line(line, mount_path, visitor);
    }
    fclose(file);
}
