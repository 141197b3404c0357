/* The generator of each operation's cases: one per line of the list of operations, so none can be missing. */
#ifndef SLUICE_KERNELCHECK_CASE_FAMILIES_H
#define SLUICE_KERNELCHECK_CASE_FAMILIES_H

#include "kernelcheck/kernel_case.h"

#define X(CONSTANT, name) extern const struct case_family case_family_##name;
OP_LIST(X)
#undef X

const struct case_family *case_family_of(enum op_id op);

/* Calls op_<name>: contract checks, then the queue. */
enum status case_submit(struct op_queue *queue, enum op_id op, const union case_args *args);

#endif
