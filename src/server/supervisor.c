/* The service that callers see. Whatever concerns workers is left to the supervisor's thread. */
#include "server/supervisor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/condition.h"
#include "engine/engine_stats_sum.h"
#include "server/supervisor_internal.h"

struct supervisor_options supervisor_options_default(void) {
    return (struct supervisor_options){
        .worker_count = 1,
        .ping_seconds = 1.0,
        .deadline_seconds = 30.0,
        .step_seconds = 600.0,
        .restart_limit = 10,
        .quit_seconds = 2.0,
        .restart_seconds = 0.1,
    };
}

void supervisor_wake(struct supervisor *supervisor) {
    uint64_t one = 1;
    while (write(supervisor->event, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

bool supervisor_has_ready(const struct supervisor *supervisor) {
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        if (supervisor->slots[i].phase == SLOT_READY) {
            return true;
        }
    }
    return false;
}

bool supervisor_has_hope(const struct supervisor *supervisor) {
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        if (supervisor->slots[i].phase != SLOT_GIVEN_UP) {
            return true;
        }
    }
    return false;
}

static struct journal_entry *own(struct generation *generation) {
    return (struct journal_entry *)(void *)generation;
}

/* What can be told at once, before a reply has begun; the worker checks all. */
static enum status check_request(const struct sluice_request_options *options,
                                 const struct sluice_engine_facts *facts) {
    CHECK(options->prompt_count >= 1, STATUS_BAD_ARGUMENT,
          "the prompt is empty: it needs one token at least");
    CHECK(options->prompt_count < (size_t)facts->context_tokens, STATUS_CONTEXT_FULL,
          "the prompt has %zu tokens, which leaves no room in a context of %lld: raise --max-model-len",
          options->prompt_count, (long long)facts->context_tokens);
    for (size_t i = 0; i < options->prompt_count; i++) {
        CHECK(options->prompt[i] >= 0 && options->prompt[i] < facts->vocabulary_size, STATUS_OUT_OF_RANGE,
              "the prompt's token at index %zu has id %d, but the vocabulary has %lld ids", i,
              options->prompt[i], (long long)facts->vocabulary_size);
    }
    size_t record_bytes = (2 + (size_t)SLUICE_LOG_PROBABILITIES_MAX) * sizeof(struct sluice_log_probability);
    CHECK(options->prompt_log_probability_count < 0 || options->prompt_count < WIRE_BODY_LIMIT / record_bytes,
          STATUS_OUT_OF_RANGE,
          "log-probabilities of %zu prompt tokens were asked for, at most %zu are possible",
          options->prompt_count, WIRE_BODY_LIMIT / record_bytes);
    return STATUS_OK;
}

/* The reason of the first worker that is not ready. The mutex is held. */
static const char *reason_of_worker(const struct supervisor *supervisor) {
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        if (supervisor->slots[i].phase != SLOT_READY) {
            return supervisor->slots[i].why;
        }
    }
    return "";
}

/* A request may go to any worker, and each may have found room for another context. The mutex is held. */
static int64_t least_context(const struct supervisor *supervisor) {
    int64_t least = supervisor->slots[0].facts.context_tokens;
    for (int i = 1; i < supervisor->options.worker_count; i++) {
        int64_t one = supervisor->slots[i].facts.context_tokens;
        least = one < least ? one : least;
    }
    return least;
}

static enum status submit(struct service *service, const struct service_request *request,
                          struct generation **out) {
    struct supervisor *supervisor = supervisor_of(service);
    struct journal_entry *entry = NULL;
    pthread_mutex_lock(&supervisor->mutex);
    struct sluice_engine_facts facts_of_one = supervisor->slots[0].facts;
    facts_of_one.context_tokens = least_context(supervisor);
    pthread_mutex_unlock(&supervisor->mutex);
    TRY(check_request(&request->options, &facts_of_one));
    TRY(journal_entry_create(request, clock_seconds(), &entry));
    entry->generation.service = service;
    pthread_mutex_lock(&supervisor->mutex);
    bool is_ready = supervisor_has_ready(supervisor);
    if (is_ready) {
        journal_list_insert(&supervisor->queued, entry);
    }
    char why[256];
    snprintf(why, sizeof why, "%.255s", reason_of_worker(supervisor));
    pthread_mutex_unlock(&supervisor->mutex);
    if (!is_ready) {
        journal_entry_destroy(&entry);
        FAIL(STATUS_PEER_LOST, "the model's worker cannot answer now, try again soon: %s", why);
    }
    supervisor_wake(supervisor);
    *out = &entry->generation;
    return STATUS_OK;
}

