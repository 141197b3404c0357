/* A session: a slot, a position, and the logits after the last token. */
#include "sluice/session.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine_internal.h"

struct sluice_session {
    struct sluice_engine *engine;
    int32_t slot;
    int64_t length;
    bool has_chosen;            /* tokens appended from now on are output */
    float *logits;              /* [vocabulary] after the last token */
    float *traced_logits;       /* [chunk_tokens, vocabulary] during a traced append */
    int32_t *row_numbers;       /* [chunk_tokens]: 0, 1, 2, ... */
    struct token_counts counts; /* for the penalties */
};

static enum status take_slot(struct sluice_engine *engine, int32_t *slot) {
    for (int i = 0; i < engine->options.session_count; i++) {
        if (!engine->slot_is_used[i]) {
            engine->slot_is_used[i] = true;
            *slot = i;
            return STATUS_OK;
        }
    }
    FAIL(STATUS_CONTEXT_FULL, "all %d sessions of the engine are in use", engine->options.session_count);
}

static enum status create(struct sluice_engine *engine, struct sluice_session **out) {
    enum status status = STATUS_OK;
    struct sluice_session *session = calloc(1, sizeof *session);
    CHECK_MEMORY(session);
    session->engine = engine;
    session->slot = -1;
    size_t vocabulary = (size_t)engine->model->vocabulary_size;
    size_t chunk = (size_t)engine->options.chunk_tokens;
    session->logits = calloc(vocabulary, sizeof *session->logits);
    session->row_numbers = calloc(chunk, sizeof *session->row_numbers);
    CHECK_MEMORY_GOTO(session->logits);
    CHECK_MEMORY_GOTO(session->row_numbers);
    for (size_t i = 0; i < chunk; i++) {
        session->row_numbers[i] = (int32_t)i;
    }
    TRY_GOTO(token_counts_init(&session->counts, vocabulary));
    TRY_GOTO(take_slot(engine, &session->slot));
    *out = session;
    return STATUS_OK;
fail:
    sluice_session_destroy(&session);
    return status;
}

enum sluice_status sluice_session_create(struct sluice_engine *engine, struct sluice_session **out) {
    *out = NULL;
    return (enum sluice_status)create(engine, out);
}

void sluice_session_destroy(struct sluice_session **session_pointer) {
    struct sluice_session *session = *session_pointer;
    if (session == NULL) {
        return;
    }
    if (session->slot >= 0) {
        session->engine->slot_is_used[session->slot] = false;
    }
    token_counts_deinit(&session->counts);
    free(session->logits);
    free(session->traced_logits);
    free(session->row_numbers);
    free(session);
    *session_pointer = NULL;
}

static enum status check_tokens(const struct sluice_session *session, const int32_t *tokens, size_t count) {
    int64_t vocabulary = session->engine->model->vocabulary_size;
    int64_t context = session->engine->options.context_tokens;
    CHECK(count <= (size_t)(context - session->length), STATUS_CONTEXT_FULL,
          "%zu tokens more do not fit the context of %lld tokens, which holds %lld", count,
          (long long)context, (long long)session->length);
    for (size_t i = 0; i < count; i++) {
        CHECK(tokens[i] >= 0 && tokens[i] < vocabulary, STATUS_OUT_OF_RANGE,
              "the token at index %zu has id %d, but the vocabulary has %lld ids", i, tokens[i],
              (long long)vocabulary);
    }
    return STATUS_OK;
}

static enum status count_tokens(struct sluice_session *session, const int32_t *tokens, size_t count) {
    if (!session->has_chosen) {
        return token_counts_add_prompt(&session->counts, tokens, count);
    }
    for (size_t i = 0; i < count; i++) {
        TRY(token_counts_add_output(&session->counts, tokens[i]));
    }
    return STATUS_OK;
}

