/* What submitting and taking (service_engine.c) and the threads (service_engine_grammar.c)
 * share. */
#ifndef SLUICE_SERVER_SERVICE_ENGINE_INTERNAL_H
#define SLUICE_SERVER_SERVICE_ENGINE_INTERNAL_H

#include <pthread.h>

#include "base/string_buffer.h"
#include "server/rule_book.h"
#include "server/service_engine.h"

/* Tokens that were handed out with the last take. */
struct token_lump {
    struct service_token *tokens;       /* [capacity] */
    struct sluice_log_probability *top; /* [capacity][likeliest tokens of each] */
    size_t capacity;
};

/* A request whose grammar is being compiled; guarded by the service's mutex but for what was there before. */
struct grammar_wait {
    bool is_waiting;
    bool is_cancelled;
    bool is_released;            /* a thread frees the generation */
    struct string_buffer record; /* the request, as a frame of the wire */
    double submitted_at;
    void (*notify)(void *context);
    void *notify_context;
    struct engine_generation *next;
};

struct engine_generation {
    struct generation generation;
    struct sluice_request *request;    /* NULL: not yet, or never */
    struct sluice_request_state ended; /* without a request */
    char message[512];                 /* its */
    struct grammar_wait wait;
    int top_count; /* likeliest tokens that are recorded with each; -1: nothing is recorded */
    size_t taken_count;
    struct token_lump lump;
    int prompt_top_count; /* the same of the prompt */
    int32_t *prompt;      /* its tokens until they are handed out; NULL: nothing of it is */
    size_t prompt_count;
    struct token_lump prompt_lump;
};

enum { COMPILE_LANE_QUICK, COMPILE_LANE_SLOW, COMPILE_LANES };

/* A thread that compiles grammars in the order of arrival; guarded by the service's mutex but for the thread.
 */
struct compile_lane {
    struct engine_service *service;
    pthread_t thread;
    pthread_cond_t wanted;
    struct engine_generation *first_waiting;
    struct engine_generation *last_waiting;
    bool is_closing;
};

struct engine_service {
    struct service service;
    struct sluice_engine *engine;
    struct rule_book *book;
    pthread_mutex_t mutex; /* guards all that follows, and who waits; taken before the engine's */
    /* Do what takes long, so that callers need not wait. What is no small effort goes from the quick lane to
       the slow one: others wait for a moment of it only. */
    struct compile_lane lanes[COMPILE_LANES];
    bool is_clearing;
};

void service_engine_free_generation(struct engine_generation *generation);

/* Has the rules of the request kept and hands it to the engine. The options' notify is the caller's. */
enum status service_engine_submit_now(struct engine_service *service, const struct service_request *request,
                                      struct sluice_request **out);

/* Copies the request and lets a thread submit it. */
enum status service_engine_submit_later(struct engine_service *service, const struct service_request *request,
                                        struct engine_generation *generation);

enum status service_engine_start_threads(struct engine_service *service);

/* Once all generations have been released. */
void service_engine_stop_threads(struct engine_service *service);

#endif
