/* Sibling lists look like "0,64" or "0-1": numbers and ranges, separated by commas. */
#include "base/cpu_topology.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 4096 };

/* Gives the processors first..last, as far as they are allowed and have no core yet, the number `core`. */
static void assign(struct cpu_topology *topology, const cpu_set_t *allowed, long first, long last,
                   short core) {
    for (long cpu = first < 0 ? 0 : first; cpu <= last && cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET((size_t)cpu, allowed) && topology->cores[cpu] == CPU_CORE_NONE) {
            topology->cores[cpu] = core;
        }
    }
}

static void assign_list(struct cpu_topology *topology, const cpu_set_t *allowed, const char *list,
                        short core) {
    for (const char *at = list;;) {
        char *end;
        long first = strtol(at, &end, 10);
        if (end == at) {
            return;
        }
        long last = first;
        if (*end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
        }
        assign(topology, allowed, first, last, core);
        if (*end != ',') {
            return;
        }
        at = end + 1;
    }
}

static void assign_siblings(struct cpu_topology *topology, const char *system_path, const cpu_set_t *allowed,
                            int cpu, short core) {
    char path[PATH_MAX];
    char line[LINE_BYTES];
    int length = snprintf(path, sizeof path, "%s/cpu%d/topology/thread_siblings_list", system_path, cpu);
    FILE *file = length < PATH_MAX ? fopen(path, "re") : NULL;
    if (file == NULL) {
        return;
    }
    if (fgets(line, sizeof line, file) != NULL) {
        assign_list(topology, allowed, line, core);
    }
    fclose(file);
}

void cpu_topology_read(const char *system_path, const cpu_set_t *allowed, struct cpu_topology *out) {
    out->core_count = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        out->cores[cpu] = CPU_CORE_NONE;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, allowed) || out->cores[cpu] != CPU_CORE_NONE) {
            continue;
        }
        short core = (short)out->core_count++;
        out->cores[cpu] = core;
        assign_siblings(out, system_path, allowed, cpu, core);
    }
}

unsigned cpu_topology_memory_nodes(const char *system_path) {
    DIR *directory = opendir(system_path);
    unsigned count = 0;
    if (directory == NULL) {
        return 1;
    }
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        const char *number = entry->d_name + strlen("node");
        count += strncmp(entry->d_name, "node", strlen("node")) == 0 && isdigit((unsigned char)*number);
    }
    closedir(directory);
    return count == 0 ? 1 : count;
}

void cpu_topology_core_set(const struct cpu_topology *topology, unsigned core, cpu_set_t *out) {
    CPU_ZERO(out);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (topology->cores[cpu] == (short)core) {
            CPU_SET(cpu, out);
        }
    }
}
