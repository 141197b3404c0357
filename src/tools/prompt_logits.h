/*
 * Logits of every prompt position in a safetensors file: `logits` (F32 [tokens, vocabulary]) and, on request,
 * `mtp_logits` (F32 [tokens - 1, vocabulary]; row i from position i and the token at i + 1).
 */
#ifndef SLUICE_TOOLS_PROMPT_LOGITS_H
#define SLUICE_TOOLS_PROMPT_LOGITS_H

#include "base/status.h"
#include "sluice/session.h"

/*
 * Appends the tokens to an empty session and writes the file. Rows go to disk as they come: memory does not
 * grow with the prompt.
 */
enum status prompt_logits_write(struct sluice_session *session, const int32_t *tokens, size_t count,
                                int64_t vocabulary_size, bool wants_draft, const char *path,
                                const struct sluice_progress *progress);

#endif
