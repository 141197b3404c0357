/*
 * Safetensors headers from hostile files: no crash, no read outside the input, and a header that passes
 * describes tensors that fill the file exactly.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "weights/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LENGTH_BYTES = 8 };

static void parse(const uint8_t *data, size_t size) {
    struct safetensors_header header;
    if (safetensors_parse(data, size, "input", &header) != STATUS_OK) {
        return;
    }
    size_t end = header.count > 0 ? header.entries[0].offset : size;
    for (size_t i = 0; i < header.count; i++) {
        const struct safetensors_entry *entry = &header.entries[i];
        size_t bytes = 0;
        enum status status = safetensors_tensor_bytes(entry->dtype, entry->rank, entry->shape, &bytes);
        if (status != STATUS_OK || bytes != entry->bytes || entry->offset != end || bytes > size - end) {
            __builtin_trap();
        }
        end += bytes;
    }
    if (end != size) {
        __builtin_trap();
    }
    safetensors_header_deinit(&header);
}

/* The input as it is, and once more with a length that fits its last brace, which mutations rarely hit. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size);
    const uint8_t *brace =
        size > LENGTH_BYTES ? memrchr(data + LENGTH_BYTES, '}', size - LENGTH_BYTES) : NULL;
    uint8_t *repaired = brace == NULL ? NULL : malloc(size);
    if (repaired != NULL) {
        memcpy(repaired, data, size);
        size_t header_bytes = (size_t)(brace - data) + 1 - LENGTH_BYTES;
        for (int i = 0; i < LENGTH_BYTES; i++) {
            repaired[i] = (uint8_t)((uint64_t)header_bytes >> (8 * i));
        }
        parse(repaired, size);
    }
    free(repaired);
    return 0;
}
