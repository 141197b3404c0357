/*
 * Executes round plans: the step, the choice of tokens, the draft layer (spec parallelism 4.2), each where it
 * lives.
 *
 * Every rank has a runner. The leader's starts rounds, as many as may be under way, and takes what they gave
 * in the same order; the others follow. The first rank of the last stage chooses tokens and makes drafts
 * together with the ranks of its stage, and sends one record of feedback per round (P-34). With one rank all
 * of this is in one place, by the same functions.
 *
 * The rank that chooses knows of each slot what choosing needs: told once when a sequence gets the slot, kept
 * up by what was chosen. Rows are chosen from by all threads of its pool. All memory is made at creation, but
 * that for logit biases, which is made when a sequence with more of them than any before starts in a slot.
 * One thread at a time.
 */
#ifndef SLUICE_ENGINE_ROUND_H
#define SLUICE_ENGINE_ROUND_H

#include "base/worker_pool.h"
#include "engine/acceptance.h"
#include "engine/executor.h"
#include "engine/round_plan.h"

struct round_runner;

struct round_runner_options {
    struct executor *executor;    /* borrowed */
    struct executor_ranks *ranks; /* the executor's; NULL: one rank */
    struct worker_pool *pool;     /* borrowed; of no account where no tokens are chosen */
    struct tick_trace *trace;     /* borrowed; NULL: none */
    int64_t vocabulary_size;
    int32_t sequence_limit; /* segments of a step; slots of sequences are below it */
    int32_t row_limit;      /* rows of a step */
    int32_t draft_limit;
    int32_t in_flight_limit; /* rounds under way at once, at least 1 */
    enum draft_sampling draft_sampling;
};

/*
 * Rows of logits that are looked at together at most: of a step one per sequence and its drafts, of prompts
 * whose tokens' probabilities are wanted as many, but some at least.
 */
int32_t round_logit_row_limit(int32_t sequence_limit, int32_t draft_limit, int32_t row_limit);

/* Bytes that a runner of this size allocates for `thread_count` threads, and the planner's masks. */
size_t round_runner_bytes(const struct round_runner_options *options, unsigned thread_count);

enum status round_runner_create(const struct round_runner_options *options, struct round_runner **out);

/* Frees and nulls; NULL inside is allowed. */
void round_runner_destroy(struct round_runner **runner);

/*
 * Starts a round: tells the other ranks and does this rank's part of it, for the leader. What of the plan
 * lives until the round is completed must do so. After an error no round is under way any more; with several
 * ranks none ever will be again.
 */
enum status round_start(struct round_runner *runner, const struct round_plan *plan);

/* Rounds started so far: the number of the next one. */
uint64_t round_next_number(const struct round_runner *runner);

/* Rounds that were started and not finished. */
int32_t round_in_flight(const struct round_runner *runner);

/*
 * Waits for the oldest round under way. A sequence whose logits are not finite has that in its feedback and
 * does not disturb the others; any other error is the round's, and those after it are dropped. `out` is valid
 * until the next round is finished.
 */
enum status round_finish(struct round_runner *runner, struct round_result *out);

/*
 * For the leader, when no round is under way: there is nothing to do until the next one. Times of ranks stop,
 * and all say what they have done; nothing happens if they did already.
 */
enum status round_rest(struct round_runner *runner);

/*
 * What each rank has done, by its number: of one rank until now, of several when they were last asked, a
 * fraction of a second ago. For the leader; valid until the next round.
 */
const struct rank_report *round_reports(struct round_runner *runner, int *count);

/*
 * Does what the leader's executor and runner are asked to do, until the leader ends it (OK) or a rank is
 * lost. For all ranks but the leader.
 */
enum status round_follow(struct round_runner *runner);

/* Ends the followers; for the leader, when no round is under way. */
enum status round_end_followers(struct executor *executor);

#endif
