/*
 * Checks every kernel against the reference, and against itself.
 *
 * Per entry and case: (a) the result is as near to the reference of the same mode as the operation's
 * tolerance class asks; (b) nothing else is written; (c) a second run gives the same bits; (d) so does each
 * row alone, or among the others in another order; (e) so do all entries with the same arithmetic id; (f) so
 * does one thread as well as two. On the guard device (a), (b) and (e) only: there a kernel that reads past
 * an operand dies. Cases come from a generator per operation (case_families.h).
 *
 * One check at a time: it starts a worker pool of its own.
 */
#ifndef SLUICE_KERNELCHECK_KERNELCHECK_H
#define SLUICE_KERNELCHECK_KERNELCHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "device/device.h"
#include "ops/op_queue.h"

enum kernel_verdict {
    KERNEL_PASSED,
    KERNEL_FAILED,
    KERNEL_NOT_RUN,   /* this processor lacks what it needs, or the request leaves it out */
    KERNEL_UNCHECKED, /* no case suits it: a failure of the generators */
};

enum { KERNEL_MESSAGE_BYTES = 512 };

struct kernelcheck_entry {
    const struct op_entry *entry;
    enum kernel_verdict verdict;
    size_t case_count;
    size_t failure_count;               /* checks that failed */
    char message[KERNEL_MESSAGE_BYTES]; /* the first failure: check, case, seed, row, element, got, wanted */
};

struct kernelcheck_request {
    const struct op_entry *const *entries; /* as cpu_kernels_collect gives them: every mode has a reference */
    size_t entry_count;
    unsigned features;   /* instruction sets to run (cpu_features.h) */
    uint64_t operations; /* bit per enum op_id */
    uint64_t seed;
    bool is_quick;                                                 /* few rows only, for sanitizers */
    struct device *device;                                         /* cpu or guard */
    void (*progress)(void *context, const struct op_entry *entry); /* before an entry's runs; NULL: none */
    void *progress_context;
};

struct kernelcheck_result {
    struct kernelcheck_entry *entries; /* in the order of the request, those of other operations left out */
    size_t entry_count;
    size_t failed_count; /* FAILED and UNCHECKED */
};

/* Runs the checks. Failed checks are in the result, not in the status. Owned: kernelcheck_result_deinit. */
enum status kernelcheck_run(const struct kernelcheck_request *request, struct kernelcheck_result *out);
void kernelcheck_result_deinit(struct kernelcheck_result *result);

/* "passed", "FAILED", "not run", "UNCHECKED". A static string. */
const char *kernel_verdict_name(enum kernel_verdict verdict);

#endif
