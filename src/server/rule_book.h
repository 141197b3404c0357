/*
 * The rules of requests (server/service.h) as constraints of the engine: the model's tokens by their text,
 * and the grammars that requests share. Any thread.
 */
#ifndef SLUICE_SERVER_RULE_BOOK_H
#define SLUICE_SERVER_RULE_BOOK_H

#include "server/service.h"

struct rule_book;

/*
 * Reads the model's tokenizer.json. A model without one has a book too, which refuses all rules. Owned:
 * rule_book_close, once every constraint has been released.
 */
enum status rule_book_open(const char *model_directory, int64_t vocabulary_size, struct rule_book **out);

/* Frees and nulls; NULL inside is allowed. */
void rule_book_close(struct rule_book **book);

/* Whether the rules ask for a constraint at all; whether making it may take long. */
bool rule_book_has_rules(const struct service_rules *rules);
bool rule_book_is_slow(const struct service_rules *rules);

/* How much work a grammar may be: what takes a moment (some 50 ms), or all that is allowed (some seconds). */
enum rule_effort { RULE_EFFORT_SMALL, RULE_EFFORT_ALL };

/*
 * The constraint of a request that has rules. It has seen those tokens of the answer that are in the prompt
 * already. UNSUPPORTED, BAD_FORMAT, BAD_ARGUMENT and OUT_OF_RANGE say what is wrong. Whoever does not hand it
 * to the engine releases it. With a small effort `is_done` may be false, and nothing is made: more is needed.
 */
enum status rule_book_apply(struct rule_book *book, const struct service_request *request,
                            enum rule_effort effort, struct sluice_constraint *out, bool *is_done);

#endif
