/*
 * The file of a timeline, as Perfetto and chrome://tracing show it.
 *
 * Engines of one process, and processes that were given the same path, write into one file: each adds what
 * its ranks did when it is closed, as a process of its own in the picture, while it holds a lock on the file.
 * What a process had recorded that was killed is added by others (engine/trace_remains.h).
 * A file that is something else is begun anew. Where a writer was killed, what it had written stays, up to
 * its last line but one.
 */
#ifndef SLUICE_ENGINE_TRACE_FILE_H
#define SLUICE_ENGINE_TRACE_FILE_H

#include <stdbool.h>

#include "engine/tick_trace.h"

struct trace_file;

/* Empties the file, or leaves what others wrote where it is; either way IO if it cannot be written to. */
enum status trace_file_prepare(const char *path, bool keeps_others);

/* Events are of this process itself. */
enum { TRACE_FILE_OWN = 0 };

/*
 * Waits for who writes already. `process`: TRACE_FILE_OWN, or a process that is no more, of whose events the
 * file says so. Owned: trace_file_close. `path` is borrowed.
 */
enum status trace_file_open(const char *path, int process, struct trace_file **out);

/* A rank's track, and then its events in order, in as many pieces as the caller likes. */
void trace_file_add_track(struct trace_file *file, const struct trace_track *track);
void trace_file_add_events(struct trace_file *file, const struct trace_track *track,
                           const struct trace_event *events, int64_t count);

/* Completes the file; IO if not all could be written. Frees and nulls. */
enum status trace_file_close(struct trace_file **file);

#endif
