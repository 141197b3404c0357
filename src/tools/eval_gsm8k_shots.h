/* Solved examples that stand before a question. */
#ifndef SLUICE_TOOLS_EVAL_GSM8K_SHOTS_H
#define SLUICE_TOOLS_EVAL_GSM8K_SHOTS_H

#include "tools/eval_gsm8k.h"

struct eval_gsm8k_shot {
    const char *question, *answer;
};

extern const struct eval_gsm8k_shot eval_gsm8k_shots[GSM8K_SHOTS_MAX];

#endif
