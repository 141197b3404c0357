/*
 * A worker without a model, for tests of who watches over it: the token at position p of a text that begins
 * with b is (b + p) % 1000, one for each generation and step. What the text begins with may also be a
 * misdeed (counting_worker.h).
 */
#include "server/counting_worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "server/worker.h"
#include "server/worker_process.h"

enum { STEP_NANOSECONDS = 500000, LATE_STEPS = 400, SILENT_STEPS = 100, CONTEXT = 100000, SLOTS = 4 };

struct counting_generation {
    struct generation generation;
    struct service_request request;
    int32_t first;
    int64_t position;
    size_t token_count;
    size_t taken_count;
    int64_t taken_at; /* by the service's count of stats */
    int64_t waited_steps;
    int64_t limit;
    struct service_token *tokens; /* [limit] */
    enum sluice_finish_reason reason;
    struct counting_generation *next;
};

struct counting_service {
    struct service service;
    pthread_mutex_t mutex;
    pthread_t thread;
    bool is_closing;
    atomic_bool is_lost;
    int silent_steps;
    struct counting_generation *generations;
    struct sluice_engine_stats stats;
    int64_t stats_count; /* how often they were asked for */
};

static struct counting_service *own(struct service *service) {
    return (struct counting_service *)(void *)service;
}

static void tell(struct counting_generation *generation) {
    generation->request.notify(generation->request.notify_context);
}

/* A worker sends what it took before it takes anything else in: stats that it asks for later say so. */
static bool have_all_left(const struct counting_service *service,
                          const struct counting_generation *generation) {
    return generation->taken_count == generation->token_count &&
           service->stats_count >= generation->taken_at + 2;
}

/* Whether it has come to a position at which it misbehaves. */
static bool is_due(const struct counting_generation *generation, int32_t misdeed) {
    return generation->first == misdeed && generation->position % 10 == 9;
}

/* Whether a step passes without a token. */
static bool waits(const struct counting_service *service, struct counting_generation *generation) {
    bool is_late = generation->first == COUNTING_IS_LATE && generation->waited_steps++ < LATE_STEPS;
    bool is_bad = is_due(generation, COUNTING_DIES) || is_due(generation, COUNTING_LOSES) ||
                  is_due(generation, COUNTING_STOPS);
    return is_late || generation->first == COUNTING_IDLES || (is_bad && !have_all_left(service, generation));
}

static void misbehave(const struct counting_generation *generation) {
    if (is_due(generation, COUNTING_DIES)) {
        kill(getpid(), SIGKILL);
    }
    while (generation->first == COUNTING_HANGS) {
        sleep(1);
    }
}

/* As an engine does: first it is known, then shown. */
static void lose_rank(struct counting_service *service) {
    atomic_store(&service->is_lost, true);
    for (struct counting_generation *at = service->generations; at != NULL; at = at->next) {
        if (at->reason == SLUICE_FINISH_NONE) {
            at->reason = SLUICE_FINISH_ERROR;
            tell(at);
        }
    }
}

static void step(struct counting_service *service, struct counting_generation *generation) {
    if (generation->reason != SLUICE_FINISH_NONE || waits(service, generation)) {
        return;
    }
    misbehave(generation);
    if (is_due(generation, COUNTING_STOPS)) {
        service->silent_steps++; /* until all news are taken */
        atomic_store(&service->is_lost, service->silent_steps > SILENT_STEPS);
    }
    if (service->silent_steps > 0) {
        return;
    }
    if (is_due(generation, COUNTING_LOSES)) {
        lose_rank(service);
        return;
    }
    generation->tokens[generation->token_count++].id =
        (int32_t)((generation->first + generation->position++) % 1000);
    service->stats.output_tokens++;
    if ((int64_t)generation->token_count == generation->limit) {
        generation->reason = SLUICE_FINISH_LENGTH;
        service->stats.finished_requests++;
        service->stats.running_requests--;
    }
    tell(generation);
}

static void *count(void *context) {
    struct counting_service *service = context;
    bool is_closing = false;
    while (!is_closing) {
        nanosleep(&(struct timespec){.tv_nsec = STEP_NANOSECONDS}, NULL);
        pthread_mutex_lock(&service->mutex);
        service->stats.steps += service->stats.running_requests > 0;
        struct counting_generation *generation = service->generations;
        for (int i = 0; generation != NULL; generation = generation->next, i++) {
            step(service, generation);
        }
        is_closing = service->is_closing;
        pthread_mutex_unlock(&service->mutex);
    }
    return NULL;
}

