/* Text that mini-v4 knows, and requests on it. Every function asserts. */
#ifndef SLUICE_TESTS_SUPPORT_MINI_FIXTURE_H
#define SLUICE_TESTS_SUPPORT_MINI_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "sluice/request.h"

/* Fills `tokens` with the recorded sequences, one after the other, from the first one again after the last.
 */
void mini_fill_text(int32_t *tokens, size_t count);

/* Native numerics, `context` positions, two threads, prefix cache off, not adaptive. */
struct sluice_engine_options mini_engine_options(int64_t context);

/* A greedy request that does not stop before `answer` tokens and records three log-probabilities for each. */
struct sluice_request_options mini_request(const int32_t *prompt, size_t prompt_count, int64_t answer);

#endif
