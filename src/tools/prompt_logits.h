/*
 * Logits of every prompt position in a safetensors file: `logits` (F32 [tokens, vocabulary]) and, on request,
 * `mtp_logits` (F32 [tokens - 1, vocabulary]; row i from position i and the token at i + 1).
 */
#ifndef SLUICE_TOOLS_PROMPT_LOGITS_H
#define SLUICE_TOOLS_PROMPT_LOGITS_H

#include "base/status.h"
#include "tools/trace_logits.h"

/*
 * Opens the model by itself and writes the file. Rows go to disk as they come: memory does not grow with the
 * prompt.
 */
enum status prompt_logits_write(const struct sluice_engine_options *options, const int32_t *tokens,
                                size_t count, bool wants_draft, const char *path,
                                const struct token_progress *progress);

#endif
