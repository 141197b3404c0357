/* Requests of the engine as generations: what was not taken yet is what the next take gives. */
#include "server/service_engine.h"

#include <stdlib.h>
#include <string.h>

#include "server/service_engine_internal.h"
#include "sluice/request.h"

static struct engine_service *service_of(struct service *service) {
    return (struct engine_service *)(void *)service;
}

static struct engine_generation *own(struct generation *generation) {
    return (struct engine_generation *)(void *)generation;
}

static void lump_deinit(struct token_lump *lump) {
    free(lump->tokens);
    free(lump->top);
}

void service_engine_free_generation(struct engine_generation *generation) {
    lump_deinit(&generation->lump);
    lump_deinit(&generation->prompt_lump);
    string_buffer_deinit(&generation->wait.record);
    free(generation->prompt);
    free(generation);
}

/* The engine does not give a prompt's tokens back. */
static enum status keep_prompt(struct engine_generation *generation,
                               const struct sluice_request_options *options) {
    generation->prompt_top_count = options->prompt_log_probability_count;
    generation->prompt_count = options->prompt_count;
    if (options->prompt_log_probability_count >= 0 && options->prompt_count > 0) {
        generation->prompt = malloc(options->prompt_count * sizeof *generation->prompt);
        CHECK_MEMORY(generation->prompt);
        memcpy(generation->prompt, options->prompt, options->prompt_count * sizeof *generation->prompt);
    }
    return STATUS_OK;
}

enum status service_engine_submit_now(struct engine_service *service, const struct service_request *request,
                                      struct sluice_request **out) {
    struct sluice_request_options options = request->options;
    options.notify = request->notify;
    options.notify_context = request->notify_context;
    options.constraint = (struct sluice_constraint){0};
    if (rule_book_has_rules(&request->rules)) {
        bool is_done;
        TRY(rule_book_apply(service->book, request, RULE_EFFORT_ALL, &options.constraint, &is_done));
    }
    enum status status = (enum status)sluice_engine_submit(service->engine, &options, out);
    if (status != STATUS_OK && options.constraint.release != NULL) {
        options.constraint.release(options.constraint.context);
    }
    return status;
}

static enum status submit(struct service *service, const struct service_request *request,
                          struct generation **out) {
    struct engine_generation *generation = calloc(1, sizeof *generation);
    CHECK_MEMORY(generation);
    generation->generation.service = service;
    generation->top_count = request->options.log_probability_count;
    enum status status = keep_prompt(generation, &request->options);
    if (status == STATUS_OK && rule_book_is_slow(&request->rules)) {
        status = service_engine_submit_later(service_of(service), request, generation);
    } else if (status == STATUS_OK) {
        status = service_engine_submit_now(service_of(service), request, &generation->request);
    }
    if (status != STATUS_OK) {
        service_engine_free_generation(generation);
        return error_forward(status, ERROR_HERE);
    }
    *out = &generation->generation;
    return STATUS_OK;
}

static bool lump_reserve(struct token_lump *lump, size_t count, int top_count) {
    if (count > lump->capacity) {
        size_t likeliest = top_count > 0 ? (size_t)top_count : 0;
        free(lump->tokens);
        free(lump->top);
        lump->capacity = 0;
        lump->tokens = calloc(count, sizeof *lump->tokens);
        lump->top = calloc(count * likeliest + 1, sizeof *lump->top);
        if (lump->tokens == NULL || lump->top == NULL) {
            return false;
        }
        lump->capacity = count;
    }
    return true;
}

static bool take_tokens(struct engine_generation *generation, struct service_update *out) {
    size_t count = out->state.token_count - generation->taken_count;
    int top_count = generation->top_count;
    if (!lump_reserve(&generation->lump, count, top_count)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct service_token *token = &generation->lump.tokens[i];
        size_t index = generation->taken_count + i;
        *token = (struct service_token){.id = sluice_request_token(generation->request, index)};
        if (top_count >= 0) {
            struct sluice_log_probability *top = generation->lump.top + i * (size_t)top_count;
            sluice_request_log_probabilities(generation->request, index, &token->chosen, top);
            token->top = top;
            token->top_count = (size_t)top_count;
        }
    }
    generation->taken_count += count;
    out->tokens = generation->lump.tokens;
    out->token_count = count;
    return true;
}

