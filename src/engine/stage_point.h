/*
 * The step that stages are cut for, and what the model's lists say that it reads and computes: of each layer,
 * and of what the first and the last stage have besides (spec parallelism P-3).
 */
#ifndef SLUICE_ENGINE_STAGE_POINT_H
#define SLUICE_ENGINE_STAGE_POINT_H

#include "engine/stage_bytes.h"
#include "model/model.h"
#include "model/step_work.h"

/* Decoding: sequences that verify their drafts and make as many new ones. A prompt: one sequence. */
struct stage_point {
    int64_t sequences;
    int64_t rows_each;
    int drafts; /* of each sequence, and so many passes of the draft layer */
    bool is_prompt;
};

struct stage_point stage_point_of_decoding(int64_t sequences, int drafts);
struct stage_point stage_point_of_prompt(int64_t rows);

/* Tokens that a sequence is expected to get in a step with so many drafts, its own one included. */
double stage_point_tokens(int drafts);

/* Rows of all sequences. */
int64_t stage_point_rows(const struct stage_point *point);

/* Of layer `layer`. */
struct step_work stage_point_layer_work(const struct stage_point *point, const struct model *model,
                                        const struct stage_bytes *bytes, int layer);

/* Embedding. */
struct step_work stage_point_first_work(const struct stage_point *point, const struct stage_bytes *bytes);

/* Head and passes of the draft layer. */
struct step_work stage_point_last_work(const struct stage_point *point, const struct model *model,
                                       const struct stage_bytes *bytes);

/* What a step costs, in one unit. */
struct stage_costs {
    double *layers; /* [layer_count] */
    double first;   /* besides, of the first stage */
    double last;    /* of the last one */
};

#endif
