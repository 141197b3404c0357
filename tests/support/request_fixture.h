/*
 * Requests for tests of whole engines on mini-v4, and what each of them gives alone. Asserts.
 */
#ifndef SLUICE_TESTS_SUPPORT_REQUEST_FIXTURE_H
#define SLUICE_TESTS_SUPPORT_REQUEST_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/request.h"
#include "support/model_fixture.h"

enum {
    REQUESTS = TESTS_ARE_SHORT ? 20 : 64,
    REQUEST_TOP = 4, /* likeliest tokens that are recorded */
    REQUEST_ANSWER_MAX = 40,
    REQUEST_CONTEXT = 512,
};

struct planned_request {
    int32_t *prompt;
    size_t prompt_count;
    int answer_limit;
    double temperature;
    bool has_penalties;
    uint64_t seed;
};

/* Log-probabilities come from whole rows of logits: their bits stand for the logits' bits. */
struct answer {
    size_t count;
    enum sluice_finish_reason reason;
    int32_t tokens[REQUEST_ANSWER_MAX];
    struct sluice_log_probability chosen[REQUEST_ANSWER_MAX];
    struct sluice_log_probability top[REQUEST_ANSWER_MAX][REQUEST_TOP];
};

struct request_fixture {
    struct planned_request requests[REQUESTS];
    struct answer alone[REQUESTS]; /* without prefix cache and drafts, one by one */
    uint64_t random;
};

/* Setup and teardown of cmocka: plans the requests and runs each alone. */
int request_fixture_set_up(void **state);
int request_fixture_tear_down(void **state);

/* The next random number below `limit`. */
int request_fixture_below(struct request_fixture *fixture, int limit);

/* Options of an engine on mini-v4 with room for all planned requests. */
struct sluice_engine_options request_engine_options(void);

/* The request as the engine takes it; borrows from the planned one. */
struct sluice_request_options request_options(const struct planned_request *planned);

struct sluice_request *request_submit(struct sluice_engine *engine, const struct planned_request *planned,
                                      int priority);

/* Waits for the request's end. */
void request_collect(struct sluice_request *request, struct answer *out);

/* Fails, saying where, unless this is what planned request `index` gives alone. */
void request_expect_answer(const struct request_fixture *fixture, int index, const struct answer *actual,
                           const char *what);

/* Fails, saying where, unless the request ends as planned request `index` does alone. */
void request_expect_same(const struct request_fixture *fixture, int index, struct sluice_request *request,
                         const char *what);

#endif
