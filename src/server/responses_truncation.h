/*
 * The Responses API's truncation "auto": a conversation that the context does not hold loses its oldest
 * items.
 *
 * Whole turns go first. A turn is a message of the user and what follows up to the next one. What stands
 * before the first turn, instructions and tools, stays, and so does the last message of the user; if that and
 * what follows is too long, the oldest steps behind it go: what the model said and called, with the outputs
 * of the calls. The last step stays.
 */
#ifndef SLUICE_SERVER_RESPONSES_TRUNCATION_H
#define SLUICE_SERVER_RESPONSES_TRUNCATION_H

#include "server/answer.h"
#include "server/request_chat.h"

/*
 * Encodes what is kept as the answer's only prompt: all of it if the context holds it; else as much of the
 * end as leaves room for the answer: its limit, or half the context if that is less or there is none. What
 * stays in any case is encoded even if it is too long.
 */
enum status responses_truncation_encode(struct answer *answer, const struct request_chat *chat,
                                        struct chat_conversation *conversation);

#endif
