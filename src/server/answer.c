/*
 * The task of an answer. What ends it early (the client left, it was cancelled, the api closes, an error) is
 * looked at once a run; generations are released before the reply is ended, so that nothing can wake the task
 * any more when it goes.
 */
#include "server/answer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "server/answer_metrics.h"
#include "server/api_internal.h"

static const struct service_kind *service_of(const struct answer *answer) {
    return answer->api->options.service->kind;
}

static void destroy(struct answer *answer) {
    for (size_t i = 0; i < answer->item_count; i++) {
        answer_choice_deinit(&answer->items[i].choice);
        answer_message_deinit(&answer->items[i].message);
    }
    for (size_t i = 0; i < answer->prompt_count; i++) {
        token_list_deinit(&answer->prompts[i].ids);
        string_buffer_deinit(&answer->prompts[i].text);
    }
    free(answer->items);
    free(answer->prompts);
    json_free(&answer->document);
    arena_deinit(&answer->arena);
    string_buffer_deinit(&answer->out);
    string_buffer_deinit(&answer->scratch);
    free(answer);
}

static struct answer *create(struct api *api, const struct api_request *request, const char *id_prefix) {
    struct answer *answer = calloc(1, sizeof *answer);
    if (answer == NULL) {
        return NULL;
    }
    answer->api = api;
    arena_init(&answer->arena, 1 << 13);
    const char *request_id = request->request_id != NULL ? request->request_id : "";
    answer->id = arena_format(&answer->arena, "%s%.200s", id_prefix, request_id);
    answer->created = (int64_t)time(NULL);
    answer->moment_opened = clock_seconds();
    if (answer->id == NULL) {
        destroy(answer);
        return NULL;
    }
    return answer;
}

enum status answer_read_id(struct answer *answer, const struct api_request *request, const char *id_prefix) {
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:";
    const char *own = NULL;
    TRY(request_reader_text(&answer->reader, "request_id", &own, NULL));
    size_t length = own == NULL ? 0 : strlen(own);
    bool is_good = length > 0 && length <= ANSWER_ID_MAX && strspn(own, good) == length;
    if (is_good && request->header(request, "x-request-id") == NULL) {
        answer->id = arena_format(&answer->arena, "%s%s", id_prefix, own);
        CHECK_MEMORY(answer->id);
    }
    return STATUS_OK;
}

static enum status read_document(struct answer *answer, const struct api_request *request) {
    TRY(api_parse_body(request, &answer->document));
    TRY(request_reader_init(&answer->reader, answer->document, ""));
    return api_read_model(answer->api, &answer->reader);
}

struct answer *answer_open(struct api *api, const struct api_request *request, struct reply *reply,
                           const struct answer_format *format, const char *path, const char *id_prefix) {
    struct answer *answer = create(api, request, id_prefix);
    if (answer == NULL) {
        api_reply_error(reply, path, 503, "the server is out of memory; try again later", NULL);
        return NULL;
    }
    answer->reply = reply;
    answer->format = format;
    answer->path = path;
    enum status status = read_document(answer, request);
    if (status != STATUS_OK) {
        api_reply_failure(reply, path, status, answer->reader.parameter);
        destroy(answer);
        return NULL;
    }
    answer->settings = answer_settings_default(&api->options, &api->recommended, api_random());
    return answer;
}

enum status answer_add_prompts(struct answer *answer, size_t count) {
    answer->prompts = calloc(count, sizeof *answer->prompts);
    CHECK_MEMORY(answer->prompts);
    answer->prompt_count = count;
    return STATUS_OK;
}

/* The prompt's last tokens, if it may be cut; an error if it leaves no room. */
static enum status fit_prompt(struct answer *answer, struct answer_prompt *prompt, size_t context) {
    int64_t limit = answer->settings.prompt_token_limit;
    size_t kept = limit < 0 ? context - 1 : limit > 0 ? (size_t)limit : prompt->ids.count;
    if (kept < prompt->ids.count) {
        memmove(prompt->ids.ids, prompt->ids.ids + (prompt->ids.count - kept),
                kept * sizeof *prompt->ids.ids);
        prompt->ids.count = kept;
    }
    if (prompt->ids.count == 0) {
        return request_reader_fail(&answer->reader, "prompt", STATUS_BAD_ARGUMENT,
                                   "is empty: it needs one token at least");
    }
    CHECK(
        prompt->ids.count < context, STATUS_CONTEXT_FULL,
        "This model's maximum context length is %zu tokens. However, the prompt has %zu tokens, and at least "
        "one is needed for the answer. Shorten the prompt.",
        context, prompt->ids.count);
    return STATUS_OK;
}

