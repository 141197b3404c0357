/* Requests as callers see them: submitted, waited for, cancelled, given up. */
#include "sluice/request.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/condition.h"
#include "engine/engine_internal.h"

static enum status submit(struct sluice_engine *engine, const struct sluice_request_options *options,
                          struct sluice_request **out) {
    struct sluice_request *request = calloc(1, sizeof *request);
    CHECK_MEMORY(request);
    request->notify = options->notify;
    request->notify_context = options->notify_context;
    request->state.message = "";
    enum status status =
        sequence_init(&request->sequence, options, &engine->replicas[0].bounds, clock_seconds());
    if (status == STATUS_OK) {
        status = condition_init(&request->changed);
    }
    if (status != STATUS_OK) {
        sequence_deinit(&request->sequence);
        free(request);
        return error_forward(status, ERROR_HERE);
    }
    struct engine_replica *replica = engine_routing_choose(engine, options);
    request->replica = replica;
    pthread_mutex_lock(&replica->mutex);
    if (replica->last_submitted == NULL) {
        replica->first_submitted = request;
    } else {
        replica->last_submitted->next_submitted = request;
    }
    replica->last_submitted = request;
    pthread_cond_signal(&replica->wanted);
    pthread_mutex_unlock(&replica->mutex);
    *out = request;
    return STATUS_OK;
}

enum sluice_status sluice_engine_submit(struct sluice_engine *engine,
                                        const struct sluice_request_options *options,
                                        struct sluice_request **out) {
    *out = NULL;
    return (enum sluice_status)submit(engine, options, out);
}

static bool is_worth_waking(const struct sluice_request_state *state, size_t seen_tokens,
                            size_t seen_prompt_tokens) {
    return state->phase == SLUICE_REQUEST_FINISHED || state->token_count > seen_tokens ||
           state->prompt_tokens_done > seen_prompt_tokens;
}

struct sluice_request_state sluice_request_wait(struct sluice_request *request, size_t seen_tokens,
                                                size_t seen_prompt_tokens, double timeout_seconds) {
    pthread_mutex_t *mutex = &request->replica->mutex;
    double end = clock_seconds() + timeout_seconds;
    bool is_in_time = true;
    pthread_mutex_lock(mutex);
    while (is_in_time && !is_worth_waking(&request->state, seen_tokens, seen_prompt_tokens)) {
        if (timeout_seconds < 0.0) {
            pthread_cond_wait(&request->changed, mutex);
        } else {
            is_in_time = condition_wait_until(&request->changed, mutex, end);
        }
    }
    struct sluice_request_state state = request->state;
    pthread_mutex_unlock(mutex);
    return state;
}

struct sluice_request_state sluice_request_state(struct sluice_request *request) {
    pthread_mutex_lock(&request->replica->mutex);
    struct sluice_request_state state = request->state;
    pthread_mutex_unlock(&request->replica->mutex);
    return state;
}

int32_t sluice_request_token(const struct sluice_request *request, size_t index) {
    return request->sequence.tokens[(size_t)request->sequence.prompt_count + index];
}

/* A token's own log-probability, then those of the `count` likeliest. */
static void read_record(const struct sluice_log_probability *record, int32_t count,
                        struct sluice_log_probability *chosen, struct sluice_log_probability *top) {
    *chosen = record[0];
    for (int32_t i = 0; i < count && top != NULL; i++) {
        top[i] = record[1 + i];
    }
}

static enum status log_probabilities(const struct sluice_request *request, size_t index,
                                     struct sluice_log_probability *chosen,
                                     struct sluice_log_probability *top) {
    int32_t count = request->sequence.rules.log_probability_count;
    CHECK(count >= 0, STATUS_BAD_ARGUMENT,
          "the request records no log-probabilities: set log_probability_count");
    read_record(request->sequence.rules.log_probabilities + index * (size_t)(1 + count), count, chosen, top);
    return STATUS_OK;
}

enum sluice_status sluice_request_log_probabilities(const struct sluice_request *request, size_t index,
                                                    struct sluice_log_probability *chosen,
                                                    struct sluice_log_probability *top) {
    return (enum sluice_status)log_probabilities(request, index, chosen, top);
}

static enum status prompt_log_probabilities(const struct sluice_request *request, size_t index,
                                            struct sluice_log_probability *chosen,
                                            struct sluice_log_probability *top) {
    const struct sequence *sequence = &request->sequence;
    int32_t count = sequence->rules.prompt_log_probability_count;
    CHECK(count >= 0, STATUS_BAD_ARGUMENT,
          "the request records no log-probabilities of its prompt: set prompt_log_probability_count");
    CHECK(index >= 1 && index < (size_t)sequence->prompt_count, STATUS_BAD_ARGUMENT,
          "prompt token %zu has no log-probability: tokens 1 to %d of the prompt have one", index,
          sequence->prompt_count - 1);
    read_record(sequence->rules.prompt_log_probabilities + (index - 1) * (size_t)(1 + count), count, chosen,
                top);
    return STATUS_OK;
}

enum sluice_status sluice_request_prompt_log_probabilities(const struct sluice_request *request, size_t index,
                                                           struct sluice_log_probability *chosen,
                                                           struct sluice_log_probability *top) {
    return (enum sluice_status)prompt_log_probabilities(request, index, chosen, top);
}

/* The mutex is held. */
static void ask_for_end(struct sluice_request *request) {
    request->is_cancelled = true;
    request->replica->has_cancellations = true;
    pthread_cond_signal(&request->replica->wanted);
}

void sluice_request_cancel(struct sluice_request *request) {
    pthread_mutex_lock(&request->replica->mutex);
    ask_for_end(request);
    pthread_mutex_unlock(&request->replica->mutex);
}

void sluice_request_release(struct sluice_request **request_pointer) {
    struct sluice_request *request = *request_pointer;
    *request_pointer = NULL;
    if (request == NULL) {
        return;
    }
    pthread_mutex_t *mutex = &request->replica->mutex;
    pthread_mutex_lock(mutex);
    bool is_finished = request->state.phase == SLUICE_REQUEST_FINISHED;
    if (!is_finished) {
        /* The replica's thread frees it when the scheduler has let go of it. */
        request->is_released = true;
        request->notify = NULL;
        ask_for_end(request);
    }
    pthread_mutex_unlock(mutex);
    if (is_finished) {
        engine_request_free(request);
    }
}
