/*
 * A session: one sequence of tokens and what the model remembers of it.
 *
 * Tokens are appended; the logits after the last one say what may follow. The result depends on the tokens
 * only, bit for bit, not on how they were split into calls. The thread rules are the engine's.
 */
#ifndef SLUICE_SESSION_H
#define SLUICE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/engine.h"
#include "sluice/sampling.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_session;

/* Called while tokens are taken in, with how many are done. */
struct sluice_progress {
    void (*report)(void *context, size_t done, size_t total);
    void *context;
};

/*
 * Receives rows of logits in order of position; `logits` (vocabulary) is valid during the call. `is_draft`:
 * the MTP layer's logits of row i, made from position i and the token at i + 1, which predict token i + 2.
 * A status other than SLUICE_OK stops the append.
 */
struct sluice_logits_sink {
    enum sluice_status (*take)(void *context, int64_t position, bool is_draft, const float *logits);
    void *context;
    bool wants_draft; /* needs an engine with draft_limit above 0 */
};

/* A token and its log-probability under the model's own logits. */
struct sluice_log_probability {
    int32_t token;
    double log_probability;
};

enum { SLUICE_LOG_PROBABILITIES_MAX = 20 };

/* An empty session. CONTEXT_FULL if the engine's sessions are all in use. Owned: sluice_session_destroy. */
enum sluice_status sluice_session_create(struct sluice_engine *engine, struct sluice_session **out);

/* Gives the session's state back; nulls the pointer; NULL inside is allowed. */
void sluice_session_destroy(struct sluice_session **session);

/*
 * Appends tokens. OUT_OF_RANGE for an id outside the vocabulary, CONTEXT_FULL if they do not fit: nothing is
 * appended then. NOT_FINITE names the layer; the session is of no use afterwards. `progress` may be NULL.
 */
enum sluice_status sluice_session_append(struct sluice_session *session, const int32_t *tokens, size_t count,
                                         const struct sluice_progress *progress);

/*
 * As sluice_session_append, and hands out the logits of every appended position; for the MTP layer's rows
 * the session must be empty before.
 */
enum sluice_status sluice_session_append_traced(struct sluice_session *session, const int32_t *tokens,
                                                size_t count, const struct sluice_logits_sink *sink,
                                                const struct sluice_progress *progress);

/* Tokens appended so far. */
size_t sluice_session_length(const struct sluice_session *session);

/* Logits (vocabulary) after the last token, valid until the next append; NULL if the session is empty. */
const float *sluice_session_logits(const struct sluice_session *session);

/*
 * Chooses a next token by the rules of sluice/sampling.h and does not append it. Tokens appended by
 * sluice_session_append before the first choice count as the prompt, later ones as output.
 */
enum sluice_status sluice_session_choose(struct sluice_session *session,
                                         const struct sluice_sampling *sampling, int32_t *token);

/*
 * Log-probability of `token` as the next one, and of the `top_count` likeliest (at most
 * SLUICE_LOG_PROBABILITIES_MAX) in falling order.
 */
enum sluice_status sluice_session_log_probabilities(const struct sluice_session *session, int32_t token,
                                                    size_t top_count, struct sluice_log_probability *chosen,
                                                    struct sluice_log_probability *top);

#ifdef __cplusplus
}
#endif

#endif
