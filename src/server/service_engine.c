/* Requests of the engine as generations: what was not taken yet is what the next take gives. */
#include "server/service_engine.h"

#include <stdlib.h>
#include <string.h>

#include "sluice/request.h"

struct engine_service {
    struct service service;
    struct sluice_engine *engine;
};

/* Tokens that were handed out with the last take. */
struct token_lump {
    struct service_token *tokens;       /* [capacity] */
    struct sluice_log_probability *top; /* [capacity][likeliest tokens of each] */
    size_t capacity;
};

struct engine_generation {
    struct generation generation;
    struct sluice_request *request;
    int top_count; /* likeliest tokens that are recorded with each; -1: nothing is recorded */
    size_t taken_count;
    struct token_lump lump;
    int prompt_top_count; /* the same of the prompt */
    int32_t *prompt;      /* its tokens until they are handed out; NULL: nothing of it is */
    size_t prompt_count;
    struct token_lump prompt_lump;
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
    return STATUS_OK;
}

static void lump_deinit(struct token_lump *lump) {
    free(lump->tokens);
    free(lump->top);
}

static void generation_free(struct engine_generation *generation) {
    lump_deinit(&generation->lump);
    lump_deinit(&generation->prompt_lump);
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

static enum status submit(struct service *service, const struct service_request *request,
                          struct generation **out) {
    TRY(check_rules(request));
    struct engine_generation *generation = calloc(1, sizeof *generation);
    CHECK_MEMORY(generation);
    struct sluice_request_options options = request->options;
    options.notify = request->notify;
    options.notify_context = request->notify_context;
    generation->generation.service = service;
    generation->top_count = options.log_probability_count;
    enum status status = keep_prompt(generation, &options);
    if (status == STATUS_OK) {
        status = (enum status)sluice_engine_submit(engine_of(service), &options, &generation->request);
    }
    if (status != STATUS_OK) {
        generation_free(generation);
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

static void take(struct generation *handle, struct service_update *out) {
    struct engine_generation *generation = own(handle);
    *out = (struct service_update){.state = sluice_request_state(generation->request)};
    if (!take_prompt(generation, out) || !take_tokens(generation, out)) {
        sluice_request_cancel(generation->request);
        out->state.phase = SLUICE_REQUEST_FINISHED;
        out->state.finish_reason = SLUICE_FINISH_ERROR;
        out->state.status = SLUICE_OUT_OF_MEMORY;
        out->state.message = "out of memory for the answer's tokens";
        out->state.token_count = generation->taken_count;
    }
}

static void cancel(struct generation *generation) {
    sluice_request_cancel(own(generation)->request);
}

static void release(struct generation **handle) {
    struct engine_generation *generation = own(*handle);
    *handle = NULL;
    sluice_request_release(&generation->request);
    generation_free(generation);
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
