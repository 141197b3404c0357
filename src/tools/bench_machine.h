/* What a benchmark's reader wants to know of machine and process, from /proc. Any thread. */
#ifndef SLUICE_TOOLS_BENCH_MACHINE_H
#define SLUICE_TOOLS_BENCH_MACHINE_H

#include <stddef.h>

/* The most memory that the process ever had in use, mapped weights included; 0 if unknown. */
size_t bench_peak_resident_bytes(void);

/* Of the mapped files that are in memory now, the part that is in large pages; 0 if unknown. */
double bench_large_page_fraction(void);

/* The processor's name, "unknown processor" if there is none. Cut to `out_bytes`. */
void bench_cpu_name(char *out, size_t out_bytes);

#endif
