/*
 * What the executor's files share: its memory, a pass over the model, and its place among ranks.
 */
#ifndef SLUICE_ENGINE_EXECUTOR_INTERNAL_H
#define SLUICE_ENGINE_EXECUTOR_INTERNAL_H

#include "engine/executor.h"

/* How the rows of a pass are dealt out over the ranks of a stage; zeroed: every rank has all. */
struct row_deal {
    bool is_shared;
    struct row_shares shares; /* if they are dealt out */
};

struct executor {
    struct executor_options options;
    struct op_table table;
    struct op_queue queue;
    struct device_arena arena; /* activations and workspace of a step */
    struct boundary boundary;  /* row_limit rows, or this rank's share of them */
    int64_t step_rows;         /* rows of the last step on all ranks; 0 if it failed */
    struct row_deal step_deal; /* and which of them are here */
    /* Without rows when drafting is off: */
    struct boundary drafted[2];      /* draft_row_limit rows: a draft pass reads one and writes the other */
    int last_drafted;                /* what the last pass with logits wrote, */
    int64_t drafted_rows;            /* its rows on all ranks, */
    struct row_deal drafted_deal[2]; /* and which of them are here */
    struct boundary saved;           /* saved_row_limit rows */
    void *record;                    /* a plan record, with ranks */
    size_t record_bytes;             /* its most */
    uint64_t record_number;          /* of the next record */
    struct step_segment *segments;   /* of a record that came in */
    float *logits;                   /* of a rank of the last stage that is not the leader */
    int32_t *staging;                /* batch arrays */
    int32_t *own_rows;               /* with ranks: rows of a boundary, counted from the first own one */
    float *scan;                     /* one row of a boundary, to look for values that are not finite */
};

/* A pass over the model: main layers, or the draft layer over the boundary that a pass before left. */
struct pass {
    const struct step_plan *plan;
    const struct draft_plan *draft; /* NULL: main layers; its segments are the plan's */
    bool is_head_only;              /* the plan's logits of the boundary that the last step left */
    float *logits;                  /* host; NULL in a dry run, and where none are wanted */
};

static inline bool executor_is_leader(const struct executor *executor) {
    return executor->options.ranks == NULL || comm_rank(executor->options.ranks->control) == 0;
}

static inline bool executor_is_on_first_stage(const struct executor *executor) {
    return executor->options.ranks == NULL || executor->options.ranks->stage == 0;
}

static inline bool executor_is_on_last_stage(const struct executor *executor) {
    return executor->options.ranks == NULL ||
           executor->options.ranks->stage == executor->options.ranks->stage_count - 1;
}

/* Draft passes run on the last stage, where the draft layer is. */
static inline bool executor_drafts(const struct executor *executor) {
    return executor->options.model->draft_limit > 0 && executor_is_on_last_stage(executor);
}

static inline struct boundary executor_slice_boundary(const struct boundary *boundary, int64_t first,
                                                      int64_t count) {
    struct boundary view = *boundary;
    for (int i = 0; i < view.count; i++) {
        view.tensors[i] = tensor_slice(&view.tensors[i], first, count);
    }
    return view;
}

/* Rows of a draft pass with logits: one per segment, each of which was in a step. */
static inline int32_t executor_draft_row_limit(const struct executor *executor) {
    const struct executor_options *options = &executor->options;
    return options->segment_limit < options->row_limit ? options->segment_limit : options->row_limit;
}

/* The step that a model sees; batch and deal are borrowed. */
struct step executor_make_step(struct executor *executor, const struct batch_view *batch,
                               const struct row_deal *deal);

/* Runs a pass and gives its memory back, whether it succeeded or not. */
enum status executor_run_pass(struct executor *executor, const struct pass *pass);

/* Logits go from the last stage's first rank to the leader, if these are two. */
enum status executor_pass_logits(struct executor *executor, int64_t rows, float *logits);

/* What the rows of a draft pass go on from. */
struct draft_origin {
    struct boundary boundary; /* the rows of it that are here */
    int64_t rows;             /* on all ranks */
    struct row_deal deal;
};

void executor_find_origin(const struct executor *executor, enum draft_source source,
                          struct draft_origin *out);

/* Index of the first of the values that is not finite, -1 if all are. */
int64_t executor_first_not_finite(const float *values, int64_t count);

#endif
