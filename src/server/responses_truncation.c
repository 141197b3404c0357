/*
 * Looks for the first cut that is enough by halving. A try that is too long is followed by at most half of
 * its items, one that fits is no longer than the context: all tries together cost about twice the first.
 */
#include "server/responses_truncation.h"

#include <string.h>

#include "server/api_internal.h"

/* What is kept behind the head. */
struct cut {
    size_t start;        /* messages from here on */
    bool keeps_question; /* the last message of the user before them */
};

struct truncation {
    struct answer *answer;
    const struct request_chat *chat;
    const struct chat_conversation *whole;
    struct chat_message *kept; /* as long as the whole */
    size_t head_count;         /* messages before the first turn */
    size_t question;           /* the last message of the user */
    struct cut *cuts;          /* from the least to the most that is left out */
    size_t cut_count;
};

static void keep(struct truncation *truncation, struct chat_conversation *kept, size_t first, size_t end) {
    memcpy(truncation->kept + kept->message_count, truncation->whole->messages + first,
           (end - first) * sizeof *truncation->kept);
    kept->message_count += end - first;
}

static enum status encode_cut(struct truncation *truncation, size_t index) {
    const struct cut *cut = &truncation->cuts[index];
    struct answer *answer = truncation->answer;
    struct chat_conversation conversation = {.messages = truncation->kept};
    struct token_list *ids = &answer->prompts[0].ids;
    keep(truncation, &conversation, 0, truncation->head_count);
    if (cut->keeps_question) {
        keep(truncation, &conversation, truncation->question, truncation->question + 1);
    }
    keep(truncation, &conversation, cut->start, truncation->whole->message_count);
    ids->count = 0;
    return request_chat_encode(truncation->chat, answer->api->options.tokenizer, &conversation,
                               &answer->settings, ids);
}

static enum status find_cuts(struct truncation *truncation) {
    const struct chat_conversation *whole = truncation->whole;
    struct arena *arena = &truncation->answer->arena;
    truncation->kept = ARENA_NEW(arena, struct chat_message, whole->message_count);
    truncation->cuts = ARENA_NEW(arena, struct cut, whole->message_count);
    CHECK_MEMORY(truncation->kept);
    CHECK_MEMORY(truncation->cuts);
    for (size_t i = 0; i < whole->message_count; i++) {
        if (whole->messages[i].role == CHAT_ROLE_USER) {
            truncation->cuts[truncation->cut_count++] = (struct cut){.start = i};
            truncation->question = i;
        }
    }
    truncation->head_count = truncation->cut_count > 0 ? truncation->cuts[0].start : 0;
    /* Behind the first step after the question: outputs of calls go with them. */
    for (size_t i = truncation->question + 2; truncation->cut_count > 0 && i < whole->message_count; i++) {
        if (whole->messages[i].role != CHAT_ROLE_TOOL) {
            truncation->cuts[truncation->cut_count++] = (struct cut){.start = i, .keeps_question = true};
        }
    }
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
    TRY(find_cuts(&truncation));
    if (truncation.cut_count == 0) {
        return STATUS_OK;
    }
    size_t most = prompt_tokens_after_cut(answer, context);
    /* Cuts before `low` leave too much; `high` is enough, or the last. */
    size_t low = 0;
    size_t high = truncation.cut_count - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        TRY(encode_cut(&truncation, middle));
        if (ids->count <= most) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return encode_cut(&truncation, high);
}
