/*
 * A replica's thread: takes what was submitted, runs rounds while there is something to run, and shows
 * requests what each round gave them. Replicas that share experts sleep and wake together: whoever finds work
 * after all slept calls the others.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/condition.h"
#include "engine/engine_internal.h"

static enum sluice_request_phase phase_of(const struct sequence *sequence) {
    if (sequence->phase == SEQUENCE_FINISHED) {
        return SLUICE_REQUEST_FINISHED;
    }
    if (sequence->phase == SEQUENCE_WAITING) {
        return SLUICE_REQUEST_WAITING;
    }
    return sequence_is_answering(sequence) ? SLUICE_REQUEST_ANSWERING : SLUICE_REQUEST_READING;
}

static double since_submission(const struct sequence *sequence, double moment) {
    return moment == 0.0 ? 0.0 : moment - sequence->submit_seconds;
}

/* What was read once stays read, though a sequence that gave its memory to another reads it again. */
static size_t prompt_tokens_done(const struct sluice_request *request) {
    const struct sequence *sequence = &request->sequence;
    int32_t done = sequence->computed < sequence->prompt_count ? sequence->computed : sequence->prompt_count;
    size_t shown = request->state.prompt_tokens_done;
    return shown > (size_t)done ? shown : (size_t)done;
}

/* Shows the sequence's progress to whoever waits. The mutex is held. */
static void publish(struct sluice_request *request) {
    const struct sequence *sequence = &request->sequence;
    request->state = (struct sluice_request_state){
        .phase = phase_of(sequence),
        .finish_reason = sequence->finish_reason,
        .status = (enum sluice_status)sequence->status,
        /* The sentence is written once, before the end is shown: who reads an earlier state has no part in
           it. */
        .message = sequence->finish_reason == SLUICE_FINISH_NONE ? "" : sequence->message,
        .prompt_tokens_done = prompt_tokens_done(request),
        .cached_prompt_tokens = (size_t)sequence->cached_prompt_tokens,
        .token_count = (size_t)(sequence->token_count - sequence->prompt_count),
        .verified_drafts = (size_t)sequence->verified_drafts,
        .accepted_drafts = (size_t)sequence->accepted_drafts,
        .preemptions = (size_t)sequence->preemptions,
        .queue_seconds = since_submission(sequence, sequence->start_seconds),
        .first_token_seconds = since_submission(sequence, sequence->first_token_seconds),
        .last_token_seconds = since_submission(sequence, sequence->last_token_seconds),
    };
    pthread_cond_broadcast(&request->changed);
    if (request->notify != NULL) {
        request->notify(request->notify_context);
    }
}

void engine_request_free(struct sluice_request *request) {
    const struct sluice_constraint *constraint = &request->sequence.rules.constraint;
    if (constraint->release != NULL) {
        constraint->release(constraint->context);
    }
    sequence_deinit(&request->sequence);
    pthread_cond_destroy(&request->changed);
    free(request);
}

void engine_loop_finished(void *context, struct sequence *sequence) {
    struct engine_replica *replica = context;
    struct sluice_request *request = (struct sluice_request *)(void *)sequence;
    request->next_finished = replica->first_finished;
    replica->first_finished = request;
}

/*
 * Shows the ends of the round. The mutex is held, so a caller who sees an end sees it in the stats too; after
 * that the request is the caller's, or nobody's. Returns those that are nobody's.
 */
static struct sluice_request *publish_finished(struct engine_replica *replica) {
    struct sluice_request *abandoned = NULL;
    while (replica->first_finished != NULL) {
        struct sluice_request *request = replica->first_finished;
        replica->first_finished = request->next_finished;
        replica->open_requests--;
        engine_routing_learn(replica, request->sequence.tokens, request->sequence.token_count);
        if (request->is_released) {
            request->next_finished = abandoned;
            abandoned = request;
        }
        publish(request);
    }
    return abandoned;
}

/* Shows all that run or wait how far they are. */
static void publish_lists(struct engine_replica *replica) {
    const struct scheduler *scheduler = replica->work.scheduler;
    for (int is_waiting = 0; is_waiting < 2; is_waiting++) {
        struct sequence *sequence = scheduler_first(scheduler, is_waiting);
        for (; sequence != NULL; sequence = sequence->next) {
            struct sluice_request *request = (struct sluice_request *)(void *)sequence;
            bool has_changed =
                request->state.phase != phase_of(sequence) ||
                request->state.token_count != (size_t)(sequence->token_count - sequence->prompt_count) ||
                request->state.prompt_tokens_done != prompt_tokens_done(request);
            if (has_changed) {
                publish(request);
            }
        }
    }
}

static void mark_cancelled(struct engine_replica *replica) {
    const struct scheduler *scheduler = replica->work.scheduler;
    for (int is_waiting = 0; is_waiting < 2; is_waiting++) {
        struct sequence *sequence = scheduler_first(scheduler, is_waiting);
        for (; sequence != NULL; sequence = sequence->next) {
            const struct sluice_request *request = (const struct sluice_request *)(const void *)sequence;
            sequence->is_cancelled = replica->is_closing || request->is_cancelled;
        }
    }
}

