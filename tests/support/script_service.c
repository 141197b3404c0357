#include "support/script_service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/clock.h"
#include "base/condition.h"

enum { REQUESTS_MAX = 512 };
static const double patience_seconds = 20.0;

struct script {
    int32_t *ids;
    size_t count;
};

struct script_service {
    struct service service; /* first */
    struct script_options options;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct script scripts[SCRIPTS_MAX];
    size_t script_count;
    struct script_request *requests;
    size_t request_count;
    struct script_generation *generations; /* live ones */
    size_t lump;
    enum status refusal, failure;
    char refusal_message[128];
    size_t failure_tokens;
};

struct script_generation {
    struct generation generation; /* first */
    struct script_generation *next;
    const struct script *script;
    const struct script_request *request;
    void (*notify)(void *context);
    void *notify_context;
    size_t given, taken; /* tokens */
    bool has_news;
    bool is_prompt_taken;
    struct sluice_request_state state;
    int32_t *stop_tokens;
    size_t stop_token_count;
    struct service_token *tokens;
    struct sluice_log_probability *tops;
};

double script_log_probability(size_t place, size_t rank) {
    return -0.125 * (double)(place % 16 + 1) - (double)rank;
}

static struct script_service *own(struct service *service) {
    return (struct script_service *)service;
}

static struct script_service *service_of(struct generation *generation) {
    return (struct script_service *)generation->service;
}

/* The arrays that take points into: `count` tokens with `top_count` alternatives each. */
static void fill_tokens(struct script_generation *generation, const int32_t *ids, size_t first, size_t count,
                        int top_count) {
    size_t width = top_count > 0 ? (size_t)top_count : 0;
    free(generation->tokens);
    free(generation->tops);
    generation->tokens = calloc(count + 1, sizeof *generation->tokens);
    generation->tops = calloc(count * width + 1, sizeof *generation->tops);
    for (size_t i = 0; i < count; i++) {
        struct service_token *token = &generation->tokens[i];
        token->id = ids[first + i];
        token->chosen = (struct sluice_log_probability){token->id, script_log_probability(first + i, 0)};
        token->top = generation->tops + i * width;
        token->top_count = width;
        for (size_t k = 0; k < width; k++) {
            generation->tops[i * width + k] =
                (struct sluice_log_probability){token->id + (int32_t)k, script_log_probability(first + i, k)};
        }
    }
}

static void copy_texts(struct string_buffer *out, const struct service_text *texts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        string_buffer_append(out, texts[i].bytes, texts[i].length);
        string_buffer_append_char(out, '\n');
    }
}

static void record(struct script_request *out, const struct service_request *request) {
    const struct service_rules *rules = &request->rules;
    *out = (struct script_request){.options = request->options,
                                   .prompt_count = request->options.prompt_count,
                                   .grammar = rules->grammar,
                                   .starts_in_reasoning = rules->starts_in_reasoning,
                                   .min_tokens = rules->min_tokens};
    out->prompt = malloc((out->prompt_count + 1) * sizeof *out->prompt);
    memcpy(out->prompt, request->options.prompt, out->prompt_count * sizeof *out->prompt);
    if (rules->grammar != SERVICE_GRAMMAR_NONE) {
        string_buffer_append(&out->grammar_text, rules->grammar_text.bytes, rules->grammar_text.length);
    }
    copy_texts(&out->stops, rules->stops, rules->stop_count);
    copy_texts(&out->bad_words, rules->bad_words, rules->bad_word_count);
    for (size_t i = 0; i < request->options.sampling.logit_bias_count; i++) {
        const struct sluice_logit_bias *bias = &request->options.sampling.logit_bias[i];
        string_buffer_append_format(&out->logit_bias, "%d=%g\n", bias->token, (double)bias->bias);
    }
    for (size_t i = 0; i < rules->allowed_token_count; i++) {
        string_buffer_append_format(&out->allowed, "%d\n", rules->allowed_tokens[i]);
    }
}

static enum status submit(struct service *service, const struct service_request *request,
                          struct generation **out) {
    struct script_service *script = own(service);
    *out = NULL;
    CHECK(request->options.prompt_count > 0, STATUS_BAD_ARGUMENT, "the prompt is empty");
    bool is_refused =
        script->refusal != STATUS_OK &&
        (script->refusal != STATUS_UNSUPPORTED ||
         (request->rules.grammar != SERVICE_GRAMMAR_NONE && !request->rules.is_grammar_optional));
    CHECK(!is_refused, script->refusal, "%s", script->refusal_message);
    struct script_generation *generation = calloc(1, sizeof *generation);
    generation->generation.service = service;
    generation->notify = request->notify;
    generation->notify_context = request->notify_context;
    generation->state.message = "";
    generation->state.cached_prompt_tokens = script->options.cached_prompt_tokens;
    generation->state.verified_drafts = script->options.verified_drafts;
    generation->state.accepted_drafts = script->options.accepted_drafts;
    generation->stop_token_count = request->options.stop_token_count;
    generation->stop_tokens =
        malloc((request->options.stop_token_count + 1) * sizeof *generation->stop_tokens);
    memcpy(generation->stop_tokens, request->options.stop_tokens,
           request->options.stop_token_count * sizeof *generation->stop_tokens);
    pthread_mutex_lock(&script->mutex);
    record(&script->requests[script->request_count], request);
    generation->request = &script->requests[script->request_count];
    generation->script = &script->scripts[script->request_count % script->script_count];
    script->request_count++;
    generation->next = script->generations;
    script->generations = generation;
    pthread_cond_broadcast(&script->changed);
    pthread_mutex_unlock(&script->mutex);
    *out = &generation->generation;
    return STATUS_OK;
}