static void take(struct generation *generation, struct service_update *out) {
    struct journal_entry *entry = own(generation);
    struct supervisor *supervisor = supervisor_of(generation->service);
    pthread_mutex_lock(&supervisor->mutex);
    journal_entry_take(entry, out);
    pthread_mutex_unlock(&supervisor->mutex);
    journal_entry_show(entry, out);
}

/* The mutex is held. */
static void wish(struct supervisor *supervisor, struct journal_entry *entry) {
    if (!entry->has_wish) {
        entry->has_wish = true;
        entry->next_wish = supervisor->first_wish;
        supervisor->first_wish = entry;
    }
}

static void cancel(struct generation *generation) {
    struct journal_entry *entry = own(generation);
    struct supervisor *supervisor = supervisor_of(generation->service);
    pthread_mutex_lock(&supervisor->mutex);
    entry->is_cancelled = true;
    wish(supervisor, entry);
    pthread_mutex_unlock(&supervisor->mutex);
    supervisor_wake(supervisor);
}

static void release(struct generation **generation) {
    struct journal_entry *entry = own(*generation);
    struct supervisor *supervisor = supervisor_of((*generation)->service);
    *generation = NULL;
    pthread_mutex_lock(&supervisor->mutex);
    entry->is_released = true;
    entry->notify = NULL;
    wish(supervisor, entry);
    pthread_mutex_unlock(&supervisor->mutex);
    supervisor_wake(supervisor);
}

static bool is_ready(struct service *service, const char **why) {
    struct supervisor *supervisor = supervisor_of(service);
    pthread_mutex_lock(&supervisor->mutex);
    bool is_any_ready = supervisor_has_ready(supervisor);
    snprintf(supervisor->why, sizeof supervisor->why, "the model's worker cannot answer: %.640s",
             reason_of_worker(supervisor));
    *why = is_any_ready ? "" : supervisor->why;
    pthread_mutex_unlock(&supervisor->mutex);
    return is_any_ready;
}

/* Of one worker what each has, and the sum of what they have together. */
static struct sluice_engine_facts facts(struct service *service) {
    struct supervisor *supervisor = supervisor_of(service);
    pthread_mutex_lock(&supervisor->mutex);
    struct sluice_engine_facts sum = supervisor->slots[0].facts;
    sum.context_tokens = least_context(supervisor);
    for (int i = 1; i < supervisor->options.worker_count; i++) {
        const struct sluice_engine_facts *one = &supervisor->slots[i].facts;
        sum.sequence_limit += one->sequence_limit;
        sum.memory.copied_weight_bytes += one->memory.copied_weight_bytes;
        sum.memory.slot_state_bytes += one->memory.slot_state_bytes;
        sum.memory.snapshot_bytes += one->memory.snapshot_bytes;
        sum.memory.page_state_bytes += one->memory.page_state_bytes;
        sum.memory.step_bytes += one->memory.step_bytes;
        sum.memory.draft_bytes += one->memory.draft_bytes;
        sum.memory.host_bytes += one->memory.host_bytes;
        sum.memory.page_count += one->memory.page_count;
        sum.memory.token_capacity += one->memory.token_capacity;
    }
    pthread_mutex_unlock(&supervisor->mutex);
    return sum;
}

static void stats(struct service *service, struct service_stats *out) {
    struct supervisor *supervisor = supervisor_of(service);
    pthread_mutex_lock(&supervisor->mutex);
    *out = (struct service_stats){.worker_count = supervisor->options.worker_count,
                                  .restarts = supervisor->restarts};
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        const struct supervisor_slot *slot = &supervisor->slots[i];
        engine_stats_add_counters(&out->engine, &slot->past, 1);
        engine_stats_add_counters(&out->engine, &slot->stats, 1);
        engine_stats_add_gauges(&out->engine, &slot->stats);
        out->ready_count += slot->phase == SLOT_READY;
    }
    out->engine.waiting_requests += supervisor->queued.count;
    pthread_mutex_unlock(&supervisor->mutex);
}

static enum status clear_prefix_cache(struct service *service) {
    struct supervisor *supervisor = supervisor_of(service);
    pthread_mutex_lock(&supervisor->mutex);
    supervisor->is_clearing = true;
    pthread_mutex_unlock(&supervisor->mutex);
    supervisor_wake(supervisor);
    return STATUS_OK;
}

static void destroy(struct supervisor *supervisor) {
    replica_router_destroy(&supervisor->router);
    if (supervisor->event >= 0) {
        close(supervisor->event);
    }
    pthread_cond_destroy(&supervisor->started);
    pthread_mutex_destroy(&supervisor->mutex);
    free(supervisor->slots);
    free(supervisor);
}