/* One step over `count` tokens; the logits of its last row, if wanted, end up in session->logits. */
static enum status append_chunk(struct sluice_session *session, const int32_t *tokens, int32_t count,
                                bool is_last) {
    struct step_segment segment = {session->slot, (int32_t)session->length, count, tokens};
    int32_t last_row = count - 1;
    struct step_plan plan = {.segments = &segment,
                             .segment_count = 1,
                             .logit_rows = &last_row,
                             .logit_row_count = is_last ? 1 : 0};
    TRY(executor_run(session->engine->executor, &plan, session->logits));
    session->length += count;
    return STATUS_OK;
}

static void report(const struct sluice_progress *progress, size_t done, size_t total) {
    if (progress != NULL) {
        progress->report(progress->context, done, total);
    }
}

static enum status append(struct sluice_session *session, const int32_t *tokens, size_t count,
                          const struct sluice_progress *progress) {
    TRY(check_tokens(session, tokens, count));
    TRY(count_tokens(session, tokens, count));
    size_t chunk = (size_t)session->engine->options.chunk_tokens;
    for (size_t first = 0; first < count; first += chunk) {
        size_t rows = count - first < chunk ? count - first : chunk;
        TRY(append_chunk(session, tokens + first, (int32_t)rows, first + rows == count));
        report(progress, first + rows, count);
    }
    return STATUS_OK;
}

enum sluice_status sluice_session_append(struct sluice_session *session, const int32_t *tokens, size_t count,
                                         const struct sluice_progress *progress) {
    return (enum sluice_status)append(session, tokens, count, progress);
}

/* Hands `rows` rows of traced logits to the sink. */
static enum status hand_out(const struct sluice_session *session, const struct sluice_logits_sink *sink,
                            int64_t first_position, int32_t rows, bool is_draft) {
    int64_t vocabulary = session->engine->model->vocabulary_size;
    for (int32_t i = 0; i < rows; i++) {
        enum sluice_status status =
            sink->take(sink->context, first_position + i, is_draft, session->traced_logits + i * vocabulary);
        CHECK(status == SLUICE_OK, (enum status)status, "the receiver of logits stopped at position %lld",
              (long long)(first_position + i));
    }
    return STATUS_OK;
}

/*
 * The draft rows of a chunk: all of its rows whose next token is known, as many at a time as a draft pass
 * with logits may have.
 */
static enum status trace_draft(struct sluice_session *session, const int32_t *next_tokens, int32_t rows,
                               const struct sluice_logits_sink *sink) {
    int32_t limit = session->engine->options.session_count;
    for (int32_t first = 0; first < rows; first += limit) {
        struct step_segment segment = {session->slot, (int32_t)session->length + first,
                                       rows - first < limit ? rows - first : limit, next_tokens + first};
        struct draft_plan plan = {.segments = &segment,
                                  .segment_count = 1,
                                  .source = DRAFT_SOURCE_STEP,
                                  .source_rows = session->row_numbers + first};
        TRY(executor_run_draft(session->engine->executor, &plan, session->traced_logits));
        TRY(hand_out(session, sink, segment.first_position, segment.row_count, true));
    }
    return STATUS_OK;
}

static enum status trace_chunk(struct sluice_session *session, const int32_t *tokens, int32_t rows,
                               bool has_next, const struct sluice_logits_sink *sink) {
    int64_t vocabulary = session->engine->model->vocabulary_size;
    struct step_segment segment = {session->slot, (int32_t)session->length, rows, tokens};
    struct step_plan plan = {.segments = &segment,
                             .segment_count = 1,
                             .logit_rows = session->row_numbers,
                             .logit_row_count = rows};
    TRY(executor_run(session->engine->executor, &plan, session->traced_logits));
    memcpy(session->logits, session->traced_logits + (rows - 1) * vocabulary,
           (size_t)vocabulary * sizeof *session->logits);
    TRY(hand_out(session, sink, session->length, rows, false));
    int32_t draft_rows = has_next ? rows : rows - 1;
    if (sink->wants_draft && draft_rows > 0) {
        TRY(trace_draft(session, tokens + 1, draft_rows, sink));
    }
    session->length += rows;
    return STATUS_OK;
}

