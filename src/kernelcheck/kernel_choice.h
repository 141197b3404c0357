/*
 * Which kernel each operation would use, for the weight formats and sizes that models have.
 */
#ifndef SLUICE_KERNELCHECK_KERNEL_CHOICE_H
#define SLUICE_KERNELCHECK_KERNEL_CHOICE_H

#include "kernelcheck/kernel_machine.h"
#include "ops/numerics.h"

enum { KERNEL_CHOICES_MAX = 128 };

struct kernel_choice {
    enum op_id op;
    const char *weights;          /* "FP8", "BF16"; "" where the operation has none to choose by */
    const struct op_entry *entry; /* NULL: none can run it */
};

struct kernel_choices {
    struct kernel_choice items[KERNEL_CHOICES_MAX];
    size_t count;
};

/* Asks the table of the machine as a step would. Every operation is there at least once. */
enum status kernel_choices_list(const struct kernel_machine *machine, enum numerics numerics,
                                struct kernel_choices *out);

#endif
