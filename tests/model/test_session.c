/*
 * Sessions at their limits: what does not fit is refused and changes nothing, and tracing gives what plain
 * appending gives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/model_fixture.h"
#include "weights/fixture.h"

enum { CONTEXT = 24, CHUNK = 7 };

struct fixture {
    char directory[FIXTURE_PATH_BYTES];
    struct sluice_engine *engine; /* two sessions of CONTEXT tokens, no drafting */
    int32_t tokens[CONTEXT];
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture_make(fixture->directory);
    model_synthesise(fixture->directory, TINY_CONFIG, NULL, 0);
    struct sluice_engine_options options = model_options(fixture->directory);
    options.context_tokens = CONTEXT;
    options.chunk_tokens = CHUNK;
    options.session_count = 2;
    fixture->engine = model_open(&options);
    model_spec_tokens(fixture->tokens, CONTEXT);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    sluice_engine_close(&fixture->engine);
    fixture_remove(fixture->directory);
    free(fixture);
    return 0;
}

static enum status append(struct sluice_session *session, const int32_t *tokens, size_t count) {
    return (enum status)sluice_session_append(session, tokens, count, NULL);
}

/* A refused append leaves length and logits as they were. */
static void test_refused_tokens(void **state) {
    const struct fixture *fixture = *state;
    const int32_t too_high[] = {1, 2, TINY_VOCABULARY};
    const int32_t negative = -1;
    struct sluice_session *session;
    float logits[TINY_VOCABULARY];
    EXPECT_OK(sluice_session_create(fixture->engine, &session));
    assert_null(sluice_session_logits(session));
    EXPECT_OK(append(session, fixture->tokens, 10));
    memcpy(logits, sluice_session_logits(session), sizeof logits);
    fixture_expect_error(append(session, too_high, 3), STATUS_OUT_OF_RANGE, "2 has id 512");
    fixture_expect_error(append(session, &negative, 1), STATUS_OUT_OF_RANGE, "id -1");
    fixture_expect_error(append(session, fixture->tokens, CONTEXT - 9), STATUS_CONTEXT_FULL,
                         "15 tokens more do not fit");
    assert_int_equal(sluice_session_length(session), 10);
    assert_memory_equal(sluice_session_logits(session), logits, sizeof logits);
    EXPECT_OK(append(session, fixture->tokens, CONTEXT - 10));
    fixture_expect_error(append(session, fixture->tokens, 1), STATUS_CONTEXT_FULL, "do not fit");
    EXPECT_OK(append(session, NULL, 0));
    assert_int_equal(sluice_session_length(session), CONTEXT);
    sluice_session_destroy(&session);
    assert_null(session);
}

static void test_session_count(void **state) {
    const struct fixture *fixture = *state;
    struct sluice_session *sessions[3];
    EXPECT_OK(sluice_session_create(fixture->engine, &sessions[0]));
    EXPECT_OK(sluice_session_create(fixture->engine, &sessions[1]));
    fixture_expect_error((enum status)sluice_session_create(fixture->engine, &sessions[2]),
                         STATUS_CONTEXT_FULL, "all 2 sessions");
    assert_null(sessions[2]);
    sluice_session_destroy(&sessions[0]);
    EXPECT_OK(sluice_session_create(fixture->engine, &sessions[2]));
    sluice_session_destroy(&sessions[1]);
    sluice_session_destroy(&sessions[2]);
}

static void test_empty_session(void **state) {
    const struct fixture *fixture = *state;
    struct sluice_sampling sampling = sluice_sampling_default();
    struct sluice_log_probability chosen;
    struct sluice_session *session;
    int32_t token;
    EXPECT_OK(sluice_session_create(fixture->engine, &session));
    fixture_expect_error((enum status)sluice_session_choose(session, &sampling, &token), STATUS_BAD_ARGUMENT,
                         "without tokens");
    fixture_expect_error((enum status)sluice_session_log_probabilities(session, 0, 0, &chosen, NULL),
                         STATUS_BAD_ARGUMENT, "without tokens");
    sluice_session_destroy(&session);
}

/* Rows as they arrive; stops at `stop`. */
struct trace {
    int64_t next_position;
    int64_t stop;
    float last[TINY_VOCABULARY];
};

static enum sluice_status take_row(void *context, int64_t position, bool is_draft, const float *logits) {
    struct trace *trace = context;
    assert_false(is_draft);
    assert_int_equal(position, trace->next_position);
    trace->next_position++;
    memcpy(trace->last, logits, sizeof trace->last);
    return position == trace->stop ? SLUICE_IO : SLUICE_OK;
}

static void test_traced_rows(void **state) {
    const struct fixture *fixture = *state;
    struct trace trace = {.stop = -1};
    struct sluice_logits_sink sink = {take_row, &trace, false};
    struct sluice_session *plain;
    struct sluice_session *traced;
    EXPECT_OK(sluice_session_create(fixture->engine, &plain));
    EXPECT_OK(sluice_session_create(fixture->engine, &traced));
    for (int32_t first = 0; first < CONTEXT; first += 8) {
        EXPECT_OK(append(plain, fixture->tokens + first, 8));
        EXPECT_OK(sluice_session_append_traced(traced, fixture->tokens + first, 8, &sink, NULL));
        assert_int_equal(trace.next_position, first + 8);
        assert_memory_equal(trace.last, sluice_session_logits(plain), sizeof trace.last);
        assert_memory_equal(sluice_session_logits(traced), trace.last, sizeof trace.last);
    }
    sluice_session_destroy(&plain);
    sluice_session_destroy(&traced);
}

static void test_trace_refusals(void **state) {
    const struct fixture *fixture = *state;
    struct trace trace = {.stop = 9};
    struct sluice_logits_sink sink = {take_row, &trace, true};
    struct sluice_session *session;
    EXPECT_OK(sluice_session_create(fixture->engine, &session));
    fixture_expect_error((enum status)sluice_session_append_traced(session, fixture->tokens, 10, &sink, NULL),
                         STATUS_BAD_ARGUMENT, "draft_limit above 0");
    sink.wants_draft = false;
    fixture_expect_error((enum status)sluice_session_append_traced(session, fixture->tokens, 12, &sink, NULL),
                         STATUS_IO, "stopped at position 9");
    assert_int_equal(trace.next_position, 10);
    sluice_session_destroy(&session);
}

static void count_report(void *context, size_t done, size_t total) {
    size_t *last = context;
    assert_true(done > *last && done <= total);
    assert_int_equal(total, CONTEXT);
    *last = done;
}

static void test_progress(void **state) {
    const struct fixture *fixture = *state;
    size_t last = 0;
    const struct sluice_progress progress = {count_report, &last};
    struct sluice_session *session;
    EXPECT_OK(sluice_session_create(fixture->engine, &session));
    EXPECT_OK(sluice_session_append(session, fixture->tokens, CONTEXT, &progress));
    assert_int_equal(last, CONTEXT);
    sluice_session_destroy(&session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_tokens), cmocka_unit_test(test_session_count),
        cmocka_unit_test(test_empty_session),  cmocka_unit_test(test_traced_rows),
        cmocka_unit_test(test_trace_refusals), cmocka_unit_test(test_progress),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
