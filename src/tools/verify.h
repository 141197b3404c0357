/*
 * Reads the payload of a whole checkpoint and looks for values that no sound one holds.
 */
#ifndef SLUICE_TOOLS_VERIFY_H
#define SLUICE_TOOLS_VERIFY_H

#include <stddef.h>

#include "base/status.h"
#include "weights/checkpoint.h"
#include "weights/payload_check.h"

/* One tensor with bad values. */
struct verify_problem {
    const struct checkpoint_tensor *tensor; /* of the checkpoint */
    struct payload_problem problem;
};

struct verify_result {
    struct verify_problem *problems; /* by tensor name; freed by verify_result_deinit */
    size_t count;
};

/*
 * Checks all tensors on `thread_count` threads, with a progress bar. specs[i] describes
 * checkpoint->tensors[i], NULL where nothing is known of it. Bad values are a result, not a failure.
 */
enum status verify_payload(const struct checkpoint *checkpoint, const struct tensor_spec *const *specs,
                           unsigned thread_count, struct verify_result *out);

void verify_result_deinit(struct verify_result *result);

#endif
