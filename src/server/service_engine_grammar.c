/* The thread that does what takes long: compiles grammars, in the order of arrival, and clears the cache. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "server/service_engine_internal.h"
#include "server/wire.h"

enum { ARENA_BYTES = 4096 };

enum status service_engine_submit_later(struct engine_service *service, const struct service_request *request,
                                        struct engine_generation *generation) {
    struct wire_record record = {.kind = WIRE_SUBMIT, .request = *request};
    struct grammar_wait *wait = &generation->wait;
    wire_write(&wait->record, &record);
    TRY(string_buffer_check(&wait->record));
    CHECK(wait->record.length > 0, STATUS_OUT_OF_RANGE, "the request takes more than %d bytes",
          WIRE_BODY_LIMIT);
    wait->is_waiting = true;
    wait->submitted_at = clock_seconds();
    wait->notify = request->notify;
    wait->notify_context = request->notify_context;
    pthread_mutex_lock(&service->mutex);
    if (service->first_waiting == NULL) {
        service->first_waiting = generation;
    } else {
        service->last_waiting->wait.next = generation;
    }
    service->last_waiting = generation;
    pthread_cond_signal(&service->wanted);
    pthread_mutex_unlock(&service->mutex);
    return STATUS_OK;
}

static enum status read_request(const struct grammar_wait *wait, struct arena *arena,
                                struct wire_record *out) {
    struct wire_frame frame;
    size_t frame_bytes;
    TRY(wire_frame_find((const unsigned char *)wait->record.data, wait->record.length, &frame, &frame_bytes));
    return wire_read(&frame, arena, out);
}

/* The mutex is held. */
static void end(struct engine_generation *generation, enum sluice_finish_reason reason, enum status status) {
    if (status != STATUS_OK) {
        snprintf(generation->message, sizeof generation->message, "%.511s", error_last()->message);
    }
    generation->ended = (struct sluice_request_state){.phase = SLUICE_REQUEST_FINISHED,
                                                      .finish_reason = reason,
                                                      .status = (enum sluice_status)status,
                                                      .message = generation->message};
}

/*
 * Tells the engine, unless the caller has lost interest meanwhile. Returns whether it was told. The caller
 * gets to know in any case that the grammar is done with.
 */
static bool hand_over(struct engine_service *service, struct engine_generation *generation,
                      const struct sluice_request_options *options, enum status status) {
    struct grammar_wait *wait = &generation->wait;
    pthread_mutex_lock(&service->mutex);
    bool is_wanted = status == STATUS_OK && !wait->is_cancelled && !wait->is_released;
    bool is_released = wait->is_released;
    bool is_told = false;
    if (is_wanted) {
        status = (enum status)sluice_engine_submit(service->engine, options, &generation->request);
        is_told = status == STATUS_OK;
    }
    wait->is_waiting = false;
    string_buffer_deinit(&wait->record);
    if (!is_told && !is_released) {
        end(generation, wait->is_cancelled ? SLUICE_FINISH_CANCELLED : SLUICE_FINISH_ERROR,
            wait->is_cancelled ? STATUS_OK : status);
    }
    if (!is_released && wait->notify != NULL) {
        wait->notify(wait->notify_context);
    }
    pthread_mutex_unlock(&service->mutex);
    if (is_released) {
        service_engine_free_generation(generation);
    }
    return is_told;
}

/* Compiling takes some of the time that the request has. */
static double time_left(const struct grammar_wait *wait, double timeout_seconds) {
    double left = timeout_seconds - (clock_seconds() - wait->submitted_at);
    return timeout_seconds <= 0.0 ? 0.0 : left > 1e-9 ? left : 1e-9;
}

static void compile(struct engine_service *service, struct engine_generation *generation) {
    struct grammar_wait *wait = &generation->wait;
    struct wire_record record = {0};
    struct arena arena;
    arena_init(&arena, ARENA_BYTES);
    enum status status = read_request(wait, &arena, &record);
    struct sluice_request_options *options = &record.request.options;
    struct sluice_constraint constraint = {0};
    if (status == STATUS_OK) {
        status = rule_book_apply(service->book, &record.request, &constraint);
        options->constraint = constraint;
        options->timeout_seconds = time_left(wait, options->timeout_seconds);
        options->notify = wait->notify;
        options->notify_context = wait->notify_context;
    }
    bool is_told = hand_over(service, generation, options, status);
    if (!is_told && constraint.release != NULL) {
        constraint.release(constraint.context);
    }
    arena_deinit(&arena);
}

/* What is to be done next; false: nothing any more. */
static bool wait_for_work(struct engine_service *service, struct engine_generation **generation,
                          bool *is_clearing) {
    pthread_mutex_lock(&service->mutex);
    while (service->first_waiting == NULL && !service->is_clearing && !service->is_closing) {
        pthread_cond_wait(&service->wanted, &service->mutex);
    }
    *generation = service->first_waiting;
    if (*generation != NULL) {
        service->first_waiting = (*generation)->wait.next;
    }
    *is_clearing = service->is_clearing;
    service->is_clearing = false;
    pthread_mutex_unlock(&service->mutex);
    return *generation != NULL || *is_clearing;
}

static void *run(void *context) {
    struct engine_service *service = context;
    struct engine_generation *generation = NULL;
    bool is_clearing = false;
    while (wait_for_work(service, &generation, &is_clearing)) {
        if (is_clearing) {
            sluice_engine_clear_prefix_cache(service->engine);
        }
        if (generation != NULL) {
            compile(service, generation);
        }
    }
    return NULL;
}

enum status service_engine_start_thread(struct engine_service *service) {
    pthread_mutex_init(&service->mutex, NULL);
    pthread_cond_init(&service->wanted, NULL);
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&service->thread, NULL, run, service);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        pthread_cond_destroy(&service->wanted);
        pthread_mutex_destroy(&service->mutex);
    }
    CHECK(error == 0, STATUS_OUT_OF_MEMORY, "the service's thread cannot be started: %s", strerror(error));
    return STATUS_OK;
}

void service_engine_stop_thread(struct engine_service *service) {
    pthread_mutex_lock(&service->mutex);
    service->is_closing = true;
    pthread_cond_signal(&service->wanted);
    pthread_mutex_unlock(&service->mutex);
    pthread_join(service->thread, NULL);
    pthread_cond_destroy(&service->wanted);
    pthread_mutex_destroy(&service->mutex);
}
