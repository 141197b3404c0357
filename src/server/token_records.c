/* Two growing arrays. */
#include "server/token_records.h"

#include <stdlib.h>
#include <string.h>

void token_records_deinit(struct token_records *records) {
    free(records->items);
    free(records->tops);
    *records = (struct token_records){0};
}

void token_records_clear(struct token_records *records) {
    records->count = 0;
    records->top_count = 0;
}

/* Grows an array to room for `needed` elements. */
static enum status reserve(void **array, size_t *capacity, size_t needed, size_t element_bytes) {
    if (needed <= *capacity) {
        return STATUS_OK;
    }
    size_t larger = 2 * *capacity > needed ? 2 * *capacity : needed;
    void *moved = realloc(*array, larger * element_bytes);
    CHECK_MEMORY(moved);
    *array = moved;
    *capacity = larger;
    return STATUS_OK;
}

enum status token_records_append(struct token_records *records, const struct service_token *token,
                                 bool has_log_probability) {
    size_t top_count = has_log_probability ? token->top_count : 0;
    TRY(reserve((void **)&records->items, &records->capacity, records->count + 1, sizeof *records->items));
    TRY(reserve((void **)&records->tops, &records->top_capacity, records->top_count + top_count,
                sizeof *records->tops));
    if (top_count > 0) {
        memcpy(records->tops + records->top_count, token->top, top_count * sizeof *token->top);
    }
    records->items[records->count++] = (struct token_record){.id = token->id,
                                                             .has_log_probability = has_log_probability,
                                                             .log_probability = token->chosen.log_probability,
                                                             .top_start = records->top_count,
                                                             .top_count = top_count};
    records->top_count += top_count;
    return STATUS_OK;
}
