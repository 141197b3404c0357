/*
 * The safetensors container: 8 bytes of header length, a JSON header, the tensors' bytes (spec
 * deepseek-v4 3.1).
 *
 * Parsing trusts nothing: a header that passed describes tensors that lie inside the file, fill it without
 * holes or overlaps and have exactly the bytes their shape needs. Any thread may read a parsed header.
 */
#ifndef SLUICE_WEIGHTS_SAFETENSORS_H
#define SLUICE_WEIGHTS_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "weights/tensor_spec.h"

/* Longest header that is read and written; the format's own limit. */
enum { SAFETENSORS_HEADER_BYTES_MAX = 100000000, SAFETENSORS_NAME_BYTES_MAX = 512 };

struct safetensors_entry {
    const char *name; /* printable: holds no control characters */
    enum dtype dtype;
    int rank;
    int64_t shape[TENSOR_RANK_MAX];
    size_t offset; /* of its first byte in the file; a multiple of nothing in particular */
    size_t bytes;
};

struct safetensors_header {
    struct arena arena;                /* holds entries and names */
    struct safetensors_entry *entries; /* by offset */
    size_t count;
};

/*
 * Parses the header of the whole file `bytes` (`length` of them, NULL if 0). `what` names the file in errors.
 * BAD_FORMAT for anything that breaks the format. Owned: safetensors_header_deinit.
 */
enum status safetensors_parse(const unsigned char *bytes, size_t length, const char *what,
                              struct safetensors_header *out);

void safetensors_header_deinit(struct safetensors_header *header);

/* Bytes of a tensor; OUT_OF_RANGE for a negative extent or a product beyond 2^63. */
enum status safetensors_tensor_bytes(enum dtype dtype, int rank, const int64_t *shape, size_t *out);

enum { SAFETENSORS_SHAPE_TEXT_BYTES = 24 * TENSOR_RANK_MAX };

/* Writes "[4096, 256]" into `text` and returns it. */
const char *safetensors_shape_text(int rank, const int64_t *shape, char text[SAFETENSORS_SHAPE_TEXT_BYTES]);

#endif
