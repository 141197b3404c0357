/* What several ranks did, into the file of a timeline; for the leader, when an engine is closed. */
#ifndef SLUICE_ENGINE_RANK_TIMELINE_H
#define SLUICE_ENGINE_RANK_TIMELINE_H

#include "engine/executor.h"

/* Recorders of this process, those that are NULL left out. A line in the log says what went wrong. */
void rank_timeline_write(const char *path, struct tick_trace *const *traces, int count);

/* The same of a process that is no more. */
void rank_timeline_write_lost(const char *path, int process, struct tick_trace *const *traces, int count);

/*
 * The leaders', and those of all other ranks, which wait for records. leaders: [count], of each replica.
 */
void rank_timeline_gather(const char *path, struct executor *const *leaders, int count);

#endif
