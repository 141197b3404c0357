/*
 * A rule for the tokens of one request: a grammar, stop strings, anything that reads tokens.
 *
 * The engine asks before a token is chosen and tells after it was. Drafts are looked at ahead of time: a
 * question names the drafts that would come first, and asking changes nothing. Functions are called on the
 * engine's thread, never two at once for one request, and must be quick: all requests wait for them.
 */
#ifndef SLUICE_CONSTRAINT_H
#define SLUICE_CONSTRAINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_constraint {
    /*
     * How many of the drafts may follow the tokens accepted so far, one after the other. NULL: all.
     */
    size_t (*count_allowed)(void *context, const int32_t *drafts, size_t draft_count);
    /*
     * Sets bit t % 32 of word t / 32 for each token id t that may follow the accepted tokens and these
     * drafts, which are allowed. `mask` comes zeroed. Returns false, the mask untouched, if all tokens may,
     * or if the request is over with the drafts (a stop token may be one). NULL: all may.
     */
    bool (*allow)(void *context, const int32_t *drafts, size_t draft_count, uint32_t *mask);
    /* A token was accepted; returns whether the request ends with it. NULL: it does not. */
    bool (*accept)(void *context, int32_t token);
    void *context;
    /*
     * The engine is done with the constraint of a request that it had taken: once, on any thread, with the
     * request's release or after it. Must not call the engine. NULL: the context must stay until the request
     * is finished.
     */
    void (*release)(void *context);
};

#ifdef __cplusplus
}
#endif

#endif
