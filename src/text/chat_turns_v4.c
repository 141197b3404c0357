/* Sorting looks ids up in a sorted table: clients decide how many calls and results there are. */
#include "text/chat_turns_v4.h"

#include <stdlib.h>
#include <string.h>

/* A call's id and its place among the calls. */
struct call_rank {
    struct chat_text id;
    size_t rank;
};

struct result_rank {
    struct chat_block block;
    size_t rank;
    size_t position;
};

static int compare_texts(const struct chat_text *a, const struct chat_text *b) {
    int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
    if (order != 0) {
        return order;
    }
    return (a->length > b->length) - (a->length < b->length);
}

static int compare_call_ranks(const void *left, const void *right) {
    const struct call_rank *a = left;
    const struct call_rank *b = right;
    int order = compare_texts(&a->id, &b->id);
    return order != 0 ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

static int compare_result_ranks(const void *left, const void *right) {
    const struct result_rank *a = left;
    const struct result_rank *b = right;
    if (a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    return (a->position > b->position) - (a->position < b->position);
}

/* The rank of the last call with this id; an unknown id counts as the first call. */
static size_t find_rank(const struct call_rank *calls, size_t count, const struct chat_text *id) {
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_texts(&calls[middle].id, id) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && compare_texts(&calls[low - 1].id, id) == 0 ? calls[low - 1].rank : 0;
}

static enum status build_call_ranks(const struct chat_message *assistant, struct arena *arena,
                                    struct call_rank **out, size_t *out_count) {
    *out = ARENA_NEW(arena, struct call_rank, assistant->tool_call_count);
    CHECK_MEMORY(*out);
    *out_count = 0;
    for (size_t i = 0; i < assistant->tool_call_count; i++) {
        if (assistant->tool_calls[i].id.length > 0) {
            (*out)[(*out_count)++] = (struct call_rank){assistant->tool_calls[i].id, i};
        }
    }
    qsort(*out, *out_count, sizeof **out, compare_call_ranks);
    return STATUS_OK;
}

/* Puts the tool results of a turn into the order of the calls; text blocks keep their places. */
static enum status sort_tool_results(struct chat_turn *turn, const struct chat_message *assistant,
                                     struct arena *arena) {
    size_t result_count = 0;
    for (size_t i = 0; i < turn->block_count; i++) {
        result_count += turn->blocks[i].is_tool_result;
    }
    if (result_count < 2) {
        return STATUS_OK;
    }
    struct call_rank *calls = NULL;
    size_t call_count = 0;
    TRY(build_call_ranks(assistant, arena, &calls, &call_count));
    struct result_rank *results = ARENA_NEW(arena, struct result_rank, result_count);
    CHECK_MEMORY(results);
    size_t filled = 0;
    for (size_t i = 0; i < turn->block_count; i++) {
        const struct chat_block *block = &turn->blocks[i];
        if (block->is_tool_result) {
            results[filled] =
                (struct result_rank){*block, find_rank(calls, call_count, &block->tool_call_id), filled};
            filled++;
        }
    }
    qsort(results, result_count, sizeof *results, compare_result_ranks);
    filled = 0;
    for (size_t i = 0; i < turn->block_count; i++) {
        if (turn->blocks[i].is_tool_result) {
            turn->blocks[i] = results[filled++].block;
        }
    }
    return STATUS_OK;
}

/* Adds a message to the turns; `blocks` has room for it behind the last turn's. */
static void merge_message(struct chat_turns *turns, struct chat_block **blocks,
                          const struct chat_message *message) {
    struct chat_turn *last = turns->count == 0 ? NULL : &turns->items[turns->count - 1];
    bool is_tool = message->role == CHAT_ROLE_TOOL;
    if (!is_tool && message->role != CHAT_ROLE_USER) {
        turns->items[turns->count++] =
            (struct chat_turn){.role = message->role, .message = message, .task = message->task};
        return;
    }
    bool is_joined =
        last != NULL && last->role == CHAT_ROLE_USER && (is_tool || last->task == CONTROL_TOKEN_NONE);
    if (!is_joined) {
        last = &turns->items[turns->count++];
        *last = (struct chat_turn){
            .role = CHAT_ROLE_USER, .blocks = *blocks, .task = is_tool ? CONTROL_TOKEN_NONE : message->task};
    }
    last->blocks[last->block_count++] = (struct chat_block){is_tool, message->tool_call_id, message->content};
    (*blocks)++;
}

/* The index behind the last user or developer turn; 0 if there is none. */
static size_t find_reasoning_start(const struct chat_turns *turns) {
    size_t start = turns->count;
    while (start > 0 && turns->items[start - 1].role != CHAT_ROLE_USER &&
           turns->items[start - 1].role != CHAT_ROLE_DEVELOPER) {
        start--;
    }
    return start;
}

/* Developer turns are the inner workings of an earlier search: they go together with its reasoning. */
static void drop_old_developer_turns(struct chat_turns *turns) {
    size_t start = find_reasoning_start(turns);
    size_t kept = 0;
    for (size_t i = 0; i < turns->count; i++) {
        if (i + 1 >= start || turns->items[i].role != CHAT_ROLE_DEVELOPER) {
            turns->items[kept++] = turns->items[i];
        }
    }
    turns->count = kept;
    turns->reasoning_start = find_reasoning_start(turns);
}

enum status chat_turns_build(const struct chat_conversation *conversation, bool is_thinking,
                             bool is_reasoning_dropped, struct arena *arena, struct chat_turns *out) {
    *out = (struct chat_turns){.items = ARENA_NEW(arena, struct chat_turn, conversation->message_count)};
    struct chat_block *blocks = ARENA_NEW(arena, struct chat_block, conversation->message_count);
    CHECK_MEMORY(out->items);
    CHECK_MEMORY(blocks);
    for (size_t i = 0; i < conversation->message_count; i++) {
        merge_message(out, &blocks, &conversation->messages[i]);
    }
    const struct chat_message *assistant = NULL;
    bool has_tools = false;
    for (size_t i = 0; i < out->count; i++) {
        struct chat_turn *turn = &out->items[i];
        if (turn->role == CHAT_ROLE_ASSISTANT) {
            assistant = turn->message;
        } else if (turn->role == CHAT_ROLE_USER && assistant != NULL) {
            TRY(sort_tool_results(turn, assistant, arena));
        }
        has_tools = has_tools || (turn->message != NULL && turn->message->tool_count > 0);
    }
    out->is_reasoning_dropped = is_thinking && is_reasoning_dropped && !has_tools;
    if (out->is_reasoning_dropped) {
        drop_old_developer_turns(out);
    }
    return STATUS_OK;
}
