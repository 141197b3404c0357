#include "support/request_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/golden_file.h"

enum { PROMPTS = 6 };

int request_fixture_below(struct request_fixture *fixture, int limit) {
    return (int)(model_next_random(&fixture->random) % (uint64_t)limit);
}

/* Beginnings of the recorded sequences: text that the model knows, and beginnings that requests share. */
static void plan_requests(struct request_fixture *fixture) {
    struct golden_file golden;
    golden_file_open("mini-v4", &golden);
    for (int i = 0; i < REQUESTS; i++) {
        struct planned_request *request = &fixture->requests[i];
        char name[32];
        int64_t length;
        snprintf(name, sizeof name, "%d.ids", request_fixture_below(fixture, PROMPTS));
        const int32_t *ids = golden_file_integers(&golden, name, &length);
        request->prompt_count =
            1 + (size_t)request_fixture_below(fixture, (int)(length < 400 ? length : 400) - 1);
        request->prompt = malloc(request->prompt_count * sizeof *request->prompt);
        assert_non_null(request->prompt);
        memcpy(request->prompt, ids, request->prompt_count * sizeof *ids);
        request->answer_limit = 1 + request_fixture_below(fixture, REQUEST_ANSWER_MAX);
        request->temperature = request_fixture_below(fixture, 2) == 0 ? 0.0 : 0.7;
        request->has_penalties = request_fixture_below(fixture, 4) == 0;
        request->seed = (uint64_t)i;
    }
    golden_file_close(&golden);
}

struct sluice_request_options request_options(const struct planned_request *planned) {
    static const int32_t end_token = 1;
    struct sluice_request_options options = sluice_request_options_default();
    options.prompt = planned->prompt;
    options.prompt_count = planned->prompt_count;
    options.token_limit = planned->answer_limit;
    options.sampling.temperature = planned->temperature;
    options.sampling.seed = planned->seed;
    options.sampling.repetition_penalty = planned->has_penalties ? 1.2 : 1.0;
    options.log_probability_count = REQUEST_TOP;
    options.stop_tokens = &end_token;
    options.stop_token_count = 1;
    return options;
}

struct sluice_request *request_submit(struct sluice_engine *engine, const struct planned_request *planned,
                                      int priority) {
    struct sluice_request_options options = request_options(planned);
    struct sluice_request *request;
    options.priority = priority;
    EXPECT_OK(sluice_engine_submit(engine, &options, &request));
    return request;
}

void request_collect(struct sluice_request *request, struct answer *out) {
    struct sluice_request_state state = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
    assert_int_equal(state.phase, SLUICE_REQUEST_FINISHED);
    memset(out, 0, sizeof *out);
    out->count = state.token_count;
    out->reason = state.finish_reason;
    for (size_t i = 0; i < state.token_count; i++) {
        out->tokens[i] = sluice_request_token(request, i);
        EXPECT_OK(sluice_request_log_probabilities(request, i, &out->chosen[i], out->top[i]));
    }
}

struct sluice_engine_options request_engine_options(void) {
    struct sluice_engine_options options = sluice_engine_options_default();
    options.model_directory = SLUICE_SOURCE_DIR "/models/mini-v4";
    options.context_tokens = REQUEST_CONTEXT;
    return options;
}

int request_fixture_set_up(void **state) {
    struct request_fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->random = 20261129;
    plan_requests(fixture);
    struct sluice_engine_options options = request_engine_options();
    struct sluice_engine *engine;
    options.has_prefix_cache = false;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    for (int i = 0; i < REQUESTS; i++) {
        struct sluice_request *request = request_submit(engine, &fixture->requests[i], 0);
        request_collect(request, &fixture->alone[i]);
        assert_true(fixture->alone[i].count > 0);
        sluice_request_release(&request);
    }
    sluice_engine_close(&engine);
    *state = fixture;
    return 0;
}

int request_fixture_tear_down(void **state) {
    struct request_fixture *fixture = *state;
    for (int i = 0; i < REQUESTS; i++) {
        free(fixture->requests[i].prompt);
    }
    free(fixture);
    return 0;
}

void request_expect_answer(const struct request_fixture *fixture, int index, const struct answer *actual,
                           const char *what) {
    const struct answer *expected = &fixture->alone[index];
    for (size_t i = 0; i < expected->count && i < actual->count; i++) {
        if (actual->tokens[i] != expected->tokens[i]) {
            fail_msg("%s: request %d (prompt of %zu) differs from token %zu on", what, index,
                     fixture->requests[index].prompt_count, i);
        }
    }
    if (memcmp(actual, expected, sizeof *actual) != 0) {
        fail_msg("%s: request %d ends otherwise, or its log-probabilities differ", what, index);
    }
}

void request_expect_same(const struct request_fixture *fixture, int index, struct sluice_request *request,
                         const char *what) {
    static struct answer actual;
    request_collect(request, &actual);
    request_expect_answer(fixture, index, &actual, what);
}
