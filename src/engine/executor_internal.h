/*
 * What the executor's files share: its memory, a pass over the model, and its place among ranks.
 */
#ifndef SLUICE_ENGINE_EXECUTOR_INTERNAL_H
#define SLUICE_ENGINE_EXECUTOR_INTERNAL_H

#include "engine/boundary_header.h"
#include "engine/executor.h"

enum { BOUNDARY_BUFFERS_MAX = 3 };

/* A record that was sent, and all that went with it. */
struct sent_record {
    uint64_t bytes;
    void *memory;
    token_mask_word *masks; /* of its rows, side by side */
    struct comm_request *requests;
    int request_count;
};

/* How the rows of a pass are dealt out over the ranks of a stage; zeroed: every rank has all. */
struct row_deal {
    bool is_shared;
    struct row_shares shares; /* if they are dealt out */
};

struct executor {
    struct executor_options options;
    struct op_table table;
    struct op_queue queue;
    struct device_arena arena;                        /* activations and workspace of a step */
    struct boundary boundaries[BOUNDARY_BUFFERS_MAX]; /* row_limit rows, or this rank's share */
    struct comm_request sends[BOUNDARY_BUFFERS_MAX][BOUNDARY_TENSORS_MAX]; /* that may still read them */
    struct comm_request receives[BOUNDARY_BUFFERS_MAX]
                                [BOUNDARY_TENSORS_MAX]; /* of what is to come into them */
    struct boundary_header header;                      /* of the boundary that is sent, or has come in */
    int buffer;                                         /* of the last step */
    int first_layer;           /* what steps run of the stage's layers: all of them, */
    int end_layer;             /* unless executor_set_layers says otherwise */
    uint64_t step_number;      /* of the last step, from 1 on; the same on all stages */
    int64_t step_rows;         /* rows of the last step on all ranks; 0 if it failed */
    double step_seconds;       /* that the last step took here, without waits for other stages */
    struct row_deal step_deal; /* and which of them are here */
    /* Rows of the pass under way in all replicas that share experts: which each expert rank brings. */
    struct row_shares expert_shares;
    /* Without rows when drafting is off: */
    struct boundary drafted[2];      /* draft_row_limit rows: a draft pass reads one and writes the other */
    int last_drafted;                /* what the last pass with logits wrote, */
    int64_t drafted_rows;            /* its rows on all ranks, */
    struct row_deal drafted_deal[2]; /* and which of them are here */
    struct boundary saved;           /* saved_row_limit rows */
    struct sent_record *sent;        /* a ring; of the leader */
    void *record;                    /* one that came in */
    size_t record_bytes;             /* its most */
    uint64_t record_number;          /* of the next record */
    struct plan_room pass_room; /* of that within the stage: the round's plan is still wanted behind it */
    void *pass_record;          /* one within the last stage, if it has several ranks */
    uint64_t pass_number;       /* of the next one */
    struct plan_room room;      /* of a record that came in */
    token_mask_word *masks;     /* the same, where tokens are chosen and the leader is another */
    const token_mask_word **row_masks;
    int32_t *start_tokens;                /* the same */
    struct sluice_logit_bias *start_bias; /* the same; grows when a sequence starts */
    size_t start_bias_count;
    float *logits;     /* of a rank of the last stage that is not the leader */
    int32_t *staging;  /* batch arrays */
    int32_t *own_rows; /* with ranks: rows of a boundary, counted from the first own one */
    float *scan;       /* one row of a boundary, to look for values that are not finite */
    struct rank_meter meter;
    struct rank_report report; /* on its way to the leader */
    struct comm_request report_request;
    struct prefix_part *prefixes;       /* NULL: none on disk */
    struct prefix_answer prefix_answer; /* on its way to the leader */
    struct comm_request answer_request;
    struct trace_event *trace_piece; /* of another rank; with a trace, of a leader of several */
};

/* A pass over the model: main layers, or the draft layer over the boundary that a pass before left. */
struct pass {
    const struct step_plan *plan;
    const struct draft_plan *draft; /* NULL: main layers; its segments are the plan's */
    bool is_head_only;              /* the plan's logits of the boundary that the last step left */
    float *logits;                  /* host; NULL in a dry run, and where none are wanted */
};

/* Where events are recorded; a dry run has none. */
static inline struct tick_trace *executor_trace(const struct executor *executor) {
    return executor->queue.is_dry ? NULL : executor->options.trace;
}

/* Whether passes meet those of other replicas, and so run without rows too. */
static inline bool executor_shares_experts(const struct executor *executor) {
    return executor->options.ranks != NULL && executor->options.ranks->replica_count > 1;
}

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

static inline bool executor_chooses(const struct executor *executor) {
    const struct executor_ranks *ranks = executor->options.ranks;
    return ranks == NULL || comm_rank(ranks->control) == executor_ranks_chooser(ranks);
}

/* The boundary that the last step left, or that the next pass of a step works in. */
static inline const struct boundary *executor_boundary(const struct executor *executor) {
    return &executor->boundaries[executor->buffer];
}

/* One to compute in, one that leaves where boundaries are sent, one that the next comes into (P-19). */
static inline int executor_buffer_count(const struct executor *executor) {
    return 1 + !executor_is_on_last_stage(executor) + !executor_is_on_first_stage(executor);
}

/* The buffer of the step after the last one. */
static inline int executor_next_buffer(const struct executor *executor) {
    return (executor->buffer + 1) % executor_buffer_count(executor);
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

/*
 * The stage before may send a boundary into the buffer from now on, one of any step: nobody else uses it, and
 * nothing is awaited in it yet.
 */
enum status executor_await_boundary(struct executor *executor, int buffer);

/*
 * The boundary of the stage before, which this rank awaits: the rows that it has, from the rank that has the
 * same ones (S-18). INTERNAL if another came. Nothing moves in a dry run.
 */
enum status executor_receive_boundary(struct executor *executor, const struct boundary *boundary);

/* Starts to send the boundary to the stage behind, which is not waited for (P-20). */
enum status executor_send_boundary(struct executor *executor, const struct boundary *boundary);

/* Takes back what was started and will not end: boundaries on their way, in both directions. */
void executor_drop_boundaries(struct executor *executor);

/* Waits until nobody reads a boundary buffer of this rank any more. */
enum status executor_wait_for_buffer(struct executor *executor, int buffer);

/* Saved row `from` is also that of slot `to`. */
enum status executor_copy_saved_row(struct executor *executor, int32_t from, int32_t to);

/* Sends this rank's timeline to the leader, which has asked for it. */
enum status executor_send_trace(struct executor *executor);

/* Answers a record that asks for a report; does not wait for the leader. */
enum status executor_send_report(struct executor *executor);

/* What a plan asks of the state before its layers, on this rank. */
enum status executor_change_own_state(struct executor *executor, const struct step_plan *plan);

/* Does what a record orders about prefixes on disk; the first rank of a stage answers. */
enum status executor_follow_prefixes(struct executor *executor, const struct plan_record *record);

/* Memory for records, as this rank needs it. */
enum status executor_alloc_records(struct executor *executor);
void executor_free_records(struct executor *executor);

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
