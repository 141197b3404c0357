/* Plans as text for people. Each function appends; string_buffer_check at the end. */
#ifndef SLUICE_TOOLS_PLAN_REPORT_H
#define SLUICE_TOOLS_PLAN_REPORT_H

#include "base/string_buffer.h"
#include "tools/plan_layouts.h"

/* Model, machine and request. */
void plan_report_setting(const struct plan_model *model, const struct plan_machine *machine,
                         const struct plan_request *request, struct string_buffer *out);

/* One layout: memory of its stages, capacity, traffic, times, what limits it and what is odd about it. */
void plan_report_layout(const struct plan *plan, struct string_buffer *out);

/* The layouts of a search, a line each with the reason. */
void plan_report_layouts(const struct plan_layouts *layouts, struct string_buffer *out);

/* A line per number of ranks. */
void plan_report_scale(const struct plan_scale *scale, struct string_buffer *out);

#endif
