/* Requests of the engine as generations: what was not taken yet is what the next take gives. */
#include "server/service_engine.h"

#include <stdlib.h>

#include "sluice/request.h"

struct engine_service {
    struct service service;
    struct sluice_engine *engine;
};

struct engine_generation {
    struct generation generation;
    struct sluice_request *request;
    size_t top_count; /* likeliest tokens of each, 0 if nothing is recorded */
    bool has_log_probabilities;
    size_t taken_count;
    struct service_token *tokens;       /* [capacity] of the last take */
    struct sluice_log_probability *top; /* [capacity][top_count] */
    size_t capacity;
};

static struct sluice_engine *engine_of(const struct service *service) {
    return ((const struct engine_service *)(const void *)service)->engine;
}

static struct engine_generation *own(struct generation *generation) {
    return (struct engine_generation *)(void *)generation;
}

static enum status check_rules(const struct service_request *request) {
    const struct service_rules *rules = &request->rules;
    CHECK(rules->grammar == SERVICE_GRAMMAR_NONE, STATUS_UNSUPPORTED,
          "structured output is not supported by this server: leave the request's format free");
    CHECK(rules->stop_count == 0 && rules->min_tokens == 0 && rules->allowed_token_count == 0 &&
              rules->bad_word_count == 0,
          STATUS_UNSUPPORTED,
          "stop strings, min_tokens, allowed_token_ids and bad_words are not supported by this server: leave "
          "them out");
    CHECK(request->prompt_log_probability_count < 0, STATUS_UNSUPPORTED,
          "log-probabilities of the prompt are not supported by this server: leave prompt_logprobs out");
    return STATUS_OK;
}

static enum status submit(struct service *service, const struct service_request *request,
                          struct generation **out) {
    TRY(check_rules(request));
    struct engine_generation *generation = calloc(1, sizeof *generation);
    CHECK_MEMORY(generation);
    struct sluice_request_options options = request->options;
    options.notify = request->notify;
    options.notify_context = request->notify_context;
    generation->generation.service = service;
    generation->has_log_probabilities = options.log_probability_count >= 0;
    generation->top_count = generation->has_log_probabilities ? (size_t)options.log_probability_count : 0;
    enum status status =
        (enum status)sluice_engine_submit(engine_of(service), &options, &generation->request);
    if (status != STATUS_OK) {
        free(generation);
        return error_forward(status, ERROR_HERE);
    }
    *out = &generation->generation;
    return STATUS_OK;
}

static bool reserve(struct engine_generation *generation, size_t count) {
    if (count > generation->capacity) {
        free(generation->tokens);
        free(generation->top);
        generation->capacity = 0;
        generation->tokens = calloc(count, sizeof *generation->tokens);
        generation->top = calloc(count * generation->top_count + 1, sizeof *generation->top);
        if (generation->tokens == NULL || generation->top == NULL) {
            return false;
        }
        generation->capacity = count;
    }
    return true;
}

static void fill(struct engine_generation *generation, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct service_token *token = &generation->tokens[i];
        struct sluice_log_probability *top = generation->top + i * generation->top_count;
        size_t index = generation->taken_count + i;
        *token = (struct service_token){.id = sluice_request_token(generation->request, index)};
        if (generation->has_log_probabilities) {
            sluice_request_log_probabilities(generation->request, index, &token->chosen, top);
            token->top = top;
            token->top_count = generation->top_count;
        }
    }
}

static void take(struct generation *handle, struct service_update *out) {
    struct engine_generation *generation = own(handle);
    *out = (struct service_update){.state = sluice_request_state(generation->request)};
    size_t count = out->state.token_count - generation->taken_count;
    if (!reserve(generation, count)) {
        sluice_request_cancel(generation->request);
        out->state.phase = SLUICE_REQUEST_FINISHED;
        out->state.finish_reason = SLUICE_FINISH_ERROR;
        out->state.status = SLUICE_OUT_OF_MEMORY;
        out->state.message = "out of memory for the answer's tokens";
        out->state.token_count = generation->taken_count;
        return;
    }
    fill(generation, count);
    generation->taken_count += count;
    out->tokens = generation->tokens;
    out->token_count = count;
}

static void cancel(struct generation *generation) {
    sluice_request_cancel(own(generation)->request);
}

static void release(struct generation **handle) {
    struct engine_generation *generation = own(*handle);
    *handle = NULL;
    sluice_request_release(&generation->request);
    free(generation->tokens);
    free(generation->top);
    free(generation);
}

static bool is_ready(struct service *service, const char **why) {
    (void)service;
    *why = "";
    return true;
}

static struct sluice_engine_facts facts(struct service *service) {
    return sluice_engine_facts(engine_of(service));
}

static void stats(struct service *service, struct service_stats *out) {
    *out = (struct service_stats){
        .engine = sluice_engine_stats(engine_of(service)), .worker_count = 1, .ready_count = 1};
}

static enum status clear_prefix_cache(struct service *service) {
    return (enum status)sluice_engine_clear_prefix_cache(engine_of(service));
}

static void close_service(struct service **handle) {
    struct engine_service *service = (struct engine_service *)(void *)*handle;
    *handle = NULL;
    sluice_engine_close(&service->engine);
    free(service);
}

enum status service_engine_open(const struct sluice_engine_options *options, struct service **out) {
    static const struct service_kind kind = {
        .submit = submit,
        .take = take,
        .cancel = cancel,
        .release = release,
        .is_ready = is_ready,
        .facts = facts,
        .stats = stats,
        .clear_prefix_cache = clear_prefix_cache,
        .close = close_service,
    };
    struct engine_service *service = calloc(1, sizeof *service);
    CHECK_MEMORY(service);
    service->service.kind = &kind;
    enum status status = (enum status)sluice_engine_open(options, &service->engine);
    if (status != STATUS_OK) {
        free(service);
        return error_forward(status, ERROR_HERE);
    }
    *out = &service->service;
    return STATUS_OK;
}
