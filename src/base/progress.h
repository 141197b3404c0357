/*
 * A progress line on stderr, drawn only where stderr is a terminal and at most ten times a second.
 *
 * One thread at a time.
 */
#ifndef SLUICE_BASE_PROGRESS_H
#define SLUICE_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *label; /* borrowed, "writing layers" */
    const char *unit;  /* borrowed, "MB", "tokens" */
    uint64_t total;
    double started_seconds;
    double drawn_seconds;
    bool is_terminal;
};

void progress_start(struct progress *progress, const char *label, const char *unit, uint64_t total);
void progress_update(struct progress *progress, uint64_t done);

/* Clears the line. */
void progress_finish(struct progress *progress);

#endif
