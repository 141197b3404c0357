/* Layouts that cannot run, refused with what spec parallelism 6.5 wants to be said. */
#ifndef SLUICE_TOOLS_PLAN_CHECK_H
#define SLUICE_TOOLS_PLAN_CHECK_H

#include "base/string_buffer.h"
#include "tools/plan.h"
#include "weights/checkpoint.h"

/*
 * Checks a request by model and machine: CFG-01, 02, 03, 04, 07, 09, 14, 16, 17, 20. Memory is not looked at,
 * nor the layer partition.
 */
enum status plan_check_request(const struct plan_model *model, const struct plan_machine *machine,
                               const struct plan_request *request);

/*
 * Checks what the files say against the configuration: tables of expert ids have a row for each token
 * (CFG-19), and with drafting on no draft tensor is missing (CFG-10).
 */
enum status plan_check_files(const struct plan_model *model, const struct checkpoint *checkpoint);

/*
 * Appends a line for each thing that works but is not as it should be. That a rank has few heads is none: no
 * kernel of the cpu backend pads them (spec parallelism G-13).
 */
void plan_append_warnings(const struct plan *plan, struct string_buffer *out);

#endif
