/* An inspection as text for people and as JSON for programs. */
#ifndef SLUICE_TOOLS_INSPECT_REPORT_H
#define SLUICE_TOOLS_INSPECT_REPORT_H

#include <stdbool.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "tools/inspect.h"

/* Appends lines of text; with `lists_tensors` one line per tensor too. */
enum status inspect_report_text(const struct inspection *inspection, bool lists_tensors,
                                struct string_buffer *out);

/*
 * Appends one JSON object and a newline. Its keys are stable: later versions may add some. "model" and
 * "tokenizer" are null where there is none, "payload" unless it was verified, "tensors" unless they are
 * listed.
 */
enum status inspect_report_json(const struct inspection *inspection, bool lists_tensors,
                                struct string_buffer *out);

#endif