/* Takes over what was asked for since the last look. The mutex is held. */
static void take_wishes(struct engine_replica *replica) {
    while (replica->first_submitted != NULL) {
        struct sluice_request *request = replica->first_submitted;
        replica->first_submitted = request->next_submitted;
        scheduler_submit(replica->work.scheduler, &request->sequence);
    }
    replica->last_submitted = NULL;
    if (replica->has_cancellations || replica->is_closing) {
        mark_cancelled(replica);
        replica->has_cancellations = false;
    }
    if (replica->is_clearing) {
        if (replica->work.prefixes != NULL) {
            prefix_cache_clear(replica->work.prefixes);
        }
        engine_work_stats(&replica->work, &replica->stats);
        replica->is_clearing = false;
        pthread_cond_broadcast(&replica->cleared);
    }
}

/* Whether the thread has something to do. Its end is not there before all replicas know of it. */
static bool is_wanted(const struct engine_replica *replica) {
    return replica->first_submitted != NULL || replica->has_cancellations || replica->is_clearing ||
           (replica->is_closing && !replica->has_announced_end) ||
           (replica->called_exchange > replica->work.exchanges && !replica->work.is_lost);
}

/* Sleeps until something is asked for, or until the next deadline of a request that waits. */
static void wait_for_wishes(struct engine_replica *replica) {
    while (!is_wanted(replica)) {
        double deadline = scheduler_next_deadline(replica->work.scheduler);
        if (deadline == 0.0) {
            pthread_cond_wait(&replica->wanted, &replica->mutex);
            continue;
        }
        if (!condition_wait_until(&replica->wanted, &replica->mutex, deadline)) {
            return;
        }
    }
}

/* All replicas sleep, or are about to: they come to the next exchange. */
static void call_others(const struct engine_replica *replica) {
    const struct sluice_engine *engine = replica->engine;
    for (int i = 0; i < engine->replica_count; i++) {
        struct engine_replica *other = &engine->replicas[i];
        if (other != replica) {
            pthread_mutex_lock(&other->mutex);
            other->called_exchange = replica->work.exchanges + 1;
            pthread_cond_signal(&other->wanted);
            pthread_mutex_unlock(&other->mutex);
        }
    }
}

/* One look at the wishes and one round; false when the engine closes and nothing runs any more. */
static bool run_once(struct engine_replica *replica, bool *has_work) {
    pthread_mutex_lock(&replica->mutex);
    if (!*has_work) {
        wait_for_wishes(replica);
    }
    take_wishes(replica);
    replica->work.is_ending = replica->is_closing;
    pthread_mutex_unlock(&replica->mutex);
    if (!*has_work) {
        call_others(replica);
    }
    *has_work = engine_work_run(&replica->work);
    replica->has_announced_end = replica->work.is_ending;
    pthread_mutex_lock(&replica->mutex);
    engine_work_stats(&replica->work, &replica->stats);
    publish_lists(replica);
    struct sluice_request *abandoned = publish_finished(replica);
    pthread_mutex_unlock(&replica->mutex);
    while (abandoned != NULL) {
        struct sluice_request *request = abandoned;
        abandoned = request->next_finished;
        engine_request_free(request);
    }
    return *has_work || !replica->work.tick.is_end;
}

/* What is learned first is what a request would otherwise be the first to show. */
static void begin(struct engine_replica *replica) {
    enum status status = engine_work_measure(&replica->work);
    pthread_mutex_lock(&replica->mutex);
    replica->start_status = status;
    if (status != STATUS_OK) {
        snprintf(replica->start_message, sizeof replica->start_message, "%s", error_last()->message);
    }
    replica->has_started = true;
    engine_work_stats(&replica->work, &replica->stats);
    pthread_cond_broadcast(&replica->cleared);
    pthread_mutex_unlock(&replica->mutex);
}

enum status engine_loop_await_start(struct engine_replica *replica) {
    pthread_mutex_lock(&replica->mutex);
    while (!replica->has_started) {
        pthread_cond_wait(&replica->cleared, &replica->mutex);
    }
    pthread_mutex_unlock(&replica->mutex);
    CHECK(replica->start_status == STATUS_OK, replica->start_status, "%s", replica->start_message);
    return STATUS_OK;
}

static void *run_loop(void *context) {
    bool has_work = false;
    begin(context);
    while (run_once(context, &has_work)) {
    }
    return NULL;
}

enum status engine_loop_start(struct engine_replica *replica) {
    /* Signals are for the threads that know what to do with them; a thread inherits its maker's mask. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&replica->thread, NULL, run_loop, replica);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(error == 0, STATUS_OUT_OF_MEMORY, "the engine's thread cannot be started (error %d)", error);
    replica->has_thread = true;
    return STATUS_OK;
}

void engine_loop_tell_end(struct engine_replica *replica) {
    if (replica->has_thread) {
        pthread_mutex_lock(&replica->mutex);
        replica->is_closing = true;
        pthread_cond_signal(&replica->wanted);
        pthread_mutex_unlock(&replica->mutex);
    }
}

void engine_loop_join(struct engine_replica *replica) {
    if (replica->has_thread) {
        pthread_join(replica->thread, NULL);
        replica->has_thread = false;
    }
}
