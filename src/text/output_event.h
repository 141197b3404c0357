/*
 * What the output parser reports while a completion comes in.
 *
 * Texts of one kind, joined, are the whole: reasoning, content, and per call its arguments (the text of one
 * JSON object). A delta never ends inside a UTF-8 character. Pointers are valid during the call only.
 */
#ifndef SLUICE_TEXT_OUTPUT_EVENT_H
#define SLUICE_TEXT_OUTPUT_EVENT_H

#include <stddef.h>

#include "base/status.h"

enum output_event_kind {
    OUTPUT_EVENT_REASONING,           /* text */
    OUTPUT_EVENT_CONTENT,             /* text */
    OUTPUT_EVENT_TOOL_CALL_START,     /* text is the name; call_index, call_id */
    OUTPUT_EVENT_TOOL_CALL_ARGUMENTS, /* text; call_index */
    OUTPUT_EVENT_TOOL_CALL_END,       /* call_index */
    OUTPUT_EVENT_TOOL_CALL_ABANDON,   /* call_index: the completion ended inside this call; forget it */
};

struct output_event {
    enum output_event_kind kind;
    const char *text; /* NUL-terminated */
    size_t length;
    size_t call_index;   /* 0, 1, 2, ... in order */
    const char *call_id; /* unique per call */
};

/* Receives events in order. A status other than OK stops the parser and is passed on to its caller. */
struct output_sink {
    enum status (*emit)(void *context, const struct output_event *event);
    void *context;
};

#endif
