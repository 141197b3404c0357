/*
 * The threads that do what takes long: they compile grammars, each in the order of arrival, and the quick one
 * clears the cache. A grammar that is no small effort goes on to the slow one, so that it delays others by
 * that.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "server/service_engine_internal.h"
#include "server/wire.h"

enum { ARENA_BYTES = 4096 };

static void line_up(struct compile_lane *lane, struct engine_generation *generation) {
    pthread_mutex_lock(&lane->service->mutex);
    generation->wait.next = NULL;
    if (lane->first_waiting == NULL) {
        lane->first_waiting = generation;
    } else {
        lane->last_waiting->wait.next = generation;
    }
    lane->last_waiting = generation;
    pthread_cond_signal(&lane->wanted);
    pthread_mutex_unlock(&lane->service->mutex);
}

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
    line_up(&service->lanes[COMPILE_LANE_QUICK], generation);
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

/* Whether anybody still waits for the answer. */
static bool is_wanted(struct engine_service *service, const struct grammar_wait *wait) {
    pthread_mutex_lock(&service->mutex);
    bool is_wanted = !wait->is_cancelled && !wait->is_released;
    pthread_mutex_unlock(&service->mutex);
    return is_wanted;
}

static void compile(struct compile_lane *lane, struct engine_generation *generation) {
    struct engine_service *service = lane->service;
    struct compile_lane *slow = &service->lanes[COMPILE_LANE_SLOW];
    struct grammar_wait *wait = &generation->wait;
    struct wire_record record = {0};
    struct arena arena;
    arena_init(&arena, ARENA_BYTES);
    enum status status = read_request(wait, &arena, &record);
    struct sluice_request_options *options = &record.request.options;
    struct sluice_constraint constraint = {0};
    bool is_done = true;
    if (status == STATUS_OK && is_wanted(service, wait)) {
        status = rule_book_apply(service->book, &record.request,
                                 lane == slow ? RULE_EFFORT_ALL : RULE_EFFORT_SMALL, &constraint, &is_done);
        options->constraint = constraint;
        options->timeout_seconds = time_left(wait, options->timeout_seconds);
        options->notify = wait->notify;
        options->notify_context = wait->notify_context;
    }
    if (!is_done) {
        line_up(slow, generation);
    } else if (!hand_over(service, generation, options, status) && constraint.release != NULL) {
        constraint.release(constraint.context);
    }
    arena_deinit(&arena);
}

/* What is to be done next; false: nothing any more. */
static bool wait_for_work(struct compile_lane *lane, struct engine_generation **generation,
                          bool *is_clearing) {
    struct engine_service *service = lane->service;
    bool clears = lane == &service->lanes[COMPILE_LANE_QUICK];
    pthread_mutex_lock(&service->mutex);
    while (lane->first_waiting == NULL && !(clears && service->is_clearing) && !lane->is_closing) {
        pthread_cond_wait(&lane->wanted, &service->mutex);
    }
    *generation = lane->first_waiting;
    if (*generation != NULL) {
        lane->first_waiting = (*generation)->wait.next;
    }
    *is_clearing = clears && service->is_clearing;
    service->is_clearing = service->is_clearing && !clears;
    pthread_mutex_unlock(&service->mutex);
    return *generation != NULL || *is_clearing;
}

static void *run(void *context) {
    struct compile_lane *lane = context;
    struct engine_generation *generation = NULL;
    bool is_clearing = false;
    while (wait_for_work(lane, &generation, &is_clearing)) {
        if (is_clearing) {
            sluice_engine_clear_prefix_cache(lane->service->engine);
        }
        if (generation != NULL) {
            compile(lane, generation);
        }
    }
    return NULL;
}

/* The lanes from the first one on, so many, in their order: the quick one may hand things to the slow one. */
static void stop_lanes(struct engine_service *service, int count) {
    for (int i = 0; i < count; i++) {
        struct compile_lane *lane = &service->lanes[i];
        pthread_mutex_lock(&service->mutex);
        lane->is_closing = true;
        pthread_cond_signal(&lane->wanted);
        pthread_mutex_unlock(&service->mutex);
        pthread_join(lane->thread, NULL);
        pthread_cond_destroy(&lane->wanted);
    }
    pthread_mutex_destroy(&service->mutex);
}

enum status service_engine_start_threads(struct engine_service *service) {
    int error = 0;
    int count = 0;
    sigset_t all;
    sigset_t before;
    pthread_mutex_init(&service->mutex, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (error == 0 && count < COMPILE_LANES) {
        struct compile_lane *lane = &service->lanes[count];
        lane->service = service;
        pthread_cond_init(&lane->wanted, NULL);
        error = pthread_create(&lane->thread, NULL, run, lane);
        count += error == 0 ? 1 : 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        pthread_cond_destroy(&service->lanes[count].wanted);
        stop_lanes(service, count);
    }
    CHECK(error == 0, STATUS_OUT_OF_MEMORY, "a thread of the service cannot be started: %s", strerror(error));
    return STATUS_OK;
}

void service_engine_stop_threads(struct engine_service *service) {
    stop_lanes(service, COMPILE_LANES);
}
