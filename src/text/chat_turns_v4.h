/*
 * The first half of the V4 encoder: messages become the turns that are rendered (spec deepseek-v4 8.1).
 *
 * User and tool messages in a row are one user turn of several blocks; tool results stand in the order of
 * the calls they answer; old reasoning is marked for leaving out. Any thread.
 */
#ifndef SLUICE_TEXT_CHAT_TURNS_V4_H
#define SLUICE_TEXT_CHAT_TURNS_V4_H

#include <stdbool.h>
#include <stddef.h>

#include "text/chat_message.h"

struct chat_block {
    bool is_tool_result;
    struct chat_text tool_call_id; /* of a tool result */
    struct chat_text text;
};

struct chat_turn {
    enum chat_role role;                /* never CHAT_ROLE_TOOL */
    const struct chat_message *message; /* NULL for a user turn */
    struct chat_block *blocks;          /* of a user turn */
    size_t block_count;
    enum control_token task;
};

struct chat_turns {
    struct chat_turn *items;
    size_t count;
    bool is_reasoning_dropped;
    size_t reasoning_start; /* if dropped: the first index behind the last user or developer turn, else 0 */
};

/* Borrows texts from the conversation; the arrays live in `arena`. */
enum status chat_turns_build(const struct chat_conversation *conversation, bool is_thinking,
                             bool is_reasoning_dropped, struct arena *arena, struct chat_turns *out);

#endif
