/* How /v1/responses writes answers, and what it keeps of them. */
#ifndef SLUICE_SERVER_RESPONSES_REPLY_H
#define SLUICE_SERVER_RESPONSES_REPLY_H

#include <stdbool.h>

#include "server/answer.h"
#include "server/answer_blocks.h"

extern const struct answer_format responses_reply_format;

struct responses_state {
    struct answer_blocks blocks;
    struct string_buffer request_members; /* of the response: what repeats the request, as JSON members */
    struct string_buffer conversation;    /* chat messages so far, without instructions, as JSON */
    int64_t sequence;                     /* of the next event */
    bool is_stored;
    bool is_background; /* the reply says only that it has begun */
    bool is_finished;
};

/* Makes the format's state; OUT_OF_MEMORY. The format frees it. */
enum status responses_reply_prepare(struct answer *answer);

struct responses_state *responses_state_of(const struct answer *answer);

#endif
