/* Redraws one line with a carriage return; without a terminal nothing is written at all. */
#include "base/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

static const double DRAW_INTERVAL_SECONDS = 0.1;

void progress_start(struct progress *progress, const char *label, const char *unit, uint64_t total) {
    double now = clock_seconds();
    *progress = (struct progress){
        .label = label,
        .unit = unit,
        .total = total,
        .started_seconds = now,
        .drawn_seconds = now,
        .is_terminal = isatty(STDERR_FILENO) == 1,
    };
}

void progress_set_note(struct progress *progress, const char *note) {
    snprintf(progress->note, sizeof progress->note, "%s", note);
}

void progress_update(struct progress *progress, uint64_t done) {
    if (!progress->is_terminal) {
        return;
    }
    double now = clock_seconds();
    if (now - progress->drawn_seconds < DRAW_INTERVAL_SECONDS) {
        return;
    }
    progress->drawn_seconds = now;
    double rate = (double)done / (now - progress->started_seconds);
    double percent = progress->total == 0 ? 100.0 : 100.0 * (double)done / (double)progress->total;
    fprintf(stderr, "\r\033[K%s: %" PRIu64 " of %" PRIu64 " %s (%.0f %%, %.4g %s/s)%s%s", progress->label,
            done, progress->total, progress->unit, percent, rate, progress->unit,
            progress->note[0] == '\0' ? "" : "; ", progress->note);
    fflush(stderr);
}

void progress_finish(struct progress *progress) {
    if (progress->is_terminal) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}
