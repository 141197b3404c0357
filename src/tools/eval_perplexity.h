/*
 * How well a model predicts a text: e to the mean of -log p of its tokens.
 *
 * The model reads windows that begin with its begin mark and move on by a stride; each token counts in the
 * first window that has it, so that it is judged by as much of what comes before as there is room for.
 */
#ifndef SLUICE_TOOLS_EVAL_PERPLEXITY_H
#define SLUICE_TOOLS_EVAL_PERPLEXITY_H

#include "tools/eval_source.h"

struct eval_perplexity_options {
    const char *text;
    size_t length;
    int64_t token_limit; /* only the first tokens; 0: all */
    int64_t window;      /* tokens of a window with its begin mark */
    int64_t stride;      /* 0: half a window; less than the window */
};

struct eval_perplexity_result {
    int64_t token_count, window_count;
    size_t byte_count;          /* of the text; 0 if the limit cut it */
    double log_probability_sum; /* natural logarithm */
    double perplexity;
    double bits_per_byte; /* 0 if the limit cut the text */
};

enum status eval_perplexity(const struct eval_source *source, const struct eval_perplexity_options *options,
                            struct eval_perplexity_result *out);

/* Append the result as text for people, or as one JSON object. */
enum status eval_perplexity_text(const struct eval_source *source, const char *data,
                                 const struct eval_perplexity_options *options,
                                 const struct eval_perplexity_result *result, struct string_buffer *out);
enum status eval_perplexity_json(const struct eval_source *source, const char *data,
                                 const struct eval_perplexity_options *options,
                                 const struct eval_perplexity_result *result, struct string_buffer *out);

#endif
