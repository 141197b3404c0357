/* Temporary model directories and hand-made safetensors bytes for the tests of weights and tools. */
#ifndef SLUICE_TESTS_WEIGHTS_FIXTURE_H
#define SLUICE_TESTS_WEIGHTS_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { FIXTURE_PATH_BYTES = 512 };

/* A new empty directory; the test ends with fixture_remove. A failure fails the test. */
void fixture_make(char directory[FIXTURE_PATH_BYTES]);

/* Removes the directory with all it holds. */
void fixture_remove(const char *directory);

/* Writes a file into the directory. */
void fixture_write(const char *directory, const char *name, const void *bytes, size_t length);

/* Copies a file of the source tree into the directory. */
void fixture_copy(const char *directory, const char *source_path, const char *name);

/* Builds 8 bytes of length, `header`, then `data_bytes` zero bytes. The caller frees. */
unsigned char *fixture_build(const char *header, size_t data_bytes, size_t *length);

/* Writes fixture_build's bytes as a file. */
void fixture_write_tensors(const char *directory, const char *name, const char *header, size_t data_bytes);

/* Fails the test unless the thread's last error holds `fragment`. */
void fixture_expect_error(enum status actual, enum status expected, const char *fragment);

uint64_t fixture_fnv1a(const void *bytes, size_t length);

#endif
