/*
 * Looks for the first turn to keep by halving. A try that is too long is followed by at most half of its
 * turns, one that fits is no longer than the context: all tries together cost about twice the first.
 */
#include "server/responses_truncation.h"

#include <string.h>

#include "server/api_internal.h"

struct truncation {
    struct answer *answer;
    const struct request_chat *chat;
    const struct chat_conversation *whole;
    struct chat_message *kept; /* as long as the whole */
    size_t head_count;         /* messages before the first turn */
    size_t *turns;             /* where each turn starts */
    size_t turn_count;
};

/* Encodes the head and the turns from `first` on. */
static enum status encode_from(const struct truncation *truncation, size_t first) {
    const struct chat_conversation *whole = truncation->whole;
    struct answer *answer = truncation->answer;
    size_t start = truncation->turns[first];
    size_t tail_count = whole->message_count - start;
    memcpy(truncation->kept, whole->messages, truncation->head_count * sizeof *whole->messages);
    memcpy(truncation->kept + truncation->head_count, whole->messages + start,
           tail_count * sizeof *whole->messages);
    struct chat_conversation conversation = {truncation->kept, truncation->head_count + tail_count};
    struct token_list *ids = &answer->prompts[0].ids;
    ids->count = 0;
    return request_chat_encode(truncation->chat, answer->api->options.tokenizer, &conversation,
                               &answer->settings, ids);
}

static enum status find_turns(struct truncation *truncation) {
    const struct chat_conversation *whole = truncation->whole;
    struct arena *arena = &truncation->answer->arena;
    truncation->kept = ARENA_NEW(arena, struct chat_message, whole->message_count);
    truncation->turns = ARENA_NEW(arena, size_t, whole->message_count);
    CHECK_MEMORY(truncation->kept);
    CHECK_MEMORY(truncation->turns);
    for (size_t i = 0; i < whole->message_count; i++) {
        if (whole->messages[i].role == CHAT_ROLE_USER) {
            truncation->turns[truncation->turn_count++] = i;
        }
    }
    truncation->head_count = truncation->turn_count > 0 ? truncation->turns[0] : 0;
    return STATUS_OK;
}

/* The most tokens of a prompt that is cut. */
static size_t prompt_tokens_after_cut(const struct answer *answer, size_t context) {
    size_t half = context / 2;
    int64_t limit = answer->settings.token_limit;
    return context - (limit >= 0 && (size_t)limit < half ? (size_t)limit : half);
}

enum status responses_truncation_encode(struct answer *answer, const struct request_chat *chat,
                                        struct chat_conversation *conversation) {
    struct service *service = answer->api->options.service;
    size_t context = (size_t)service->kind->facts(service).context_tokens;
    struct token_list *ids = &answer->prompts[0].ids;
    struct truncation truncation = {.answer = answer, .chat = chat, .whole = conversation};
    TRY(request_chat_encode(chat, answer->api->options.tokenizer, conversation, &answer->settings, ids));
    if (ids->count < context) {
        return STATUS_OK;
    }
    TRY(find_turns(&truncation));
    if (truncation.turn_count == 0) {
        return STATUS_OK;
    }
    size_t most = prompt_tokens_after_cut(answer, context);
    /* Turns before `low` must go; those from `high` on fit, or are the last. */
    size_t low = 0;
    size_t high = truncation.turn_count - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        TRY(encode_from(&truncation, middle));
        if (ids->count <= most) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return encode_from(&truncation, high);
}
