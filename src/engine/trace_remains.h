/*
 * What engines that were killed had recorded for a timeline: rings that lie in files beside it
 * (engine/tick_trace.h), named after it, process and rank, as long as they are not part of it.
 */
#ifndef SLUICE_ENGINE_TRACE_REMAINS_H
#define SLUICE_ENGINE_TRACE_REMAINS_H

#include <stdbool.h>

#include "base/string_buffer.h"

/* Whether rings may lie there: beside a file that is there and is one, not a terminal or /dev/null. */
bool trace_remains_have_place(const char *trace_path);

/* The name of this process's ring for a rank; the caller deinits it. */
void trace_remains_name(const char *trace_path, int rank, struct string_buffer *out);

/*
 * Adds what was left behind to the timeline, each engine as a process of its own, and removes its files. A
 * line in the log says what went wrong. Rings of living processes stay as they are.
 */
void trace_remains_add(const char *trace_path);

/* Removes what was left behind, of an earlier timeline. */
void trace_remains_remove(const char *trace_path);

#endif
