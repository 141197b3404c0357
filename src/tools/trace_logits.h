/*
 * The logits of every position of a token sequence, row by row, from a core without an engine around it.
 */
#ifndef SLUICE_TOOLS_TRACE_LOGITS_H
#define SLUICE_TOOLS_TRACE_LOGITS_H

#include "base/status.h"
#include "engine/engine_core.h"

/* Receives rows of logits (vocabulary) in order of position; valid during the call. */
struct logits_sink {
    /*
     * `is_draft`: the draft layer's row, made from `position` and the token after it, which predicts the
     * token at position + 2. A status other than OK ends the trace.
     */
    enum status (*take)(void *context, int64_t position, bool is_draft, const float *logits);
    void *context;
    bool wants_draft; /* needs a core with drafts */
};

/* Called with how many tokens are done. */
struct token_progress {
    void (*report)(void *context, size_t done);
    void *context;
};

/*
 * Runs the tokens from position 0 in the core's slot 0, which gets the first pages, and hands out every row.
 * OUT_OF_RANGE for an id outside the vocabulary, CONTEXT_FULL for too many; NOT_FINITE names the layer.
 * `progress` may be NULL.
 */
enum status trace_logits(struct engine_core *core, const int32_t *tokens, size_t count,
                         const struct logits_sink *sink, const struct token_progress *progress);

#endif
