/*
 * What a model directory holds: configuration, tensors, files, tokenizer, and whether they fit together; and
 * which kernels would run it here.
 *
 * Problems are facts to report, not failures: only a directory whose weights cannot be opened fails.
 */
#ifndef SLUICE_TOOLS_INSPECT_H
#define SLUICE_TOOLS_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "kernelcheck/kernel_choice.h"
#include "tools/model_listing.h"
#include "tools/verify.h"
#include "weights/checkpoint.h"

struct inspect_request {
    const char *directory;
    bool verifies; /* read and check all payload too */
    unsigned thread_count;
    const char *cpu_features; /* as cpu_features_parse takes it; NULL: all that the processor has */
    enum numerics numerics;   /* that kernels are listed for */
};

struct inspect_dtype {
    size_t tensor_count;
    size_t bytes;
};

struct inspection {
    struct checkpoint *checkpoint;
    struct model_listing listing;     /* its model is NULL if config.json gives none */
    const struct tensor_spec **specs; /* per tensor of the checkpoint; NULL where the model has none */
    struct string_buffer description; /* the model's sentence about itself; "" without a model */
    struct string_buffer problems;    /* one a line, payload aside */
    size_t problem_count;             /* payload problems included */
    struct inspect_dtype dtypes[DTYPE_COUNT];
    uint64_t parameter_count; /* weights as numbers: without scales and tables */
    size_t unaligned_count;   /* tensors at no multiple of their element size; the format allows it */
    int32_t tokenizer_size;   /* highest token id + 1; 0 without tokenizer.json */
    bool is_verified;
    struct verify_result payload;
    enum numerics numerics;
    unsigned cpu_features;
    struct kernel_choices kernels;
};

/* Reads the directory. Owned: inspection_deinit, also after a failure. */
enum status inspection_read(const struct inspect_request *request, struct inspection *out);

void inspection_deinit(struct inspection *inspection);

#endif