/* Once all of the prompt has been read; a request that is over does not say so by its progress. */
static bool take_prompt(struct engine_generation *generation, struct service_update *out) {
    size_t count = generation->prompt_count;
    size_t top_count = (size_t)generation->prompt_top_count;
    bool is_read = out->state.token_count > 0 || out->state.prompt_tokens_done == count;
    if (generation->prompt == NULL || !is_read) {
        return true;
    }
    if (!lump_reserve(&generation->prompt_lump, count, generation->prompt_top_count)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct service_token *token = &generation->prompt_lump.tokens[i];
        *token = (struct service_token){.id = generation->prompt[i]};
        if (i > 0) {
            struct sluice_log_probability *top = generation->prompt_lump.top + i * top_count;
            sluice_request_prompt_log_probabilities(generation->request, i, &token->chosen, top);
            token->top = top;
            token->top_count = top_count;
        }
    }
    free(generation->prompt);
    generation->prompt = NULL;
    out->prompt_tokens = generation->prompt_lump.tokens;
    out->prompt_token_count = count;
    return true;
}

/* The request; NULL while the grammar is being compiled, and if that failed. */
static struct sluice_request *request_of(struct engine_generation *generation,
                                         struct sluice_request_state *instead) {
    struct engine_service *service = service_of(generation->generation.service);
    pthread_mutex_lock(&service->mutex);
    struct sluice_request *request = generation->request;
    *instead = generation->ended;
    pthread_mutex_unlock(&service->mutex);
    instead->message = generation->message;
    return request;
}

static void take(struct generation *handle, struct service_update *out) {
    struct engine_generation *generation = own(handle);
    *out = (struct service_update){0};
    struct sluice_request *request = request_of(generation, &out->state);
    if (request == NULL) {
        return;
    }
    out->state = sluice_request_state(request);
    if (!take_prompt(generation, out) || !take_tokens(generation, out)) {
        sluice_request_cancel(request);
        out->state.phase = SLUICE_REQUEST_FINISHED;
        out->state.finish_reason = SLUICE_FINISH_ERROR;
        out->state.status = SLUICE_OUT_OF_MEMORY;
        out->state.message = "out of memory for the answer's tokens";
        out->state.token_count = generation->taken_count;
    }
}

static void cancel(struct generation *handle) {
    struct engine_generation *generation = own(handle);
    struct engine_service *service = service_of(handle->service);
    pthread_mutex_lock(&service->mutex);
    generation->wait.is_cancelled = true;
    struct sluice_request *request = generation->request;
    pthread_mutex_unlock(&service->mutex);
    if (request != NULL) {
        sluice_request_cancel(request);
    }
}

static void release(struct generation **handle) {
    struct engine_generation *generation = own(*handle);
    struct engine_service *service = service_of((*handle)->service);
    *handle = NULL;
    pthread_mutex_lock(&service->mutex);
    generation->wait.is_released = true;
    bool is_waiting = generation->wait.is_waiting;
    pthread_mutex_unlock(&service->mutex);
    if (!is_waiting) {
        sluice_request_release(&generation->request);
        service_engine_free_generation(generation);
    }
}

static bool is_ready(struct service *service, const char **why) {
    bool is_lost = sluice_engine_is_lost(service_of(service)->engine);
    *why = is_lost ? "a rank of the engine is lost" : "";
    return !is_lost;
}

static struct sluice_engine_facts facts(struct service *service) {
    return sluice_engine_facts(service_of(service)->engine);
}

static void stats(struct service *service, struct service_stats *out) {
    *out = (struct service_stats){
        .engine = sluice_engine_stats(service_of(service)->engine), .worker_count = 1, .ready_count = 1};
}

static enum status clear_prefix_cache(struct service *service) {
    pthread_mutex_lock(&service_of(service)->mutex);
    service_of(service)->is_clearing = true;
    pthread_cond_signal(&service_of(service)->lanes[COMPILE_LANE_QUICK].wanted);
    pthread_mutex_unlock(&service_of(service)->mutex);
    return STATUS_OK;
}

static void close_service(struct service **handle) {
    struct engine_service *service = service_of(*handle);
    *handle = NULL;
    service_engine_stop_threads(service);
    sluice_engine_close(&service->engine);
    rule_book_close(&service->book);
    free(service);
}

static enum status open_parts(struct engine_service *service, const struct sluice_engine_options *options) {
    TRY((enum status)sluice_engine_open(options, &service->engine));
    int64_t vocabulary_size = sluice_engine_facts(service->engine).vocabulary_size;
    TRY(rule_book_open(options->model_directory, vocabulary_size, &service->book));
    return service_engine_start_threads(service);
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
    enum status status = open_parts(service, options);
    if (status != STATUS_OK) {
        sluice_engine_close(&service->engine);
        rule_book_close(&service->book);
        free(service);
        return error_forward(status, ERROR_HERE);
    }
    *out = &service->service;
    return STATUS_OK;
}
