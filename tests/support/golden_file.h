/* Recorded references: tests/golden/<model>/golden.safetensors. Every function asserts. */
#ifndef SLUICE_TESTS_SUPPORT_GOLDEN_FILE_H
#define SLUICE_TESTS_SUPPORT_GOLDEN_FILE_H

#include <stdint.h>

#include "base/file_map.h"
#include "weights/safetensors.h"

struct golden_file {
    struct file_map map;
    struct safetensors_header header;
};

/* Opens the file of "tiny-v4". Owned: golden_file_close. */
void golden_file_open(const char *model, struct golden_file *out);

void golden_file_close(struct golden_file *golden);

/* A copy of the F32 tensor, valid until the file is closed; `count` (may be NULL) gets its elements. */
const float *golden_file_floats(struct golden_file *golden, const char *name, int64_t *count);

/* The same of an I64 tensor whose values fit 32 bits. */
const int32_t *golden_file_integers(struct golden_file *golden, const char *name, int64_t *count);

#endif
