/*
 * A client of services: submits, is notified, takes. What it gets has the form of the request fixture's
 * answers. Asserts.
 */
#ifndef SLUICE_TESTS_SUPPORT_SERVICE_CLIENT_H
#define SLUICE_TESTS_SUPPORT_SERVICE_CLIENT_H

#include <pthread.h>
#include <stdbool.h>

#include "server/service.h"
#include "support/request_fixture.h"

enum { SERVICE_PROMPT_MAX = 512 };

struct service_client {
    struct service *service; /* borrowed */
    pthread_mutex_t mutex;
    pthread_cond_t notified;
};

struct service_call {
    struct service_client *client;
    struct generation *generation;
    bool has_news; /* guarded by the client's mutex */
    bool is_over;
    struct answer answer; /* so far; of long ones the end is only counted */
    int32_t prompt_tokens[SERVICE_PROMPT_MAX];
    struct sluice_log_probability prompt_chosen[SERVICE_PROMPT_MAX];
    size_t prompt_token_count;
    struct sluice_request_state state; /* the last one; its message is gone */
    char message[512];
};

void service_client_init(struct service_client *client, struct service *service);
void service_client_deinit(struct service_client *client);

/* A request as a service takes it, without rules. */
struct service_request service_request_of(const struct sluice_request_options *options);

/* Submits; the call must stay where it is until it is released. */
enum status service_call_submit(struct service_client *client, const struct service_request *request,
                                struct service_call *call);

/* Takes what is there, if the call was notified. */
void service_call_take(struct service_call *call);

/* Waits until `token_count` tokens are there or the answer is over. Fails after two minutes. */
void service_call_wait(struct service_call *call, size_t token_count);

void service_call_release(struct service_call *call);

#endif
