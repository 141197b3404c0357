/*
 * Prompts that a model knows: without text that it expects, acceptance of drafts would mean nothing.
 */
#ifndef SLUICE_TOOLS_BENCH_PROMPTS_H
#define SLUICE_TOOLS_BENCH_PROMPTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "sluice/engine.h"

/* Prompts of equal length; a request takes number index modulo count. */
struct bench_prompts {
    int32_t *tokens; /* [count][length]; owned */
    size_t count;
    size_t length;
};

/* Cuts text into whole pieces of `length` tokens; BAD_ARGUMENT if there is none. */
enum status bench_prompts_cut(const int32_t *tokens, size_t token_count, size_t length,
                              struct bench_prompts *out);

/*
 * Beginnings that the model writes itself: samples from different seeds at temperature 1. `engine` says how
 * to open it.
 */
enum status bench_prompts_write(const struct sluice_engine_options *engine, size_t length, uint64_t seed,
                                struct bench_prompts *out);

/* Frees the tokens; nothing to do for a zeroed struct. */
void bench_prompts_deinit(struct bench_prompts *prompts);

/* Prompt of a request. */
static inline const int32_t *bench_prompts_at(const struct bench_prompts *prompts, size_t index) {
    return prompts->tokens + index % prompts->count * prompts->length;
}

#endif
