/*
 * Which processors share a physical core, as Linux tells below /sys.
 *
 * Reads files at each call and keeps nothing. Any thread.
 */
#ifndef SLUICE_BASE_CPU_TOPOLOGY_H
#define SLUICE_BASE_CPU_TOPOLOGY_H

#include <sched.h>

enum { CPU_CORE_NONE = -1 };

/* The allowed processors, by the core that they belong to. */
struct cpu_topology {
    unsigned core_count;      /* cores of which at least one processor is allowed */
    short cores[CPU_SETSIZE]; /* core of each processor, below core_count; CPU_CORE_NONE if not allowed */
};

/*
 * Numbers the cores of the processors in `allowed` by their first processor. `system_path` is
 * "/sys/devices/system/cpu" outside tests; a processor without readable siblings is a core of its own.
 */
void cpu_topology_read(const char *system_path, const cpu_set_t *allowed, struct cpu_topology *out);

/* Memory nodes of the machine, at least 1. `system_path` is "/sys/devices/system/node" outside tests. */
unsigned cpu_topology_memory_nodes(const char *system_path);

/* The allowed processors of one core. */
void cpu_topology_core_set(const struct cpu_topology *topology, unsigned core, cpu_set_t *out);

#endif
