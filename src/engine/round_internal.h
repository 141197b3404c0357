/* What the round runner's files share. */
#ifndef SLUICE_ENGINE_ROUND_INTERNAL_H
#define SLUICE_ENGINE_ROUND_INTERNAL_H

#include "engine/feedback_record.h"
#include "engine/round.h"
#include "engine/round_prefixes.h"
#include "engine/round_rules.h"

/* A row whose logits say how probable a token of a prompt is. */
struct round_score {
    int32_t segment;
    int32_t token;
    int32_t top_count;
    struct sluice_log_probability *record;
    enum status status;
};

/* A round under way, as the leader remembers it. */
struct started_round {
    struct round_plan plan;
    int32_t sampled_count;
    uint64_t number;
    double started;       /* on the clock */
    double stage_seconds; /* that the leader's stage took, if it has one and that is not the last */
    bool has_reports;     /* of all ranks, which were asked before it */
    bool has_answers;     /* of stages, which were asked about a prefix before it */
};

/* Times of a tick's stages on their way to the stage behind. */
struct sent_seconds {
    struct stage_seconds stages;
    struct comm_request request;
};

/* Feedback on its way. */
struct sent_feedback {
    void *memory;
    void *extra;
    struct comm_request requests[2];
};

struct round_runner {
    struct round_runner_options options;
    struct feedback_shape shape;
    uint64_t number; /* of the next round */

    /* Of the leader. */
    struct started_round *rounds; /* [in_flight_limit], a ring */
    int32_t oldest;
    int32_t in_flight;
    double last_finish;
    struct rank_report *reports; /* [ranks]: what each has done, when it was last asked */
    bool is_asked;               /* again, and not all answers are here */
    double asked_at;             /* on the clock */
    bool is_prefix_asked;        /* of stages, and not all answers are here */
    bool is_prefix_behind_round; /* they come before the feedback of a round under way */
    struct prefix_answers prefix_answers;
    void *received; /* feedback of another rank */
    void *received_extra;
    struct round_feedback *taken; /* [2 * sequence_limit]: what came back, of answers and of prompts */

    struct sent_seconds *sent_seconds; /* [in_flight_limit], by number of the round; between the end stages */

    /* Where tokens are chosen. */
    unsigned thread_count;
    struct sampler_workspace **workspaces;  /* [thread_count] */
    struct slot_rules *rules;               /* [sequence_limit] */
    float *logits;                          /* [logit row limit][vocabulary] */
    struct round_feedback *feedback;        /* [sequence_limit] */
    struct round_feedback *prompt_feedback; /* [sequence_limit] */
    int32_t prompt_feedback_count;
    struct sluice_log_probability *prompt_records; /* [row_limit][1 + most of them] */
    int32_t *score_rows;                           /* [logit row limit] */
    struct round_score *scores;                    /* [logit row limit] */
    struct sluice_log_probability *records;        /* [sequence_limit][draft_limit + 1][1 + most of them] */
    struct sent_feedback *sent;                    /* [in_flight_limit], by number of the round */
    int32_t *first_logit_rows;                     /* [sequence_limit] of each feedback's segment */
    int32_t *first_rows; /* [sequence_limit] first row of each segment of the step */

    /* Drafting; NULL without it. */
    float *draft_logits;                   /* [sequence_limit][vocabulary] */
    float *draft_probabilities;            /* [sequence_limit by slot][draft_limit][vocabulary]: rejection */
    struct step_segment *draft_segments;   /* [sequence_limit] */
    struct step_snapshot *draft_snapshots; /* [sequence_limit] */
    int32_t *draft_tokens;                 /* [row_limit] */
    int32_t *draft_rows;                   /* [row_limit] */
    int32_t *drafting;                     /* [sequence_limit] feedback that goes on drafting */
    int32_t drafting_count;
};

static inline bool round_is_leader(const struct round_runner_options *options) {
    return options->ranks == NULL || comm_rank(options->ranks->control) == 0;
}

/* Whether this rank runs something: all but a leader from outside do. */
static inline bool round_has_stage(const struct round_runner_options *options) {
    return options->ranks == NULL || executor_ranks_has_stage(options->ranks);
}

/* Whether this rank chooses tokens. */
static inline bool round_chooses(const struct round_runner_options *options) {
    return options->ranks == NULL ||
           comm_rank(options->ranks->control) == executor_ranks_chooser(options->ranks);
}

static inline bool round_is_on_last_stage(const struct round_runner_options *options) {
    return options->ranks == NULL || options->ranks->stage == options->ranks->stage_count - 1;
}

/* The first stage whose time is told: the leader knows that of its own. */
static inline int round_first_told_stage(const struct executor_ranks *ranks) {
    return ranks->control_first == 0 ? 1 : 0;
}

/* Whether this rank tells the next stage how long the stages up to its own took. */
static inline bool round_passes_seconds(const struct round_runner_options *options) {
    const struct executor_ranks *ranks = options->ranks;
    return ranks != NULL && options->draft_limit > 0 && ranks->stage >= round_first_told_stage(ranks) &&
           ranks->stage < ranks->stage_count - 1 && comm_rank(ranks->step.tensor) == 0;
}

/* Probabilities that the draft `index` of the sequence in `slot` was drawn from; NULL if they are not kept.
 */
static inline float *round_draft_probabilities(const struct round_runner *runner, int32_t slot,
                                               int32_t index) {
    int64_t row = (int64_t)slot * runner->options.draft_limit + index;
    return runner->draft_probabilities == NULL
               ? NULL
               : runner->draft_probabilities + row * runner->options.vocabulary_size;
}

/* Asks all ranks for reports, if it is time to; they are taken with the round that starts next. */
enum status round_ask_reports(struct round_runner *runner, bool *is_asked);

/* Takes those that were asked for, before anything else that ranks send. */
enum status round_take_reports(struct round_runner *runner);

/* Whether the round that starts next is the first behind a question about a prefix. */
bool round_carries_prefix_answers(struct round_runner *runner);

/* This rank's part of a round; feedback is on its way when it returns. */
enum status round_run_part(struct round_runner *runner, const struct round_plan *plan);

/*
 * The seconds of stages before the last go from stage to stage behind the boundary, from each first rank to
 * the next, if drafts are made. Those of the leader's own stage do not: it knows them.
 */
enum status round_pass_stage_seconds(struct round_runner *runner, uint64_t number);

/* Those that have come to the rank that chooses; zeros where there are none. */
enum status round_take_stage_seconds(struct round_runner *runner, struct stage_seconds *out);

/* Waits until all have left. */
enum status round_finish_stage_seconds(struct round_runner *runner);

/* Chooses the tokens of all sampled segments from runner->logits. */
void round_choose(struct round_runner *runner, const struct round_plan *plan, int32_t *feedback_count);

/* Log-probabilities of one row, the token's own and the `top_count` likeliest, into a record. */
enum status round_record_log_probabilities(const struct round_runner *runner, const float *logits,
                                           int32_t token, int32_t top_count,
                                           struct sluice_log_probability *record);

/* Whether the plan asks for log-probabilities of prompt tokens. */
bool round_has_scores(const struct round_plan *plan);

/*
 * Records these, block by block, into runner->prompt_feedback: the choice's logits are gone afterwards.
 */
enum status round_score(struct round_runner *runner, const struct round_plan *plan);

/* Runs the draft layer after the choice: catches up, then makes the drafts that the plan asks for. */
enum status round_draft(struct round_runner *runner, const struct round_plan *plan, int32_t feedback_count);

#endif
