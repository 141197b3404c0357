/*
 * Records on the wire from hostile hands: nothing is read beyond the bytes, and what passes the checks is
 * what its own bytes say when it is written again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads what a reader would, so that a sanitizer sees where it points. */
static uint64_t touch(const struct wire_tokens *tokens) {
    uint64_t sum = 0;
    size_t at = 0;
    for (size_t i = 0; i < tokens->count; i++) {
        sum += (uint64_t)tokens->ids[i];
        for (size_t j = 0; i < tokens->record_count && j < tokens->top_counts[i]; j++) {
            sum += (uint64_t)tokens->top[at++].token;
        }
    }
    return sum;
}

static void check(const struct wire_frame *frame) {
    struct wire_record record;
    struct arena arena;
    struct string_buffer again = {0};
    arena_init(&arena, 4096);
    if (wire_read(frame, &arena, &record) == STATUS_OK) {
        static volatile uint64_t sink;
        sink += touch(&record.update.tokens) + touch(&record.update.prompt_tokens);
        wire_write(&again, &record);
        /* Padding may be anything where it comes from; all else is the same. */
        if (string_buffer_check(&again) == STATUS_OK &&
            again.length != frame->body_bytes + WIRE_HEADER_BYTES) {
            __builtin_trap();
        }
    }
    string_buffer_deinit(&again);
    arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct wire_frame frame;
    size_t frame_bytes = 0;
    uint8_t *bytes = malloc(size + 1);
    if (bytes == NULL) {
        return 0;
    }
    memcpy(bytes, data, size);
    if (wire_frame_find(bytes, size, &frame, &frame_bytes) == STATUS_OK && frame_bytes > 0) {
        if (frame_bytes > size) {
            __builtin_trap();
        }
        check(&frame);
    }
    /* The body by itself, as each kind: most mutations of whole records break their heads. */
    for (int kind = 0; kind < WIRE_KIND_COUNT && size >= WIRE_HEADER_BYTES; kind++) {
        frame = (struct wire_frame){.kind = (enum wire_kind)kind,
                                    .body = bytes + WIRE_HEADER_BYTES,
                                    .body_bytes = (size - WIRE_HEADER_BYTES) / 8 * 8};
        check(&frame);
    }
    free(bytes);
    return 0;
}
