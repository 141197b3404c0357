/* Plans as JSON for programs. Keys are stable: later versions may add some. */
#ifndef SLUICE_TOOLS_PLAN_JSON_H
#define SLUICE_TOOLS_PLAN_JSON_H

#include "base/string_buffer.h"
#include "tools/plan_layouts.h"

/* What a plan command worked out. */
struct plan_outcome {
    const struct plan_machine *machine;
    const struct plan_request *request;
    const struct plan *plans; /* the asked layout, or those of a search */
    int plan_count;
    const struct plan_scale *scale; /* NULL: none was asked for */
};

/* Appends one object and a newline: {"machine", "request", "layouts": [...], "scale": [...]}. */
enum status plan_json_write(const struct plan_outcome *outcome, struct string_buffer *out);

#endif
