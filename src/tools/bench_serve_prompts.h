/*
 * What a load generator asks a server: prompts of random tokens, or those of a file.
 */
#ifndef SLUICE_TOOLS_BENCH_SERVE_PROMPTS_H
#define SLUICE_TOOLS_BENCH_SERVE_PROMPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "lib/json.h"

enum bench_serve_endpoint { BENCH_SERVE_AUTO, BENCH_SERVE_COMPLETIONS, BENCH_SERVE_CHAT };

struct bench_serve_prompt_options {
    const char *dataset_path; /* one JSON object a line (docs/bench-serve.md); NULL: random tokens */
    enum bench_serve_endpoint endpoint;
    int64_t input_tokens;    /* of a random prompt */
    int64_t output_tokens;   /* of each answer whose line does not say otherwise */
    int64_t vocabulary_size; /* random tokens are below */
    uint64_t seed;
    double temperature;
    bool ignores_end; /* ask for answers that do not end by themselves */
};

struct bench_serve_prompts {
    struct bench_serve_prompt_options options;
    enum bench_serve_endpoint endpoint; /* never AUTO */
    struct json *lines;                 /* array; NULL: random tokens */
};

/* Reads and checks the file; errors name the line. Owned: bench_serve_prompts_deinit. */
enum status bench_serve_prompts_init(const struct bench_serve_prompt_options *options,
                                     struct bench_serve_prompts *out);
void bench_serve_prompts_deinit(struct bench_serve_prompts *prompts);

/* Appends the body of request `index`; a file begins again behind its last line. */
enum status bench_serve_prompts_write(const struct bench_serve_prompts *prompts, const char *model,
                                      uint64_t index, struct string_buffer *out);

/* The path that takes the bodies. */
const char *bench_serve_prompts_path(const struct bench_serve_prompts *prompts);

/* Numbers from 0 to 1, without 1; the state may be any number at first. */
double bench_serve_random(uint64_t *state);

#endif