static enum status append_traced(struct sluice_session *session, const int32_t *tokens, size_t count,
                                 const struct sluice_logits_sink *sink,
                                 const struct sluice_progress *progress) {
    size_t chunk = (size_t)session->engine->options.chunk_tokens;
    size_t vocabulary = (size_t)session->engine->model->vocabulary_size;
    CHECK(!sink->wants_draft || session->engine->options.draft_limit > 0, STATUS_BAD_ARGUMENT,
          "the MTP layer's logits need an engine with draft_limit above 0");
    CHECK(!sink->wants_draft || session->length == 0, STATUS_BAD_ARGUMENT,
          "the MTP layer's logits need an empty session");
    TRY(check_tokens(session, tokens, count));
    TRY(count_tokens(session, tokens, count));
    if (session->traced_logits == NULL) {
        session->traced_logits = calloc(chunk * vocabulary, sizeof *session->traced_logits);
        CHECK_MEMORY(session->traced_logits);
    }
    for (size_t first = 0; first < count; first += chunk) {
        size_t rows = count - first < chunk ? count - first : chunk;
        TRY(trace_chunk(session, tokens + first, (int32_t)rows, first + rows < count, sink));
        report(progress, first + rows, count);
    }
    return STATUS_OK;
}

enum sluice_status sluice_session_append_traced(struct sluice_session *session, const int32_t *tokens,
                                                size_t count, const struct sluice_logits_sink *sink,
                                                const struct sluice_progress *progress) {
    return (enum sluice_status)append_traced(session, tokens, count, sink, progress);
}

size_t sluice_session_length(const struct sluice_session *session) {
    return (size_t)session->length;
}

const float *sluice_session_logits(const struct sluice_session *session) {
    return session->length == 0 ? NULL : session->logits;
}

static enum status choose(struct sluice_session *session, const struct sluice_sampling *sampling,
                          int32_t *token) {
    CHECK(session->length > 0, STATUS_BAD_ARGUMENT, "a session without tokens has no next token");
    TRY(sampler_check(sampling, (size_t)session->engine->model->vocabulary_size));
    TRY(sampler_choose_token(session->engine->sampler, sampling, &session->counts, NULL, session->logits, 0,
                             (uint32_t)session->length, NOISE_PURPOSE_TOKEN, token));
    session->has_chosen = true;
    return STATUS_OK;
}

enum sluice_status sluice_session_choose(struct sluice_session *session,
                                         const struct sluice_sampling *sampling, int32_t *token) {
    return (enum sluice_status)choose(session, sampling, token);
}

static enum status log_probabilities(const struct sluice_session *session, int32_t token, size_t top_count,
                                     struct sluice_log_probability *chosen,
                                     struct sluice_log_probability *top) {
    struct token_log_probability of_token;
    struct token_log_probability best[SAMPLER_TOP_MAX];
    CHECK(session->length > 0, STATUS_BAD_ARGUMENT, "a session without tokens has no next token");
    CHECK(top_count <= SAMPLER_TOP_MAX, STATUS_OUT_OF_RANGE,
          "%zu log-probabilities were asked for, at most %d", top_count, SAMPLER_TOP_MAX);
    TRY(sampler_log_probabilities(session->logits, (size_t)session->engine->model->vocabulary_size, token,
                                  top_count, &of_token, best));
    *chosen = (struct sluice_log_probability){of_token.token, of_token.log_probability};
    for (size_t i = 0; i < top_count; i++) {
        top[i] = (struct sluice_log_probability){best[i].token, best[i].log_probability};
    }
    return STATUS_OK;
}

enum sluice_status sluice_session_log_probabilities(const struct sluice_session *session, int32_t token,
                                                    size_t top_count, struct sluice_log_probability *chosen,
                                                    struct sluice_log_probability *top) {
    return (enum sluice_status)log_probabilities(session, token, top_count, chosen, top);
}
