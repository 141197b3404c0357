/*
 * The Responses API's truncation "auto": a conversation that the context does not hold loses its oldest
 * turns.
 *
 * A turn is a message of the user and what follows up to the next one, so that calls of tools keep their
 * outputs. What stands before the first turn, instructions and tools, stays, and so does the last turn.
 */
#ifndef SLUICE_SERVER_RESPONSES_TRUNCATION_H
#define SLUICE_SERVER_RESPONSES_TRUNCATION_H

#include "server/answer.h"
#include "server/request_chat.h"

/*
 * Encodes what is kept as the answer's only prompt: all of it if the context holds it; else as many of the
 * last turns as leave room for the answer: its limit, or half the context if that is less or there is none.
 * The last turn is encoded even if it is too long.
 */
enum status responses_truncation_encode(struct answer *answer, const struct request_chat *chat,
                                        struct chat_conversation *conversation);

#endif
