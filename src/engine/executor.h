/*
 * Executes step plans and draft plans: uploads the batch, runs the model, brings the wanted logits back.
 *
 * An executor owns the queue, the step arena and the boundary buffers, all sized at creation by one dry run
 * of the largest step. The boundary of the last step (V4: the residual streams) stays where it is until the
 * next step: the head and the draft layer read the rows that they need in place, by index (spec parallelism
 * M-3). A stage that hands its boundary on has two, one that is computed in while the other leaves (P-19).
 * Drafting adds two boundaries of one row per segment, which draft passes read and write in turns, and the
 * saved rows; when it is off there is none of this. One thread at a time.
 */
#ifndef SLUICE_ENGINE_EXECUTOR_H
#define SLUICE_ENGINE_EXECUTOR_H

#include "backends/backend_registry.h"
#include "base/string_buffer.h"
#include "engine/executor_ranks.h"
#include "engine/rank_meter.h"
#include "engine/state_pool.h"
#include "engine/step_plan.h"
#include "engine/tick_trace.h"
#include "model/model.h"

struct executor;
struct prefix_part;

struct executor_options {
    const struct model *model; /* bound; borrowed */
    const struct backend *backend;
    struct device *device;     /* borrowed */
    struct stream *stream;     /* borrowed */
    struct worker_pool *pool;  /* borrowed */
    struct state_pool *states; /* borrowed; described, and allocated before a step runs */
    struct tick_trace *trace;  /* borrowed; NULL: none */
    enum numerics numerics;
    const char *cpu_features;     /* as struct backend's build_table takes it */
    int32_t row_limit;            /* rows of a step */
    int32_t segment_limit;        /* segments of a step */
    int32_t logit_row_limit;      /* rows of logits computed at once; more are done in turns */
    int32_t saved_row_limit;      /* boundary rows kept by slot, those of snapshots included; of no account
                                     when drafting is off */
    struct executor_ranks *ranks; /* NULL: one rank; borrowed */
};

/* With ranks, creation is not collective, but all that runs or changes state is. */
enum status executor_create(const struct executor_options *options, struct executor **out);

/*
 * The executor of a leader from outside: it sends records and takes reports, and has nothing that runs. Of
 * the options only the model, which need not be bound, the ranks and the trace count.
 */
enum status executor_create_outside(const struct executor_options *options, struct executor **out);

/* Frees and nulls; NULL inside is allowed. */
void executor_destroy(struct executor **executor);

/* Appends the arithmetic of every operation, which decides the bits of all that the executor computes. */
void executor_describe_arithmetic(const struct executor *executor, struct string_buffer *out);

/* The same of a table that no executor has yet. */
void executor_describe_table(const struct op_table *table, struct string_buffer *out);

/* Device memory of a step, boundary buffers included. */
size_t executor_step_bytes(const struct executor *executor);

/* Of them, those that exist because drafting is on. */
size_t executor_draft_bytes(const struct executor *executor);

/* Bytes that this rank has sent so far to others of its stage, in all replicas, by collective; zeros with one
 * rank. */
struct executor_sent_bytes {
    uint64_t sums;
    uint64_t gathers;
    uint64_t exchanges;
};
struct executor_sent_bytes executor_sent_bytes(const struct executor *executor);

/* Bytes of its part of a timeline, 0 without one. */
size_t executor_trace_bytes(const struct executor *executor);

/* What this rank has done so far. */
void executor_report(const struct executor *executor, struct rank_report *out);

/* Where this rank's time is counted. */
struct rank_meter *executor_meter(struct executor *executor);

/*
 * For the leader, which has asked for reports by a record: waits for the one of another rank. It comes before
 * whatever that rank sends for records after the one that asked.
 */
enum status executor_take_report(struct executor *executor, int rank, struct rank_report *out);

/*
 * Sends a record to all other ranks; does not wait for them, and does nothing with one rank. For the leader.
 * A round's tokens and biases of sequences that start, which are borrowed, go to the rank that chooses.
 */
enum status executor_lead(struct executor *executor, const struct plan_record *record);

/*
 * Waits for the next record, as long as it takes, for it is the leader's to say when there is work. What the
 * record points to is valid until the next call. For all ranks but the leader.
 */
enum status executor_receive(struct executor *executor, struct plan_record *out);