static enum status submit(struct service *handle, const struct service_request *request,
                          struct generation **out) {
    struct counting_service *service = own(handle);
    const struct sluice_request_options *options = &request->options;
    CHECK(options->priority == 0, STATUS_UNSUPPORTED, "a counting worker has no priorities");
    if (request->rules.grammar != SERVICE_GRAMMAR_NONE && options->prompt[0] != COUNTING_IS_LATE) {
        kill(getpid(), SIGKILL); /* as a grammar would that cannot be compiled */
    }
    struct counting_generation *generation = calloc(1, sizeof *generation);
    CHECK_MEMORY(generation);
    generation->generation.service = handle;
    generation->request = *request;
    generation->first = options->prompt[0];
    generation->position = (int64_t)options->prompt_count;
    generation->limit = options->token_limit;
    generation->tokens = calloc((size_t)options->token_limit, sizeof *generation->tokens);
    CHECK_MEMORY(generation->tokens);
    pthread_mutex_lock(&service->mutex);
    generation->next = service->generations;
    service->generations = generation;
    service->stats.running_requests++;
    pthread_mutex_unlock(&service->mutex);
    *out = &generation->generation;
    return STATUS_OK;
}

static void take(struct generation *handle, struct service_update *out) {
    struct counting_generation *generation = (struct counting_generation *)(void *)handle;
    struct counting_service *service = own(handle->service);
    pthread_mutex_lock(&service->mutex);
    *out = (struct service_update){.tokens = generation->tokens + generation->taken_count,
                                   .token_count = generation->token_count - generation->taken_count,
                                   .state = {.phase = generation->reason == SLUICE_FINISH_NONE
                                                          ? SLUICE_REQUEST_ANSWERING
                                                          : SLUICE_REQUEST_FINISHED,
                                             .finish_reason = generation->reason,
                                             .message = "",
                                             .token_count = generation->token_count}};
    generation->taken_count = generation->token_count;
    generation->taken_at = service->stats_count;
    pthread_mutex_unlock(&service->mutex);
}

static void finish(struct counting_service *service, struct counting_generation *generation) {
    if (generation->reason == SLUICE_FINISH_NONE) {
        generation->reason = SLUICE_FINISH_CANCELLED;
        service->stats.running_requests--;
    }
}

static void cancel(struct generation *handle) {
    struct counting_service *service = own(handle->service);
    pthread_mutex_lock(&service->mutex);
    finish(service, (struct counting_generation *)(void *)handle);
    tell((struct counting_generation *)(void *)handle);
    pthread_mutex_unlock(&service->mutex);
}

static void release(struct generation **handle) {
    struct counting_generation *generation = (struct counting_generation *)(void *)*handle;
    struct counting_service *service = own((*handle)->service);
    pthread_mutex_lock(&service->mutex);
    struct counting_generation **link = &service->generations;
    while (*link != generation) {
        link = &(*link)->next;
    }
    *link = generation->next;
    finish(service, generation);
    pthread_mutex_unlock(&service->mutex);
    free(generation->tokens);
    free(generation);
    *handle = NULL;
}

static bool is_ready(struct service *service, const char **why) {
    *why = "a rank is lost";
    return !atomic_load(&own(service)->is_lost);
}

static struct sluice_engine_facts facts(struct service *service) {
    (void)service;
    return (struct sluice_engine_facts){
        .vocabulary_size = 2000, .context_tokens = CONTEXT, .sequence_limit = SLOTS};
}

static void stats(struct service *handle, struct service_stats *out) {
    struct counting_service *service = own(handle);
    *out = (struct service_stats){.worker_count = 1, .ready_count = 1};
    if (pthread_mutex_trylock(&service->mutex) == 0) {
        out->engine = service->stats;
        service->stats_count++;
        pthread_mutex_unlock(&service->mutex);
    } else {
        out->engine.running_requests = 1;
    }
}

static enum status clear_prefix_cache(struct service *handle) {
    struct counting_service *service = own(handle);
    pthread_mutex_lock(&service->mutex);
    service->stats.cached_prompt_tokens++; /* so that a test sees it */
    pthread_mutex_unlock(&service->mutex);
    return STATUS_OK;
}

static void close_service(struct service **handle) {
    struct counting_service *service = own(*handle);
    pthread_mutex_lock(&service->mutex);
    service->is_closing = true;
    pthread_mutex_unlock(&service->mutex);
    pthread_join(service->thread, NULL);
    free(service);
    *handle = NULL;
}

static enum status open_service(void *context, struct service **out) {
    static const struct service_kind kind = {.submit = submit,
                                             .take = take,
                                             .cancel = cancel,
                                             .release = release,
                                             .is_ready = is_ready,
                                             .facts = facts,
                                             .stats = stats,
                                             .clear_prefix_cache = clear_prefix_cache,
                                             .close = close_service};
    CHECK(strcmp(context, "bad") != 0, STATUS_BAD_CONFIG, "the model does not please");
    if (strcmp(context, "crash") == 0) {
        kill(getpid(), SIGKILL);
    }
    struct counting_service *service = calloc(1, sizeof *service);
    CHECK_MEMORY(service);
    service->service.kind = &kind;
    pthread_mutex_init(&service->mutex, NULL);
    pthread_create(&service->thread, NULL, count, service);
    *out = &service->service;
    return STATUS_OK;
}

/* Words: how to start ("good", "bad", "crash"). */
int main(int argc, char **argv) {
    struct worker_source source = {.open = open_service, .context = argc > 1 ? argv[1] : (char[]){"good"}};
    worker_process_settle();
    return worker_run(WORKER_PROCESS_SOCKET, &source) == STATUS_OK ? 0 : 1;
}
