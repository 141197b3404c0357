/*
 * Joins what a parser finds out during one push into as few events as possible.
 *
 * Texts wait until the kind changes or the push ends. One thread at a time.
 */
#ifndef SLUICE_TEXT_OUTPUT_WRITER_H
#define SLUICE_TEXT_OUTPUT_WRITER_H

#include <stddef.h>

#include "base/string_buffer.h"
#include "text/output_event.h"

struct output_writer {
    const struct output_sink *sink; /* borrowed during a push */
    struct string_buffer text;      /* not reported yet */
    enum output_event_kind kind;    /* of `text` */
    size_t call_index;              /* of `text` */
};

void output_writer_deinit(struct output_writer *writer);

/* Appends to the text of a kind; `call_index` matters for arguments only. */
enum status output_writer_append(struct output_writer *writer, enum output_event_kind kind, size_t call_index,
                                 const char *bytes, size_t length);

/* Reports the waiting text, then this event. */
enum status output_writer_emit(struct output_writer *writer, const struct output_event *event);

/* Reports the waiting text. */
enum status output_writer_flush(struct output_writer *writer);

#endif