/*
 * On the rank that chooses, after executor_receive of a round: the tokens and biases of its start `index`, in
 * order. They are valid until the next call.
 */
enum status executor_receive_start(struct executor *executor, struct round_start *start);

/* Has all that this rank has sent arrive: before it ends. */
enum status executor_finish_sends(struct executor *executor);

/* Does what a record that is no round asks for, on this rank. */
enum status executor_obey(struct executor *executor, const struct plan_record *record);

/* Where what is ordered about prefixes on disk is done, once; borrowed. */
void executor_set_prefixes(struct executor *executor, struct prefix_part *prefixes);

/*
 * Does what a record orders about prefixes on disk on this rank, the changes of the state in front of it
 * included; `answer` is that of FIND and LOAD, else zeros. For the ranks of all stages, a leader too.
 */
enum status executor_obey_prefixes(struct executor *executor, const struct plan_record *record,
                                   struct prefix_answer *answer);

/* For the leader, which has sent a FIND or LOAD: waits for the answer of a stage other than its own. */
enum status executor_take_prefix_answer(struct executor *executor, int stage, struct prefix_answer *out);

/*
 * This rank's part of a step, which has no rows only where replicas share experts: carries out what the plan
 * asks of the state, then runs its layers. logits: host (logit_row_count, vocabulary), whatever their values,
 * of the last stage; NULL elsewhere.
 */
enum status executor_step(struct executor *executor, const struct step_plan *plan, float *logits);

/*
 * From now on steps run layers first to end - 1 of the stage only, or none of them, so that each can be timed
 * alone. What such a step gives means nothing.
 */
void executor_set_layers(struct executor *executor, int first, int end);

/* How long the last step computed on this rank; waits for other stages are not in it. */
double executor_step_seconds(const struct executor *executor);

/* The same on all ranks, with logits for the leader, which calls it when nothing is under way. */
enum status executor_run(struct executor *executor, const struct step_plan *plan, float *logits);

/*
 * Logits of `count` rows of the last step, before the next one: host (count, vocabulary). On all ranks of the
 * last stage, for the one that chooses; with ranks at most the record's logit_row_limit of rows.
 */
enum status executor_run_head(struct executor *executor, const int32_t *rows, int32_t count, float *logits);

/*
 * Does at once what a plan asks of the state before its layers, and nothing else: page updates, slot
 * operations. The plan must not be run with them again. For the leader; on all ranks.
 */
enum status executor_change_state(struct executor *executor, const struct step_plan *plan);

/* OK if all logits that the plan gave are finite; otherwise as executor_explain_not_finite. */
enum status executor_check_logits(struct executor *executor, const struct step_plan *plan,
                                  const float *logits);

/*
 * Runs the plan's rows again, layer by layer, and fails: NOT_FINITE names the first layer and position whose
 * output is not finite. The last step's boundary is gone afterwards.
 */
enum status executor_explain_not_finite(struct executor *executor, const struct step_plan *plan);

/*
 * Runs one pass of the draft layer on all ranks of the last stage, for the one that chooses; the model's
 * draft_limit must be above 0. Rows of the source are read in place. logits: host (rows, vocabulary); NULL
 * when the plan writes state only.
 *
 * A pass with logits has at most min(segment_limit, row_limit) rows, one that writes state only row_limit.
 */
enum status executor_run_draft(struct executor *executor, const struct draft_plan *plan, float *logits);

/*
 * After the last of these passes in a round that has some, for the rank that chooses; the others of its stage
 * take part in them until then.
 */
enum status executor_end_passes(struct executor *executor);
enum status executor_follow_passes(struct executor *executor);

/*
 * Keeps boundary row `step_row` of the last step as saved row `saved_row`, the one of that slot: who goes on
 * from a snapshot drafts from it (spec parallelism M-14).
 */
enum status executor_save_row(struct executor *executor, int32_t step_row, int32_t saved_row);

/* Bytes of a saved row; 0 if there are none. */
size_t executor_saved_row_bytes(const struct executor *executor);

/* Copies a saved row to and from executor_saved_row_bytes of host memory. */
enum status executor_read_saved_row(struct executor *executor, int32_t saved_row, void *bytes);
enum status executor_write_saved_row(struct executor *executor, int32_t saved_row, const void *bytes);

#endif
