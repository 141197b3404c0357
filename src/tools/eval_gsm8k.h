/*
 * GSM8K: school problems whose answer is a number (Cobbe et al. 2021), asked as chats.
 *
 * The model is asked to end with "#### NUMBER", as the data does. Its answer is the number behind the last
 * "####"; without one, in the last \boxed{...}; without one, the last number of the text. It is right if it
 * is the number of the data's answer.
 */
#ifndef SLUICE_TOOLS_EVAL_GSM8K_H
#define SLUICE_TOOLS_EVAL_GSM8K_H

#include "tools/eval_source.h"

enum { GSM8K_NUMBER_BYTES = 64, GSM8K_SHOTS_MAX = 8 };

struct eval_gsm8k_options {
    const char *data;   /* JSON lines with "question" and "answer" */
    int64_t limit;      /* only the first questions; 0: all */
    int64_t shot_count; /* solved examples before each question: the first of the 8 of Wei et al. (2022) */
    int64_t max_tokens, concurrency;
    double temperature;
    uint64_t seed;
    bool is_thinking, is_thinking_given;
};

/* One question. */
struct eval_gsm8k_row {
    char wanted[GSM8K_NUMBER_BYTES];
    char found[GSM8K_NUMBER_BYTES]; /* "" if the answer has no number */
    bool is_answered, is_correct, is_cut;
};

struct eval_gsm8k_result {
    struct eval_gsm8k_row *rows;
    int64_t question_count, answered_count;
    int64_t correct_count, strict_count; /* strict: right, and behind "####" */
    int64_t cut_count;
    int64_t prompt_tokens, output_tokens;
    double seconds;
    double score, score_low, score_high; /* of the answered, with Wilson's 95 % interval */
    struct string_buffer first_error;
};

/* Questions that got no answer are no error here. Owned: eval_gsm8k_deinit, also after a failure. */
enum status eval_gsm8k_run(const struct eval_source *source, const struct eval_gsm8k_options *options,
                           struct eval_gsm8k_result *out);
void eval_gsm8k_deinit(struct eval_gsm8k_result *result);

/*
 * The number that a text gives as its answer, in plain digits: no "$", no thousands separators, no needless
 * zeros. False, and "", if it has none. *is_marked: it stood behind "####".
 */
bool eval_gsm8k_find_number(const char *text, size_t length, char out[GSM8K_NUMBER_BYTES], bool *is_marked);

/* Wilson's interval for a share of `count` at 95 %. */
void eval_wilson_interval(int64_t hits, int64_t count, double *low, double *high);

enum status eval_gsm8k_text(const struct eval_source *source, const struct eval_gsm8k_options *options,
                            const struct eval_gsm8k_result *result, struct string_buffer *out);

/* Appends one JSON object with each question's numbers. */
enum status eval_gsm8k_json(const struct eval_source *source, const struct eval_gsm8k_options *options,
                            const struct eval_gsm8k_result *result, struct string_buffer *out);

#endif
