/*
 * All that a request asks of its tokens, as one constraint of the engine: a grammar, stop strings, a least
 * number of tokens, tokens that are allowed, words and tokens that are not.
 *
 * With thinking the grammar and the stop strings count from the token that ends it; until then the tokens are
 * text or that token, and the answer can end only if its grammar accepts the empty text. Control tokens are
 * allowed within a grammar only where it names them. The end tokens are allowed exactly where the grammar may
 * end; a request without end tokens ends when its grammar can only end.
 *
 * A stop string ends the request with the token that completes it, wherever it lies within tokens; what must
 * be cut off the text is the caller's to cut (stop_text.h). Until `minimum_tokens` are there neither end
 * tokens are allowed (unless the grammar leaves nothing else) nor stop strings looked for.
 *
 * Made on any thread; the interface's functions belong to the engine's thread until the request is finished.
 */
#ifndef SLUICE_TEXT_REQUEST_CONSTRAINT_H
#define SLUICE_TEXT_REQUEST_CONSTRAINT_H

#include "base/status.h"
#include "sluice/constraint.h"
#include "text/grammar/grammar_cache.h"
#include "text/stop_text.h"

struct token_sequence {
    const int32_t *tokens;
    size_t count;
};

/* Everything is copied. */
struct request_constraint_options {
    struct grammar_source grammar; /* GRAMMAR_NONE: none */
    bool starts_in_reasoning;      /* the prompt ends with an open thinking mark */
    const struct stop_string *stop_strings;
    size_t stop_string_count;
    int64_t minimum_tokens;
    const int32_t *end_tokens; /* the request's stop tokens */
    size_t end_token_count;
    const int32_t *allowed_tokens; /* no others; NULL: all */
    size_t allowed_token_count;
    const int32_t *banned_tokens; /* never */
    size_t banned_token_count;
    const struct token_sequence *bad_words; /* the last token of one never follows the others */
    size_t bad_word_count;
};

struct request_constraint;

/*
 * Compiles the grammar, or finds it in the cache, which must outlive the constraint. OUT_OF_RANGE names a
 * token that the vocabulary does not have; other errors are the grammar's. Owned: request_constraint_destroy.
 */
enum status request_constraint_create(struct grammar_cache *cache,
                                      const struct request_constraint_options *options,
                                      struct request_constraint **out);

/* Works ahead on masks, for so much time at most, and once for each grammar (grammar_prepare). */
void request_constraint_prepare(struct request_constraint *constraint, double seconds);

/* The request must be finished. */
void request_constraint_destroy(struct request_constraint **constraint);

/* What the engine asks. Borrows the constraint. */
struct sluice_constraint request_constraint_interface(struct request_constraint *constraint);

/* The stop string that ended the request; NULL if none did. */
const struct stop_string *request_constraint_stop(const struct request_constraint *constraint);

#endif
