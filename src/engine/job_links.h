/*
 * How fast the hosts of a job reach each other, looked at once when it starts.
 *
 * The first ranks of neighbouring hosts send each other a few messages, one pair after the other, in the
 * order in which stages lie and back from the last host to the first. A slow link is named: everything that
 * goes over it waits for it.
 */
#ifndef SLUICE_ENGINE_JOB_LINKS_H
#define SLUICE_ENGINE_JOB_LINKS_H

#include "base/string_buffer.h"
#include "comm/comm.h"

/* From `rank` to the first rank of the next host; rank -1: none was looked at. */
struct job_link {
    int32_t rank;
    int32_t peer;
    double bytes_per_second; /* of the slower direction */
    double latency_seconds;  /* one way */
};

/*
 * Collective. host_numbers: [size], of each rank the first rank on its host. links: [size], by
 * rank; the same on all ranks.
 */
enum status job_links_measure(struct comm *world, const int32_t *host_numbers, struct job_link *links);

/*
 * The slowest link between hosts of `count` ranks from `first` on; if none of these was looked at, of all.
 * links and host_numbers: [size], as above.
 */
struct job_link job_links_slowest(const struct job_link *links, int size, const int32_t *host_numbers,
                                  int first, int count);

/*
 * Appends a line for each link that is slow: below one Gbit/s, or less than half as fast as the middle one of
 * all. names: [count], of the ranks' hosts.
 */
void job_links_describe_slow(const struct job_link *links, int count, const char *const *names,
                             struct string_buffer *out);

#endif
