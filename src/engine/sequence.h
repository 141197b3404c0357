/*
 * One request inside the engine: its tokens, its rules, and how far it is.
 *
 * A sequence belongs to the engine's thread from submission until it is finished. Positions: tokens 0 to
 * token_count - 1 are known, those below `computed` have run through the model; the last known token has not
 * while the sequence answers. All memory is made at submission.
 */
#ifndef SLUICE_ENGINE_SEQUENCE_H
#define SLUICE_ENGINE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/draft_controller.h"
#include "sluice/request.h"

/* What the choice of a sequence's tokens needs. */
struct sequence_rules {
    struct sluice_sampling sampling; /* logit_bias owned */
    uint32_t choice_index;
    struct sluice_constraint constraint;
    int32_t log_probability_count; /* -1: none */
    /* [answer tokens][1 + log_probability_count]: the token's own, then the likeliest; owned. */
    struct sluice_log_probability *log_probabilities;
    int32_t prompt_log_probability_count; /* -1: none */
    /* [prompt tokens but the first][1 + prompt_log_probability_count], in the same way; owned. */
    struct sluice_log_probability *prompt_log_probabilities;
};

enum sequence_phase { SEQUENCE_WAITING, SEQUENCE_RUNNING, SEQUENCE_FINISHED };

struct sequence {
    struct sequence_rules rules;
    int32_t *stop_tokens; /* owned */
    size_t stop_token_count;
    int priority;
    double deadline; /* on the engine's clock; 0: none */
    int32_t draft_limit;
    bool uses_prefix_cache;

    int32_t *tokens; /* [token_limit] prompt, then answer; owned */
    int32_t prompt_count;
    int32_t output_prefix_count; /* of them, the last ones that count as output */
    int32_t scored_count;        /* prompt tokens whose log-probabilities need not be recorded any more */
    int32_t token_count;
    int32_t token_limit; /* of prompt and answer together */
    int32_t *pages;      /* [page_limit] of positions 0.. in order; owned */
    int32_t page_count;
    int32_t page_limit;

    enum sequence_phase phase;
    int64_t arrival;     /* number in order of submission */
    int32_t slot;        /* -1 while it is not running */
    uint32_t generation; /* of its slot: tells it from who had the slot before */
    int32_t group;       /* of sequences that choose tokens in the same ticks */
    int32_t computed;
    int32_t planned;                 /* tokens below it are in ticks under way, or have run */
    int32_t ticks;                   /* under way, with rows of it */
    bool awaits_tokens;              /* one of them chooses tokens */
    bool gives_way;                  /* leaves its memory to another as soon as none is under way */
    int32_t drafts[DRAFT_LIMIT_MAX]; /* to be verified in the next step */
    int32_t draft_count;
    bool has_draft_rings;    /* the draft layer's rings are its own: nothing of who had the slot before */
    int32_t draft_gap_end;   /* the draft layer's rows from here on are its own; 0: all */
    int32_t restored_from;   /* snapshot slot whose saved row the draft layer has not seen yet; -1: none */
    int32_t branch_point;    /* where a snapshot would let others start too; 0: nowhere */
    int32_t answer_snapshot; /* end of the last snapshot inside the answer; 0: none */
    bool is_cancelled;       /* ends with the next plan */

    enum sluice_finish_reason finish_reason;
    enum status status; /* of SLUICE_FINISH_ERROR */
    char message[512];  /* the sentence to it */
    int32_t cached_prompt_tokens;
    bool is_sought; /* its beginning was looked for in the store: it counts once, however often it is */
    bool has_asked; /* the store, since it last began to wait */
    int32_t known_when_asked; /* tokens of its beginning that the cache had then */
    int64_t verified_drafts;
    int64_t accepted_drafts;
    int32_t preemptions;
    double submit_seconds; /* on the engine's clock */
    double start_seconds;  /* first ran; 0: not yet */
    double first_token_seconds;
    double last_token_seconds;

    struct sequence *previous; /* in the list of its phase */
    struct sequence *next;
};

/* What sequences of an engine are measured by. */
struct sequence_bounds {
    int64_t vocabulary_size;
    int64_t context_tokens;
    int32_t page_tokens;
    int32_t page_count; /* of the whole engine */
    int32_t draft_limit;
};

/*
 * Checks the options against the bounds and makes a waiting sequence; `now` is the engine's clock. Errors as
 * sluice_engine_submit. Owned: sequence_deinit, also after an error.
 */
enum status sequence_init(struct sequence *sequence, const struct sluice_request_options *options,
                          const struct sequence_bounds *bounds, double now);

/* Frees what the sequence owns; nothing to do for a zeroed struct. */
void sequence_deinit(struct sequence *sequence);

/* Whether all known tokens but the last have run: the next step chooses a token. */
static inline bool sequence_is_answering(const struct sequence *sequence) {
    return sequence->computed == sequence->token_count - 1;
}

/* Whether tokens of the prompt still lack log-probabilities that were asked for. */
static inline bool sequence_is_scoring(const struct sequence *sequence) {
    return sequence->scored_count < sequence->prompt_count;
}

/*
 * Appends an accepted token and says whether the sequence ends with it, and why: a stop token or the
 * constraint's end before the length's.
 */
bool sequence_accept(struct sequence *sequence, int32_t token, double now);

/* Ends the sequence. `message` NULL without an error. */
void sequence_finish(struct sequence *sequence, enum sluice_finish_reason reason, enum status status,
                     const char *message);

/* A list in order, linked through the sequences. */
struct sequence_list {
    struct sequence *first;
    struct sequence *last;
    int32_t count;
};

/* Puts `sequence` before `successor`; NULL: at the end. */
void sequence_list_insert(struct sequence_list *list, struct sequence *successor, struct sequence *sequence);
void sequence_list_remove(struct sequence_list *list, struct sequence *sequence);

#endif