static void take(struct generation *generation, struct service_update *out) {
    struct script_service *script = service_of(generation);
    struct script_generation *own_generation = (struct script_generation *)generation;
    pthread_mutex_lock(&script->mutex);
    const struct script_request *request = own_generation->request;
    *out = (struct service_update){.state = own_generation->state};
    size_t count = own_generation->given - own_generation->taken;
    if (count > 0 && request->options.prompt_log_probability_count >= 0 && !own_generation->is_prompt_taken) {
        /* The prompt comes by itself; the tokens with the next question. */
        own_generation->is_prompt_taken = true;
        fill_tokens(own_generation, request->prompt, 0, request->prompt_count,
                    request->options.prompt_log_probability_count);
        out->prompt_tokens = own_generation->tokens;
        out->prompt_token_count = request->prompt_count;
        out->state.phase = SLUICE_REQUEST_READING;
        own_generation->notify(own_generation->notify_context);
    } else {
        fill_tokens(own_generation, own_generation->script->ids, own_generation->taken, count,
                    request->options.log_probability_count);
        own_generation->taken = own_generation->given;
        own_generation->has_news = false;
        out->tokens = own_generation->tokens;
        out->token_count = count;
    }
    pthread_cond_broadcast(&script->changed);
    pthread_mutex_unlock(&script->mutex);
}

static void cancel(struct generation *generation) {
    struct script_service *script = service_of(generation);
    pthread_mutex_lock(&script->mutex);
    struct script_generation *own_generation = (struct script_generation *)generation;
    own_generation->state.phase = SLUICE_REQUEST_FINISHED;
    own_generation->state.finish_reason = SLUICE_FINISH_CANCELLED;
    pthread_mutex_unlock(&script->mutex);
}

static void release(struct generation **pointer) {
    struct generation *generation = *pointer;
    *pointer = NULL;
    struct script_service *script = service_of(generation);
    struct script_generation *own_generation = (struct script_generation *)generation;
    pthread_mutex_lock(&script->mutex);
    struct script_generation **link = &script->generations;
    while (*link != own_generation) {
        link = &(*link)->next;
    }
    *link = own_generation->next;
    pthread_cond_broadcast(&script->changed);
    pthread_mutex_unlock(&script->mutex);
    free(own_generation->tokens);
    free(own_generation->tops);
    free(own_generation->stop_tokens);
    free(own_generation);
}

static bool is_ready(struct service *service, const char **why) {
    (void)service;
    *why = "";
    return true;
}

static struct sluice_engine_facts facts(struct service *service) {
    const struct script_service *script = own(service);
    return (struct sluice_engine_facts){.context_tokens = script->options.context_tokens,
                                        .vocabulary_size =
                                            tokenizer_vocabulary_size(script->options.tokenizer)};
}

static void stats(struct service *service, struct service_stats *out) {
    (void)service;
    *out = (struct service_stats){.worker_count = 1, .ready_count = 1};
}

static enum status clear_prefix_cache(struct service *service) {
    (void)service;
    return STATUS_OK;
}

static void close_service(struct service **pointer) {
    struct script_service *script = own(*pointer);
    *pointer = NULL;
    assert_null(script->generations);
    script_service_reset(&script->service);
    free(script->requests);
    pthread_mutex_destroy(&script->mutex);
    pthread_cond_destroy(&script->changed);
    free(script);
}

struct service *script_service_create(const struct script_options *options) {
    static const struct service_kind kind = {.submit = submit,
                                             .take = take,
                                             .cancel = cancel,
                                             .release = release,
                                             .is_ready = is_ready,
                                             .facts = facts,
                                             .stats = stats,
                                             .clear_prefix_cache = clear_prefix_cache,
                                             .close = close_service};
    struct script_service *script = calloc(1, sizeof *script);
    script->service.kind = &kind;
    script->options = *options;
    script->lump = 1;
    script->requests = calloc(REQUESTS_MAX, sizeof *script->requests);
    pthread_mutex_init(&script->mutex, NULL);
    assert_int_equal(condition_init(&script->changed), STATUS_OK);
    return &script->service;
}

void script_service_add(struct service *service, const int32_t *ids, size_t count) {
    struct script_service *script = own(service);
    assert_true(script->script_count < SCRIPTS_MAX);
    struct script *added = &script->scripts[script->script_count++];
    added->ids = malloc((count + 1) * sizeof *ids);
    added->count = count;
    memcpy(added->ids, ids, count * sizeof *ids);
}

