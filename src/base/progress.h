/*
 * A progress line on stderr, drawn only where stderr is a terminal and at most ten times a second.
 *
 * One thread at a time.
 */
#ifndef SLUICE_BASE_PROGRESS_H
#define SLUICE_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

enum { PROGRESS_NOTE_BYTES = 64 };

struct progress {
    const char *label; /* borrowed, "writing layers" */
    const char *unit;  /* borrowed, "MB", "tokens" */
    uint64_t total;
    double started_seconds;
    double drawn_seconds;
    bool is_terminal;
    char note[PROGRESS_NOTE_BYTES]; /* shown behind the numbers */
};

void progress_start(struct progress *progress, const char *label, const char *unit, uint64_t total);

/* What stands behind the numbers from the next update on; cut at its room. */
void progress_set_note(struct progress *progress, const char *note);

void progress_update(struct progress *progress, uint64_t done);

/* Clears the line. */
void progress_finish(struct progress *progress);

#endif