static void stop(struct supervisor *supervisor) {
    pthread_mutex_lock(&supervisor->mutex);
    supervisor->is_closing = true;
    pthread_mutex_unlock(&supervisor->mutex);
    supervisor_wake(supervisor);
    pthread_join(supervisor->thread, NULL);
}

static void close_service(struct service **service) {
    struct supervisor *supervisor = supervisor_of(*service);
    *service = NULL;
    stop(supervisor);
    destroy(supervisor);
}

static enum status create(const struct supervisor_options *options, struct supervisor **out) {
    struct supervisor *supervisor = calloc(1, sizeof *supervisor);
    CHECK_MEMORY(supervisor);
    supervisor->options = *options;
    supervisor->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    supervisor->slots = calloc((size_t)options->worker_count, sizeof *supervisor->slots);
    pthread_mutex_init(&supervisor->mutex, NULL);
    enum status status = condition_init(&supervisor->started);
    if (status == STATUS_OK && (supervisor->slots == NULL || supervisor->event < 0)) {
        status = error_raise(STATUS_OUT_OF_MEMORY, ERROR_HERE, "a supervisor cannot be made");
    }
    if (status != STATUS_OK) {
        destroy(supervisor);
        return error_forward(status, ERROR_HERE);
    }
    for (int i = 0; i < options->worker_count; i++) {
        supervisor->slots[i].index = i;
        supervisor->slots[i].pid = -1;
        supervisor->slots[i].connection.socket = -1;
    }
    *out = supervisor;
    return STATUS_OK;
}

static enum status start_thread(struct supervisor *supervisor) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&supervisor->thread, NULL, supervisor_run, supervisor);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(error == 0, STATUS_OUT_OF_MEMORY, "the supervisor's thread cannot be started: %s", strerror(error));
    return STATUS_OK;
}

static bool are_all_ready(const struct supervisor *supervisor) {
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        if (supervisor->slots[i].phase != SLOT_READY) {
            return false;
        }
    }
    return true;
}

/* A replica may have half of what it can run more than the least busy one. */
static enum status create_router(struct supervisor *supervisor) {
    int32_t margin = supervisor->slots[0].facts.sequence_limit / 2;
    return replica_router_create(supervisor->options.worker_count, margin, &supervisor->router);
}

static enum status wait_for_workers(struct supervisor *supervisor) {
    pthread_mutex_lock(&supervisor->mutex);
    while (supervisor->start_status == STATUS_OK && !are_all_ready(supervisor)) {
        pthread_cond_wait(&supervisor->started, &supervisor->mutex);
    }
    enum status status = supervisor->start_status;
    if (status == STATUS_OK) {
        status = create_router(supervisor);
        supervisor->is_started = status == STATUS_OK;
    } else {
        error_raise(status, ERROR_HERE, "%s", supervisor->start_message);
    }
    pthread_mutex_unlock(&supervisor->mutex);
    return status;
}

enum status supervisor_open(const struct supervisor_options *options, struct service **out) {
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
    struct supervisor *supervisor = NULL;
    CHECK(options->worker_count >= 1 && options->worker_count <= SUPERVISOR_WORKERS_MAX, STATUS_OUT_OF_RANGE,
          "%d replicas were asked for; 1 to %d are possible", options->worker_count, SUPERVISOR_WORKERS_MAX);
    TRY(create(options, &supervisor));
    supervisor->service.kind = &kind;
    enum status status = start_thread(supervisor);
    if (status == STATUS_OK) {
        status = wait_for_workers(supervisor);
        if (status != STATUS_OK) {
            stop(supervisor);
        }
    }
    if (status != STATUS_OK) {
        destroy(supervisor);
        return error_forward(status, ERROR_HERE);
    }
    *out = &supervisor->service;
    return STATUS_OK;
}

void supervisor_set_arguments(struct service *service, const char *const *arguments) {
    struct supervisor *supervisor = supervisor_of(service);
    pthread_mutex_lock(&supervisor->mutex);
    supervisor->options.arguments = arguments;
    pthread_mutex_unlock(&supervisor->mutex);
}

pid_t supervisor_worker_pid(struct service *service, int index) {
    struct supervisor *supervisor = supervisor_of(service);
    pthread_mutex_lock(&supervisor->mutex);
    pid_t pid = supervisor->slots[index].pid;
    pthread_mutex_unlock(&supervisor->mutex);
    return pid;
}