void script_service_add_text(struct service *service, const char *text) {
    struct token_list ids = {0};
    struct tokenizer_encode_options options = {.match_added_tokens = true};
    assert_int_equal(tokenizer_encode(own(service)->options.tokenizer, text, strlen(text), &options, &ids),
                     STATUS_OK);
    script_service_add(service, ids.ids, ids.count);
    token_list_deinit(&ids);
}

void script_service_reset(struct service *service) {
    struct script_service *script = own(service);
    assert_null(script->generations);
    for (size_t i = 0; i < script->script_count; i++) {
        free(script->scripts[i].ids);
    }
    for (size_t i = 0; i < script->request_count; i++) {
        struct script_request *request = &script->requests[i];
        free(request->prompt);
        string_buffer_deinit(&request->grammar_text);
        string_buffer_deinit(&request->stops);
        string_buffer_deinit(&request->bad_words);
        string_buffer_deinit(&request->logit_bias);
        string_buffer_deinit(&request->allowed);
    }
    script->script_count = 0;
    script->request_count = 0;
    script->lump = 1;
    script->refusal = STATUS_OK;
    script->failure = STATUS_OK;
}

void script_service_set_lump(struct service *service, size_t token_count) {
    own(service)->lump = token_count;
}

void script_service_set_refusal(struct service *service, enum status status, const char *message) {
    struct script_service *script = own(service);
    script->refusal = status;
    strncpy(script->refusal_message, message, sizeof script->refusal_message - 1);
}

void script_service_set_failure(struct service *service, enum status status, size_t token_count) {
    own(service)->failure = status;
    own(service)->failure_tokens = token_count;
}

static void finish(struct script_generation *generation, enum sluice_finish_reason reason) {
    generation->state.phase = SLUICE_REQUEST_FINISHED;
    generation->state.finish_reason = reason;
}

static bool is_stop_token(const struct script_generation *generation, int32_t id) {
    for (size_t i = 0; i < generation->stop_token_count; i++) {
        if (generation->stop_tokens[i] == id) {
            return true;
        }
    }
    return false;
}

/* Up to `lump` tokens more, as an engine would give them. */
static void advance(struct script_service *script, struct script_generation *generation) {
    struct sluice_request_state *state = &generation->state;
    int64_t limit = generation->request->options.token_limit;
    state->phase = SLUICE_REQUEST_ANSWERING;
    state->prompt_tokens_done = generation->request->prompt_count;
    for (size_t i = 0; i < script->lump && state->phase != SLUICE_REQUEST_FINISHED; i++) {
        if (script->failure != STATUS_OK && generation->given >= script->failure_tokens) {
            finish(generation, SLUICE_FINISH_ERROR);
            state->status = (enum sluice_status)script->failure;
            state->message = "the script says that this fails";
        } else if (generation->given == generation->script->count) {
            finish(generation, SLUICE_FINISH_STOP);
        } else {
            int32_t id = generation->script->ids[generation->given++];
            if (is_stop_token(generation, id)) {
                finish(generation, SLUICE_FINISH_STOP);
            } else if (limit >= 0 && (int64_t)generation->given == limit) {
                finish(generation, SLUICE_FINISH_LENGTH);
            }
        }
    }
    state->token_count = generation->given;
    generation->has_news = true;
    generation->notify(generation->notify_context);
}

static bool has_news(const struct script_service *script) {
    for (const struct script_generation *each = script->generations; each != NULL; each = each->next) {
        if (each->has_news) {
            return true;
        }
    }
    return false;
}

/* Waits for something to change; fails the test if nothing does. The mutex is held. */
static void wait_for_change(struct script_service *script) {
    assert_true(condition_wait_until(&script->changed, &script->mutex, clock_seconds() + patience_seconds));
}

bool script_service_step(struct service *service) {
    struct script_service *script = own(service);
    pthread_mutex_lock(&script->mutex);
    while (has_news(script)) {
        wait_for_change(script);
    }
    bool is_busy = script->generations != NULL;
    for (struct script_generation *each = script->generations; each != NULL; each = each->next) {
        if (each->state.phase != SLUICE_REQUEST_FINISHED) {
            advance(script, each);
        }
    }
    pthread_mutex_unlock(&script->mutex);
    return is_busy;
}

void script_service_wait_for_requests(struct service *service, size_t count) {
    struct script_service *script = own(service);
    pthread_mutex_lock(&script->mutex);
    while (script->request_count < count) {
        wait_for_change(script);
    }
    pthread_mutex_unlock(&script->mutex);
}

size_t script_service_request_count(struct service *service) {
    struct script_service *script = own(service);
    pthread_mutex_lock(&script->mutex);
    size_t count = script->request_count;
    pthread_mutex_unlock(&script->mutex);
    return count;
}

const struct script_request *script_service_request(struct service *service, size_t index) {
    assert_true(index < script_service_request_count(service));
    return &own(service)->requests[index];
}

size_t script_service_live_count(struct service *service) {
    struct script_service *script = own(service);
    size_t count = 0;
    pthread_mutex_lock(&script->mutex);
    for (const struct script_generation *each = script->generations; each != NULL; each = each->next) {
        count++;
    }
    pthread_mutex_unlock(&script->mutex);
    return count;
}
