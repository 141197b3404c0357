/*
 * A request: a prompt in, tokens out.
 *
 * What comes out depends on the request alone, bit for bit: not on what else runs, on how a prompt was cut
 * into steps, on cached beginnings, on preemption, or on drafts (rejection sampling of drafts excepted). All
 * functions may be called from any thread; one thread at a time waits on or reads one request.
 */
#ifndef SLUICE_REQUEST_H
#define SLUICE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/constraint.h"
#include "sluice/engine.h"
#include "sluice/sampling.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_request;

/* Where a request is. */
enum sluice_request_phase {
    SLUICE_REQUEST_WAITING, /* for a place, for memory, or again after it was preempted */
    SLUICE_REQUEST_READING, /* the prompt */
    SLUICE_REQUEST_ANSWERING,
    SLUICE_REQUEST_FINISHED,
};

enum sluice_finish_reason {
    SLUICE_FINISH_NONE,      /* not finished */
    SLUICE_FINISH_STOP,      /* a stop token, which is the last token, or the constraint's end */
    SLUICE_FINISH_LENGTH,    /* token_limit, or the end of the context */
    SLUICE_FINISH_CANCELLED, /* sluice_request_cancel, or the engine was closed */
    SLUICE_FINISH_DEADLINE,  /* timeout_seconds is over */
    SLUICE_FINISH_ERROR,     /* `status` and `message` of the state say which */
};

enum { SLUICE_LOG_PROBABILITIES_MAX = 20 };

/* A token and its log-probability under the model's own logits. */
struct sluice_log_probability {
    int32_t token;
    double log_probability;
};

struct sluice_request_options {
    const int32_t *prompt; /* 1 and more token ids; copied */
    size_t prompt_count;
    /*
     * How many of the prompt's last tokens are the beginning of the answer, fewer than all: an answer that
     * was interrupted goes on with the bits that it would have had. They count as output for the penalties,
     * and as prompt for everything else here.
     */
    size_t output_prefix_count;
    struct sluice_sampling sampling; /* logit_bias is copied */
    uint32_t choice_index;           /* of several answers with one seed, each has its own noise */
    int64_t token_limit;             /* most new tokens; -1: what the context leaves */
    const int32_t *stop_tokens;      /* copied */
    size_t stop_token_count;
    int log_probability_count; /* likeliest tokens recorded for each token; -1: nothing is recorded */
    /*
     * The same for each token of the prompt but the first; -1: nothing is recorded. Such a request reads all
     * of its prompt: it takes nothing from the prefix cache, but may leave things there.
     */
    int prompt_log_probability_count;
    int priority;            /* lower goes first; equal ones in the order they came */
    double timeout_seconds;  /* from submission to the last token; 0: none */
    int draft_limit;         /* most drafts; -1: the engine's */
    bool skips_prefix_cache; /* takes nothing from it and leaves nothing there */
    struct sluice_constraint
        constraint; /* zeroed: none; its context is borrowed until the request is finished, or released */
    /* Called on the engine's thread when the state has changed; must not call the engine. NULL: none. */
    void (*notify)(void *context);
    void *notify_context;
};

/* Sampling's defaults, token_limit -1, no log-probabilities, the engine's drafts. */
struct sluice_request_options sluice_request_options_default(void);

/* What a request has done so far. */
struct sluice_request_state {
    enum sluice_request_phase phase;
    enum sluice_finish_reason finish_reason;
    enum sluice_status status; /* SLUICE_FINISH_ERROR: what went wrong */
    const char *message;       /* the sentence to it, valid as long as the request; "" without an error */
    size_t prompt_tokens_done; /* cached ones included; never less than before */
    size_t cached_prompt_tokens;
    size_t token_count; /* new tokens, stop token included */
    size_t verified_drafts;
    size_t accepted_drafts;
    size_t preemptions;
    double queue_seconds;       /* until it first ran */
    double first_token_seconds; /* from submission to the first token */
    double last_token_seconds;  /* from submission to the last token so far */
};

/*
 * Submits a request and returns at once. BAD_ARGUMENT, OUT_OF_RANGE and CONTEXT_FULL say what can never run:
 * ids outside the vocabulary, options outside their bounds, a prompt that leaves no room in the context or
 * needs more pages than the engine has. Owned by the caller: sluice_request_release.
 */
enum sluice_status sluice_engine_submit(struct sluice_engine *engine,
                                        const struct sluice_request_options *options,
                                        struct sluice_request **out);

/*
 * Waits until the request has more than `seen_tokens` tokens, more than `seen_prompt_tokens` prompt tokens
 * done (SIZE_MAX: does not matter), is finished, or `timeout_seconds` are over (negative: no limit), and
 * returns its state.
 */
struct sluice_request_state sluice_request_wait(struct sluice_request *request, size_t seen_tokens,
                                                size_t seen_prompt_tokens, double timeout_seconds);

/* The state now. */
struct sluice_request_state sluice_request_state(struct sluice_request *request);

/* Token `index` below the token_count of a state that was returned. */
int32_t sluice_request_token(const struct sluice_request *request, size_t index);

/*
 * Log-probability of that token, and of the log_probability_count likeliest ones in falling order (NULL: not
 * wanted). BAD_ARGUMENT if they are not recorded.
 */
enum sluice_status sluice_request_log_probabilities(const struct sluice_request *request, size_t index,
                                                    struct sluice_log_probability *chosen,
                                                    struct sluice_log_probability *top);

/*
 * The same of the prompt's token `index`, 1 and more and below the prompt_tokens_done of a state that was
 * returned. BAD_ARGUMENT if they are not recorded, or for another index.
 */
enum sluice_status sluice_request_prompt_log_probabilities(const struct sluice_request *request, size_t index,
                                                           struct sluice_log_probability *chosen,
                                                           struct sluice_log_probability *top);

/* The request ends within a step, with reason CANCELLED unless it was finished. Does not wait. */
void sluice_request_cancel(struct sluice_request *request);

/* Gives the request up: cancels it if it runs. Nulls the pointer; NULL inside is allowed. */
void sluice_request_release(struct sluice_request **request);

#ifdef __cplusplus
}
#endif

#endif