static enum status check_prompts(struct answer *answer) {
    struct answer_settings *settings = &answer->settings;
    struct service *service = answer->api->options.service;
    size_t context = (size_t)service->kind->facts(service).context_tokens;
    int64_t most = answer->api->recommended.token_limit;
    if (most >= 0 && (settings->token_limit < 0 || settings->token_limit > most)) {
        settings->token_limit = most;
    }
    for (size_t i = 0; i < answer->prompt_count; i++) {
        TRY(fit_prompt(answer, &answer->prompts[i], context));
    }
    if (settings->token_limit >= 0 && settings->min_tokens > settings->token_limit) {
        return request_reader_fail(&answer->reader, "min_tokens", STATUS_OUT_OF_RANGE,
                                   "is %lld, more than the answer's limit of %lld tokens",
                                   (long long)settings->min_tokens, (long long)settings->token_limit);
    }
    return STATUS_OK;
}

static enum status add_items(struct answer *answer) {
    size_t count = answer->prompt_count * (size_t)answer->settings.choice_count;
    size_t limit = answer->api->options.running_limit;
    if (count > limit) {
        return request_reader_fail(
            &answer->reader, "n", STATUS_BAD_ARGUMENT,
            "and the prompts ask for %zu answers at once, but this server gives %zu at "
            "most: ask for fewer",
            count, limit);
    }
    answer->items = calloc(count, sizeof *answer->items);
    CHECK_MEMORY(answer->items);
    for (; answer->item_count < count; answer->item_count++) {
        struct answer_item *item = &answer->items[answer->item_count];
        item->answer = answer;
        TRY(answer_choice_init(&item->choice, &answer->settings, answer->api->options.tokenizer,
                               answer->item_count, answer->item_count / (size_t)answer->settings.choice_count,
                               api_random()));
    }
    answer->unfinished_count = count;
    return STATUS_OK;
}

static void on_leave(void *context, bool is_certain) {
    struct answer *answer = context;
    atomic_store(is_certain ? &answer->has_left : &answer->may_have_left, true);
    task_wake(&answer->task);
}

static void on_notify(void *context) {
    struct answer *answer = context;
    task_wake(&answer->task);
}

void answer_cancel(struct answer *answer) {
    atomic_store(&answer->is_cancelled, true);
    task_wake(&answer->task);
}

/*
 * Puts the answer on the list and lets its task run, which may be over and have freed the answer before this
 * returns: the lock keeps the end away until the answer was last touched here.
 */
static void set_going(struct answer *answer) {
    struct api *api = answer->api;
    pthread_mutex_lock(&api->mutex);
    answer->next = api->answers;
    if (answer->next != NULL) {
        answer->next->previous = answer;
    }
    api->answers = answer;
    task_wake(&answer->task);
    pthread_mutex_unlock(&api->mutex);
}

static void delist(struct answer *answer) {
    struct api *api = answer->api;
    pthread_mutex_lock(&api->mutex);
    if (answer->next != NULL) {
        answer->next->previous = answer->previous;
    }
    if (answer->previous != NULL) {
        answer->previous->next = answer->next;
    } else {
        api->answers = answer->next;
    }
    if (api->answers == NULL) {
        pthread_cond_broadcast(&api->emptied);
    }
    pthread_mutex_unlock(&api->mutex);
}

/* Takes places for the generations; false if there are not enough. */
static bool take_places(struct answer *answer) {
    struct api *api = answer->api;
    size_t before = atomic_fetch_add(&api->generation_count, answer->item_count);
    if (before + answer->item_count > api->options.running_limit) {
        atomic_fetch_sub(&api->generation_count, answer->item_count);
        return false;
    }
    return true;
}

static void give_up(struct answer *answer) {
    if (answer->format->over != NULL) {
        answer->format->over(answer);
    }
    destroy(answer);
}

static bool answer_run(struct task *task);

