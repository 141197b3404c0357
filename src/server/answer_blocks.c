/* A block ends where one of another kind begins; a call ends by itself. */
#include "server/answer_blocks.h"

#include <stdlib.h>

void answer_blocks_deinit(struct answer_blocks *blocks) {
    for (size_t i = 0; i < blocks->count; i++) {
        string_buffer_deinit(&blocks->items[i].text);
        string_buffer_deinit(&blocks->items[i].call_id);
        string_buffer_deinit(&blocks->items[i].name);
    }
    free(blocks->items);
    *blocks = (struct answer_blocks){.items = NULL};
}

static enum answer_block_kind kind_of(const struct output_event *event) {
    switch (event->kind) {
    case OUTPUT_EVENT_REASONING:
        return ANSWER_BLOCK_REASONING;
    case OUTPUT_EVENT_CONTENT:
        return ANSWER_BLOCK_TEXT;
    default:
        return ANSWER_BLOCK_CALL;
    }
}

struct answer_block *answer_blocks_close(struct answer_blocks *blocks) {
    struct answer_block *last = blocks->count == 0 ? NULL : &blocks->items[blocks->count - 1];
    if (last == NULL || !last->is_open) {
        return NULL;
    }
    last->is_open = false;
    return last;
}

static enum status add_block(struct answer_blocks *blocks, const struct output_event *event) {
    if (blocks->count == blocks->capacity) {
        size_t capacity = blocks->capacity == 0 ? 4 : 2 * blocks->capacity;
        struct answer_block *items = realloc(blocks->items, capacity * sizeof *items);
        CHECK_MEMORY(items);
        blocks->items = items;
        blocks->capacity = capacity;
    }
    struct answer_block *block = &blocks->items[blocks->count++];
    *block = (struct answer_block){.kind = kind_of(event), .is_open = true};
    if (event->kind == OUTPUT_EVENT_TOOL_CALL_START) {
        string_buffer_append_text(&block->call_id, event->call_id);
        string_buffer_append(&block->name, event->text, event->length);
        TRY(string_buffer_check(&block->call_id));
    }
    return string_buffer_check(&block->name);
}

enum status answer_blocks_take(struct answer_blocks *blocks, const struct output_event *event,
                               struct answer_blocks_step *step) {
    struct answer_block *last = blocks->count == 0 ? NULL : &blocks->items[blocks->count - 1];
    bool is_start = event->kind == OUTPUT_EVENT_TOOL_CALL_START;
    *step = (struct answer_blocks_step){.is_new = is_start || last == NULL || !last->is_open ||
                                                  last->kind != kind_of(event)};
    if (step->is_new) {
        bool has_ended = answer_blocks_close(blocks) != NULL;
        TRY(add_block(blocks, event));
        step->ended_index = has_ended ? blocks->count - 2 : 0;
        step->ended = has_ended ? &blocks->items[step->ended_index] : NULL;
    }
    step->index = blocks->count - 1;
    step->current = &blocks->items[step->index];
    if (event->kind == OUTPUT_EVENT_TOOL_CALL_END || event->kind == OUTPUT_EVENT_TOOL_CALL_ABANDON) {
        step->is_last = true;
        step->current->is_open = false;
        step->current->is_abandoned = event->kind == OUTPUT_EVENT_TOOL_CALL_ABANDON;
    } else if (!is_start) {
        string_buffer_append(&step->current->text, event->text, event->length);
    }
    return string_buffer_check(&step->current->text);
}
