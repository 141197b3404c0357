/* Tables by operation, from the list of operations. */
#include "kernelcheck/case_families.h"

const struct case_family *case_family_of(enum op_id op) {
    static const struct case_family *const families[OP_COUNT] = {
#define X(CONSTANT, name) [OP_##CONSTANT] = &case_family_##name,
        OP_LIST(X)
#undef X
    };
    return families[op];
}

enum status case_submit(struct op_queue *queue, enum op_id op, const union case_args *args) {
    enum status status = STATUS_UNSUPPORTED;
    switch (op) {
#define X(CONSTANT, name)                       \
    case OP_##CONSTANT:                         \
        status = op_##name(queue, &args->name); \
        break;
        OP_LIST(X)
#undef X
    case OP_COUNT:
        break;
    }
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