void answer_launch(struct answer *answer, enum status status) {
    struct reply *reply = answer->reply;
    if (status == STATUS_OK) {
        status = check_prompts(answer);
    }
    if (status == STATUS_OK) {
        status = add_items(answer);
    }
    if (status != STATUS_OK) {
        api_reply_failure(reply, answer->path, status, answer->reader.parameter);
        give_up(answer);
        return;
    }
    if (!take_places(answer)) {
        metrics_record_rejection(answer->api->options.metrics);
        reply->kind->header(reply, (struct reply_header){"Retry-After", "1"});
        api_reply_error(reply, answer->path, 429,
                        "too many requests are under way; try again in a moment, or ask the operator for a "
                        "larger limit",
                        NULL);
        give_up(answer);
        return;
    }
    api_count_unknown_fields(answer->api, &answer->reader);
    answer->is_launched = true;
    task_init(&answer->task, answer->api->queue, answer_run);
    set_going(answer);
}

static struct service_rules rules_of(const struct answer_settings *settings, struct service_text *stops) {
    for (size_t i = 0; i < settings->stop_count; i++) {
        stops[i] = (struct service_text){settings->stops[i].bytes, settings->stops[i].length};
    }
    return (struct service_rules){.grammar = settings->grammar,
                                  .grammar_text = settings->grammar_text,
                                  .is_grammar_optional = settings->is_grammar_optional,
                                  .starts_in_reasoning = settings->starts_in_reasoning,
                                  .stops = stops,
                                  .stop_count = settings->stop_count,
                                  .min_tokens = (size_t)settings->min_tokens,
                                  .allowed_tokens = settings->allowed_tokens,
                                  .allowed_token_count = settings->allowed_token_count,
                                  .bad_words = settings->bad_words,
                                  .bad_word_count = settings->bad_word_count};
}

static struct service_request service_request_of(const struct answer_item *item, struct service_text *stops) {
    const struct answer_settings *settings = &item->answer->settings;
    const struct token_list *prompt = &item->answer->prompts[item->choice.prompt_index].ids;
    struct service *service = item->answer->api->options.service;
    int64_t room = service->kind->facts(service).context_tokens - (int64_t)prompt->count;
    struct service_request request = {.options = sluice_request_options_default()};
    request.options.prompt = prompt->ids;
    request.options.prompt_count = prompt->count;
    request.options.sampling = settings->sampling;
    request.options.choice_index = (uint32_t)(item->choice.index % (size_t)settings->choice_count);
    /* What the context does not hold is no error: the answer then ends with "length". */
    request.options.token_limit = settings->token_limit > room ? room : settings->token_limit;
    request.options.stop_tokens = settings->stop_tokens;
    request.options.stop_token_count = settings->stop_token_count;
    request.options.log_probability_count = (int)settings->log_probability_count;
    request.options.priority = (int)settings->priority;
    request.options.skips_prefix_cache = settings->skips_prefix_cache;
    request.options.prompt_log_probability_count = (int)settings->prompt_log_probability_count;
    request.rules = rules_of(settings, stops);
    request.notify = on_notify;
    request.notify_context = item->answer;
    return request;
}

