/* Builds the arguments of each benchmark's shape, with less weight where only the number of rows is large. */
#include "kernelcheck/kernel_choice.h"

#include "kernelcheck/case_families.h"

enum { ROWS_MAX = 128 };

static const char *weights_name(enum op_id op, const struct case_shape *shape) {
    if (op != OP_LINEAR && op != OP_GROUPED_LINEAR && op != OP_MOE_EXPERTS) {
        return "";
    }
    switch (shape->format) {
    case WEIGHT_FP8:
        return "FP8";
    case WEIGHT_FP4:
        return "FP4";
    default:
        return dtype_name(shape->weight_dtype);
    }
}

static void add_choice(struct kernel_choices *choices, struct kernel_choice choice) {
    for (size_t i = 0; i < choices->count; i++) {
        const struct kernel_choice *known = &choices->items[i];
        if (known->op == choice.op && known->weights == choice.weights && known->entry == choice.entry) {
            return;
        }
    }
    if (choices->count < KERNEL_CHOICES_MAX) {
        choices->items[choices->count++] = choice;
    }
}

static enum status choose(struct case_place place, const struct op_table *table, enum op_id op,
                          const struct case_shape *shape, enum numerics numerics,
                          struct kernel_choices *choices) {
    struct kernel_case kernel_case;
    struct case_plan plan;
    struct case_shape smaller = *shape;
    smaller.inner = smaller.inner < ROWS_MAX ? smaller.inner : ROWS_MAX;
    smaller.experts = op == OP_MOE_EXPERTS ? smaller.picks : smaller.experts;
    case_plan_init_bench(&plan, 1, false, 0);
    enum status status = kernel_case_init(&kernel_case, place, case_family_of(op), op, &smaller, numerics,
                                          CASE_ZERO, 0, &plan);
    if (status == STATUS_OK) {
        struct kernel_choice choice = {op, weights_name(op, shape),
                                       op_table_choose(table, op, &kernel_case.args)};
        add_choice(choices, choice);
    }
    kernel_case_deinit(&kernel_case);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status kernel_choices_list(const struct kernel_machine *machine, enum numerics numerics,
                                struct kernel_choices *out) {
    enum status status = STATUS_OK;
    struct case_place place = {.device = machine->device};
    struct op_table table;
    *out = (struct kernel_choices){0};
    op_table_build(&table, machine->entries, machine->entry_count, 1u << (unsigned)numerics,
                   machine->features);
    TRY_GOTO(device_stream_create(place.device, &place.stream));
    for (int op = 0; op < OP_COUNT; op++) {
        const struct case_family *family = case_family_of((enum op_id)op);
        for (int s = 0; s < family->bench_shape_count; s++) {
            TRY_GOTO(choose(place, &table, (enum op_id)op, &family->bench_shapes[s], numerics, out));
        }
    }
fail:
    if (place.stream != NULL) {
        device_stream_destroy(&place.stream);
    }
    return status;
}
