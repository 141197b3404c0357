/*
 * An answer as blocks in the order in which they came: reasoning, text, tool calls. What the APIs that number
 * blocks stream and collect. One thread at a time.
 */
#ifndef SLUICE_SERVER_ANSWER_BLOCKS_H
#define SLUICE_SERVER_ANSWER_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/string_buffer.h"
#include "text/output_event.h"

enum answer_block_kind { ANSWER_BLOCK_REASONING, ANSWER_BLOCK_TEXT, ANSWER_BLOCK_CALL };

struct answer_block {
    enum answer_block_kind kind;
    struct string_buffer text; /* of a call: its arguments */
    struct string_buffer call_id, name;
    bool is_open;
    bool is_abandoned; /* a call that the answer's end cut */
};

struct answer_blocks {
    struct answer_block *items;
    size_t count, capacity;
};

/* What a stream does around an event. */
struct answer_blocks_step {
    struct answer_block *ended;   /* a block that ends before the event; NULL: none */
    struct answer_block *current; /* the event's block */
    bool is_new;                  /* it begins with the event */
    bool is_last;                 /* it ends with the event */
    size_t ended_index, index;
};

/* Frees all; a zeroed struct is empty. */
void answer_blocks_deinit(struct answer_blocks *blocks);

/* Takes the event; pointers are valid until the next call. */
enum status answer_blocks_take(struct answer_blocks *blocks, const struct output_event *event,
                               struct answer_blocks_step *step);

/* The block that is open, which ends now; NULL if there is none. */
struct answer_block *answer_blocks_close(struct answer_blocks *blocks);

#endif