static enum status submit_item(struct answer_item *item) {
    struct service *service = item->answer->api->options.service;
    struct service_text stops[STOP_STRINGS_MAX];
    struct service_request request = service_request_of(item, stops);
    enum status status = service->kind->submit(service, &request, &item->generation);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status submit(struct answer *answer) {
    for (size_t i = 0; i < answer->item_count; i++) {
        TRY(submit_item(&answer->items[i]));
    }
    answer->is_submitted = true;
    json_free(&answer->document);
    if (answer->settings.is_streaming && answer->reply != NULL) {
        struct reply *reply = answer->reply;
        reply->kind->header(reply, (struct reply_header){"Cache-Control", "no-cache"});
        reply->kind->start(reply, 200, "text/event-stream; charset=utf-8");
        answer->moment_written = clock_seconds();
    }
    return answer->format->submitted != NULL ? answer->format->submitted(answer) : STATUS_OK;
}

static enum status forward_event(void *context, const struct output_event *event) {
    struct answer_item *item = context;
    return item->answer->format->event(item, event);
}

static enum status take_prompt_tokens(struct answer_item *item, const struct service_update *update) {
    for (size_t i = 0; i < update->prompt_token_count; i++) {
        const struct service_token *token = &update->prompt_tokens[i];
        /* Nothing comes before the first token, so nothing says how likely it was. */
        TRY(token_records_append(&item->choice.prompt_records, token, i > 0));
    }
    return STATUS_OK;
}

/* The generation has ended by itself: an error, or nothing to say. */
static enum status check_end(const struct answer_item *item) {
    const struct sluice_request_state *state = &item->state;
    if (item->choice.is_over) {
        return STATUS_OK;
    }
    CHECK(state->finish_reason != SLUICE_FINISH_ERROR, (enum status)state->status, "%s", state->message);
    CHECK(state->finish_reason != SLUICE_FINISH_CANCELLED, STATUS_PEER_LOST,
          "the server gave the request up because it is stopping; send it again later");
    CHECK(state->finish_reason != SLUICE_FINISH_DEADLINE, STATUS_PEER_LOST,
          "the request took longer than the server allows");
    return STATUS_OK;
}

static enum status finish_item(struct answer_item *item, const struct output_sink *sink) {
    struct answer *answer = item->answer;
    TRY(answer_choice_finish(&item->choice, item->state.finish_reason, sink));
    answer_metrics_end(item, item->choice.finish == ANSWER_FINISH_LENGTH ? METRICS_LENGTH : METRICS_STOP);
    service_of(answer)->release(&item->generation);
    answer->unfinished_count--;
    return answer->format->finish_choice != NULL ? answer->format->finish_choice(item) : STATUS_OK;
}

/* Takes what has come and turns it into events. */
static enum status pump(struct answer_item *item) {
    struct output_sink sink = {forward_event, item};
    struct service_update update;
    if (item->generation == NULL) {
        return STATUS_OK;
    }
    service_of(item->answer)->take(item->generation, &update);
    item->state = update.state;
    answer_metrics_take(item, update.token_count);
    TRY(take_prompt_tokens(item, &update));
    for (size_t i = 0; i < update.token_count && !item->answer->settings.is_answer_dropped; i++) {
        TRY(answer_choice_push(&item->choice, &update.tokens[i], &sink));
    }
    bool is_finished = update.state.phase == SLUICE_REQUEST_FINISHED;
    if (is_finished) {
        TRY(check_end(item));
    }
    TRY(answer_choice_flush(&item->choice, &sink));
    if (update.token_count > 0 && item->answer->format->batch != NULL) {
        TRY(item->answer->format->batch(item));
    }
    return is_finished || item->choice.is_over ? finish_item(item, &sink) : STATUS_OK;
}

static enum status advance(struct answer *answer) {
    if (!answer->is_submitted) {
        TRY(submit(answer));
    }
    for (size_t i = 0; i < answer->item_count; i++) {
        TRY(pump(&answer->items[i]));
    }
    if (answer->unfinished_count == 0) {
        TRY(answer->format->finish(answer));
    }
    return string_buffer_check(&answer->out);
}

/* Writes what a stream has to say; notices that nobody listens. */
static void send_stream(struct answer *answer) {
    double now = clock_seconds();
    double silence_limit = answer->api->options.keep_alive_seconds;
    bool is_due = silence_limit > 0.0 && now - answer->moment_written >= silence_limit;
    if (answer->out.length == 0 && (is_due || atomic_exchange(&answer->may_have_left, false))) {
        answer->format->keep_alive(answer);
    }
    if (answer->out.length > 0) {
        if (!answer->reply->kind->write(answer->reply, answer->out.data, answer->out.length)) {
            atomic_store(&answer->has_left, true);
        }
        string_buffer_clear(&answer->out);
        answer->moment_written = now;
    }
    if (silence_limit > 0.0) {
        /* Without a timer there are no comments: that harms nobody who is served. */
        (void)task_wake_at(&answer->task, answer->moment_written + silence_limit);
    }
}

static bool has_stream(const struct answer *answer) {
    return answer->settings.is_streaming && answer->is_submitted && answer->reply != NULL;
}

static void release_generations(struct answer *answer) {
    for (size_t i = 0; i < answer->item_count; i++) {
        if (answer->items[i].generation != NULL) {
            answer_metrics_end(&answer->items[i], answer->is_failed ? METRICS_ERROR : METRICS_ABORT);
            service_of(answer)->release(&answer->items[i].generation);
            answer->unfinished_count--;
        }
    }
}

/* The field of the request that an error is about; "": none. The form of an answer is looked at last. */
static const char *field_at_fault(const struct answer *answer, enum status status) {
    return status == STATUS_UNSUPPORTED || status == STATUS_BAD_FORMAT ? answer->settings.grammar_field : "";
}

/* An error reaches the client in the way that is still open. */
static void send_failure(struct answer *answer, enum status status) {
    struct reply *reply = answer->reply;
    if (has_stream(answer)) {
        struct string_buffer message = {0};
        string_buffer_append_text(&message, error_last()->message);
        string_buffer_clear(&answer->out);
        answer->out.is_failed = false;
        answer->format->fail(answer, api_http_status(status), string_buffer_text(&message));
        string_buffer_deinit(&message);
    } else if (reply != NULL) {
        answer->reply = NULL;
        api_reply_failure(reply, answer->path, status, field_at_fault(answer, status));
    }
}

/* Ends the reply: nothing of the answer is used by it any more. */
static void end_reply(struct answer *answer) {
    struct reply *reply = answer->reply;
    if (reply == NULL) {
        return;
    }
    answer->reply = NULL;
    if (answer->settings.is_streaming && answer->is_submitted) {
        if (!atomic_load(&answer->has_left) && answer->out.length > 0) {
            reply->kind->write(reply, answer->out.data, answer->out.length);
        }
        reply->kind->end(reply);
    } else if (atomic_load(&answer->has_left)) {
        api_reply_error(reply, answer->path, 499, "the client has left", NULL);
    } else {
        reply->kind->whole(reply, 200, "application/json", answer->out.data, answer->out.length);
    }
}

/* The end, however it came about. Once it is off the list nobody knows of the answer. */
static bool finish_run(struct answer *answer) {
    release_generations(answer);
    end_reply(answer);
    atomic_fetch_sub(&answer->api->generation_count, answer->item_count);
    if (answer->format->over != NULL) {
        answer->format->over(answer);
    }
    task_end(&answer->task);
    delist(answer);
    destroy(answer);
    return false;
}

/* Another request wants no more of it: what has come is the answer. */
static enum status cut_short(struct answer *answer) {
    for (size_t i = 0; i < answer->item_count; i++) {
        struct answer_item *item = &answer->items[i];
        struct output_sink sink = {forward_event, item};
        if (item->generation != NULL) {
            TRY(finish_item(item, &sink));
        }
    }
    TRY(answer->format->finish(answer));
    return string_buffer_check(&answer->out);
}

static enum status advance_or_end(struct answer *answer) {
    CHECK(!atomic_load(&answer->is_closing), STATUS_PEER_LOST,
          "the server is stopping; send the request again later");
    return atomic_load(&answer->is_cancelled) && answer->is_submitted ? cut_short(answer) : advance(answer);
}

/* In the task, which others may wake from then on; they do so until the reply is ended. */
static void listen_for_leaving(struct answer *answer) {
    if (!answer->is_listening && answer->reply != NULL) {
        answer->is_listening = true;
        answer->reply->kind->on_leave(answer->reply, on_leave, answer);
    }
}

static bool answer_run(struct task *task) {
    struct answer *answer = (struct answer *)task;
    listen_for_leaving(answer);
    if (atomic_load(&answer->has_left)) {
        return finish_run(answer);
    }
    enum status status = advance_or_end(answer);
    if (status != STATUS_OK) {
        answer->is_failed = true;
        send_failure(answer, status);
    }
    if (status != STATUS_OK || answer->unfinished_count == 0) {
        return finish_run(answer);
    }
    if (has_stream(answer)) {
        send_stream(answer);
    }
    return atomic_load(&answer->has_left) ? finish_run(answer) : true;
}

struct answer_usage answer_usage(const struct answer *answer) {
    struct answer_usage usage = {0};
    for (size_t i = 0; i < answer->item_count; i++) {
        const struct answer_item *item = &answer->items[i];
        if (i % (size_t)answer->settings.choice_count == 0) {
            usage.prompt_tokens += answer->prompts[item->choice.prompt_index].ids.count;
            usage.cached_tokens += item->state.cached_prompt_tokens;
        }
        usage.completion_tokens += item->choice.token_count;
        usage.reasoning_tokens += item->choice.reasoning_token_count;
        usage.accepted_drafts += item->state.accepted_drafts;
        usage.rejected_drafts += item->state.verified_drafts - item->state.accepted_drafts;
    }
    return usage;
}
