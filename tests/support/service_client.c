#include "support/service_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/condition.h"

enum { PATIENCE_SECONDS = 120 };

void service_client_init(struct service_client *client, struct service *service) {
    client->service = service;
    assert_int_equal(pthread_mutex_init(&client->mutex, NULL), 0);
    assert_int_equal(condition_init(&client->notified), STATUS_OK);
}

void service_client_deinit(struct service_client *client) {
    pthread_cond_destroy(&client->notified);
    pthread_mutex_destroy(&client->mutex);
}

struct service_request service_request_of(const struct sluice_request_options *options) {
    return (struct service_request){.options = *options};
}

static void notify(void *context) {
    struct service_call *call = context;
    pthread_mutex_lock(&call->client->mutex);
    call->has_news = true;
    pthread_cond_broadcast(&call->client->notified);
    pthread_mutex_unlock(&call->client->mutex);
}

enum status service_call_submit(struct service_client *client, const struct service_request *request,
                                struct service_call *call) {
    memset(call, 0, sizeof *call);
    call->client = client;
    struct service_request notified = *request;
    notified.notify = notify;
    notified.notify_context = call;
    return client->service->kind->submit(client->service, &notified, &call->generation);
}

static void keep(struct service_call *call, const struct service_token *token) {
    struct answer *answer = &call->answer;
    if (answer->count >= REQUEST_ANSWER_MAX) {
        answer->count++;
        return;
    }
    answer->chosen[answer->count] = token->chosen;
    for (size_t i = 0; i < token->top_count; i++) {
        assert_true(i < REQUEST_TOP);
        answer->top[answer->count][i] = token->top[i];
    }
    answer->tokens[answer->count++] = token->id;
}

/* They come at once, before the first token. */
static void keep_prompt_token(struct service_call *call, const struct service_token *token) {
    assert_int_equal(call->answer.count, 0);
    assert_true(call->prompt_token_count < SERVICE_PROMPT_MAX);
    assert_int_equal(token->top_count, call->prompt_token_count == 0 ? 0 : REQUEST_TOP);
    call->prompt_chosen[call->prompt_token_count] = token->chosen;
    call->prompt_tokens[call->prompt_token_count++] = token->id;
}

void service_call_take(struct service_call *call) {
    struct service_update update;
    pthread_mutex_lock(&call->client->mutex);
    bool has_news = call->has_news;
    call->has_news = false;
    pthread_mutex_unlock(&call->client->mutex);
    if (!has_news || call->is_over) {
        return;
    }
    call->client->service->kind->take(call->generation, &update);
    for (size_t i = 0; i < update.prompt_token_count; i++) {
        keep_prompt_token(call, &update.prompt_tokens[i]);
    }
    for (size_t i = 0; i < update.token_count; i++) {
        keep(call, &update.tokens[i]);
    }
    assert_int_equal(update.state.token_count, call->answer.count);
    call->state = update.state;
    snprintf(call->message, sizeof call->message, "%s", update.state.message);
    call->state.message = call->message;
    call->is_over = update.state.phase == SLUICE_REQUEST_FINISHED;
    call->answer.reason = update.state.finish_reason;
}

static void wait_for_news(struct service_call *call, double deadline) {
    bool is_in_time = true;
    pthread_mutex_lock(&call->client->mutex);
    while (!call->has_news && is_in_time) {
        is_in_time = condition_wait_until(&call->client->notified, &call->client->mutex, deadline);
    }
    bool has_news = call->has_news;
    pthread_mutex_unlock(&call->client->mutex);
    if (!has_news) {
        fail_msg("nothing has come for %d seconds; %zu tokens are there", PATIENCE_SECONDS,
                 call->answer.count);
    }
}

void service_call_wait(struct service_call *call, size_t token_count) {
    double deadline = clock_seconds() + PATIENCE_SECONDS;
    service_call_take(call);
    while (!call->is_over && call->answer.count < token_count) {
        wait_for_news(call, deadline);
        service_call_take(call);
    }
}

void service_call_release(struct service_call *call) {
    call->client->service->kind->release(&call->generation);
    assert_null(call->generation);
}
