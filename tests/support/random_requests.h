/*
 * Requests that come, end and are given up at random, of a few prompts whose answers are known: mostly one at
 * a time, so that a second replica has nothing to do. Asserts, on one thread.
 */
#ifndef SLUICE_TESTS_SUPPORT_RANDOM_REQUESTS_H
#define SLUICE_TESTS_SUPPORT_RANDOM_REQUESTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sluice/request.h"

enum {
    RANDOM_CONTEXT = 128,
    RANDOM_LIVE_MAX = 6,
    RANDOM_WAIT_SECONDS = 60 /* for whatever is to come */
};

struct live_request {
    struct sluice_request *request;
    int prompt;
    int limit; /* tokens of its answer */
    bool is_cancelled;
};

/* Learns what each prompt gives, by an engine with RANDOM_CONTEXT tokens of context. Before all others. */
void random_requests_learn(struct sluice_engine *engine);

/* Most tokens that a prompt's answer can have. */
int random_requests_limit(int prompt);

struct sluice_request *random_requests_submit(struct sluice_engine *engine, int prompt, int limit);

/* Its end, which comes in time. */
struct sluice_request_state random_requests_wait(struct sluice_request *request);

/* A prompt and a limit that `random` chooses. */
struct live_request random_requests_start(struct sluice_engine *engine, uint64_t random);

/* All that came is what was learned; all of it unless the request was given up. Releases it. */
void random_requests_end(struct live_request *live);

/* Until `ticks` is `tick_count` more than it was; ticks are counted by somebody else. */
void random_requests_run(struct sluice_engine *engine, const atomic_int *ticks, int tick_count);

#endif
