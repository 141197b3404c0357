/*
 * Lines on their way to a descriptor whose reader may be slow, stopped or gone: whoever has a line to write
 * never waits for it.
 *
 * A thread of its own writes, a page at most at a time and only when the descriptor takes it, so that a pipe
 * which others write to as well keeps its mode. Lines wait in a ring of fixed size; one that does not fit is
 * dropped as a whole and counted, which is said on stderr once.
 */
#ifndef SLUICE_SERVER_LINE_WRITER_H
#define SLUICE_SERVER_LINE_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct line_writer;

struct line_writer_options {
    int descriptor;     /* borrowed */
    size_t room_bytes;  /* of lines that wait */
    const char *advice; /* what is said on stderr behind the number of lines; static */
};

/* Owned: line_writer_destroy. */
enum status line_writer_create(const struct line_writer_options *options, struct line_writer **out);

/* Gives the reader a second to take what is left; frees and nulls. NULL inside is allowed. */
void line_writer_destroy(struct line_writer **writer);

/* `line` ends with a line end. Any thread. */
void line_writer_put(struct line_writer *writer, const char *line, size_t length);

/* Lines that nobody will read. Any thread. */
uint64_t line_writer_dropped_count(struct line_writer *writer);

#endif
