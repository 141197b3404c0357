/*
 * A pipeline whose ranks are slow at random (spec parallelism T-17, D-1, D-2, P-22): from one tick under way
 * to twice as many as stages, with a slow first, last or any stage, nothing stalls, every boundary comes in
 * as it was sent, no buffer changes before it has left, and a stage works in three buffers, the first one in
 * two (P-19). The answers are those of one rank.
 *
 * The linker puts this file's functions in front of the communicator (CMakeLists.txt).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "comm/comm.h"
#include "sluice/request.h"
#include "support/model_fixture.h"
#include "weights/fixture.h"

enum {
    STAGES = 3,
    REQUESTS = 5,
    ANSWER = 10,
    PROMPT_MAX = 70,
    STAMPS_MAX = 1 << 16,
    DELAY_MICROSECONDS = 700
};

enum slow_stage { SLOW_FIRST, SLOW_LAST, SLOW_ANY, SLOW_COUNT };

/* Boundaries from one stage to the next, in the order in which they were sent, which is that of arrival. */
struct hop {
    uint64_t stamps[STAMPS_MAX]; /* of their bytes */
    int sent;
    int arrived;
    const void *buffers[8];
    int buffer_count;
};

/* A send or a receive of a boundary that was not waited for yet. */
struct pending {
    const struct comm_request *request;
    const void *memory;
    size_t bytes;
    uint64_t stamp; /* of a send */
    int hop;
    bool is_send;
};

static struct {
    pthread_mutex_t lock;
    bool is_open;
    enum slow_stage slow;
    uint64_t random;
    struct hop hops[STAGES - 1];
    struct pending pending[64];
    int overwritten;
    int changed; /* on the way */
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .random = 88172645463325252u};

enum status __real_comm_start_send(struct comm *comm, struct stream *stream, int to, const void *memory,
                                   size_t bytes, struct comm_request *out);
enum status __real_comm_start_receive_early(struct comm *comm, struct stream *stream, int from, void *memory,
                                            size_t room_bytes, struct comm_request *out);
enum status __real_comm_wait(struct comm *comm, struct comm_request *request);
enum status __real_comm_wait_sized(struct comm *comm, struct comm_request *request, size_t bytes);
enum status __wrap_comm_start_send(struct comm *comm, struct stream *stream, int to, const void *memory,
                                   size_t bytes, struct comm_request *out);
enum status __wrap_comm_start_receive_early(struct comm *comm, struct stream *stream, int from, void *memory,
                                            size_t room_bytes, struct comm_request *out);
enum status __wrap_comm_wait(struct comm *comm, struct comm_request *request);
enum status __wrap_comm_wait_sized(struct comm *comm, struct comm_request *request, size_t bytes);

static uint64_t stamp_of(const void *memory, size_t bytes) {
    const unsigned char *at = memory;
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ at[i]) * 1099511628211u;
    }
    return hash;
}

/* Sleeps up to DELAY_MICROSECONDS on a slow rank. */
static void delay(int stage) {
    pthread_mutex_lock(&watch.lock);
    watch.random = model_next_random(&watch.random);
    long microseconds = (long)(watch.random % DELAY_MICROSECONDS);
    bool is_slow = watch.is_open && (watch.slow == SLOW_ANY || (watch.slow == SLOW_FIRST && stage == 0) ||
                                     (watch.slow == SLOW_LAST && stage == STAGES - 1));
    pthread_mutex_unlock(&watch.lock);
    if (is_slow) {
        nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
    }
}

static struct pending *find_pending(const struct comm_request *request) {
    for (size_t i = 0; i < sizeof watch.pending / sizeof watch.pending[0]; i++) {
        if (watch.pending[i].request == request) {
            return &watch.pending[i];
        }
    }
    return NULL;
}

static void note_buffer(struct hop *hop, const void *memory) {
    int i = 0;
    while (i < hop->buffer_count && hop->buffers[i] != memory) {
        i++;
    }
    if (i == hop->buffer_count && i < (int)(sizeof hop->buffers / sizeof hop->buffers[0])) {
        hop->buffers[hop->buffer_count++] = memory;
    }
}

/* Only boundaries go through a stream: no logits are asked for here. */
static void note_start(const struct comm *comm, const struct stream *stream, int peer, const void *memory,
                       size_t bytes, const struct comm_request *request, bool is_send) {
    pthread_mutex_lock(&watch.lock);
    struct pending *pending = watch.is_open && stream != NULL ? find_pending(NULL) : NULL;
    if (pending != NULL) {
        int hop = is_send ? comm_rank(comm) : peer;
        *pending =
            (struct pending){request, memory, bytes, is_send ? stamp_of(memory, bytes) : 0, hop, is_send};
        if (is_send) {
            watch.hops[hop].stamps[watch.hops[hop].sent++ % STAMPS_MAX] = pending->stamp;
            note_buffer(&watch.hops[hop], memory);
        }
    }
    pthread_mutex_unlock(&watch.lock);
}

enum status __wrap_comm_start_send(struct comm *comm, struct stream *stream, int to, const void *memory,
                                   size_t bytes, struct comm_request *out) {
    if (stream != NULL) {
        delay(comm_rank(comm));
    }
    note_start(comm, stream, to, memory, bytes, out, true);
    return __real_comm_start_send(comm, stream, to, memory, bytes, out);
}

enum status __wrap_comm_start_receive_early(struct comm *comm, struct stream *stream, int from, void *memory,
                                            size_t room_bytes, struct comm_request *out) {
    if (stream != NULL) {
        delay(comm_rank(comm));
    }
    enum status status = __real_comm_start_receive_early(comm, stream, from, memory, room_bytes, out);
    note_start(comm, stream, from, memory, room_bytes, out, false);
    return status;
}

static void check_ended(struct pending *pending, bool is_changed) {
    struct hop *hop = &watch.hops[pending->hop];
    if (pending->is_send) {
        watch.overwritten += is_changed;
    } else {
        uint64_t stamp = stamp_of(pending->memory, pending->bytes);
        watch.changed += stamp != hop->stamps[hop->arrived++ % STAMPS_MAX];
    }
    *pending = (struct pending){0};
}

enum status __wrap_comm_wait(struct comm *comm, struct comm_request *request) {
    pthread_mutex_lock(&watch.lock);
    struct pending *pending = request->state == NULL ? NULL : find_pending(request);
    bool is_changed =
        pending != NULL && pending->is_send && stamp_of(pending->memory, pending->bytes) != pending->stamp;
    pthread_mutex_unlock(&watch.lock);
    enum status status = __real_comm_wait(comm, request);
    if (pending != NULL) {
        pthread_mutex_lock(&watch.lock);
        check_ended(pending, is_changed);
        pthread_mutex_unlock(&watch.lock);
    }
    return status;
}

enum status __wrap_comm_wait_sized(struct comm *comm, struct comm_request *request, size_t bytes) {
    pthread_mutex_lock(&watch.lock);
    struct pending *pending = find_pending(request);
    pthread_mutex_unlock(&watch.lock);
    enum status status = __real_comm_wait_sized(comm, request, bytes);
    if (pending != NULL) {
        pthread_mutex_lock(&watch.lock);
        pending->bytes = bytes;
        check_ended(pending, false);
        pthread_mutex_unlock(&watch.lock);
    }
    return status;
}

static char directory[FIXTURE_PATH_BYTES];
static int32_t prompts[REQUESTS][PROMPT_MAX];
static int32_t alone[REQUESTS][ANSWER];

static struct sluice_engine *open_engine(int stages, int in_flight, int drafts) {
    struct sluice_engine_options options = sluice_engine_options_default();
    struct sluice_engine *engine;
    options.model_directory = directory;
    options.thread_count = 1;
    options.context_tokens = 128;
    options.sequence_limit = 4;
    options.step_token_limit = 9;
    options.draft.limit = drafts;
    options.draft.is_adaptive = false;
    options.parallel.pipeline = stages;
    options.parallel.in_flight = in_flight;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    return engine;
}

static void run(struct sluice_engine *engine, int32_t answers[REQUESTS][ANSWER]) {
    struct sluice_request *requests[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        struct sluice_request_options options = sluice_request_options_default();
        options.prompt = prompts[i];
        options.prompt_count = (size_t)(PROMPT_MAX - 17 * (i % 4));
        options.token_limit = ANSWER;
        options.sampling.temperature = 0.0;
        EXPECT_OK(sluice_engine_submit(engine, &options, &requests[i]));
    }
    for (int i = 0; i < REQUESTS; i++) {
        struct sluice_request_state end = sluice_request_wait(requests[i], SIZE_MAX, SIZE_MAX, -1.0);
        assert_int_equal(end.finish_reason, SLUICE_FINISH_LENGTH);
        for (size_t t = 0; t < ANSWER; t++) {
            answers[i][t] = sluice_request_token(requests[i], t);
        }
        sluice_request_release(&requests[i]);
    }
}

static int set_up(void **state) {
    (void)state;
    fixture_make(directory);
    model_synthesise(directory, LAYOUT_CONFIG, NULL, 0);
    for (int i = 0; i < REQUESTS; i++) {
        model_random_tokens(7 + (uint64_t)i, 512, prompts[i], PROMPT_MAX);
    }
    struct sluice_engine *engine = open_engine(1, 0, 0);
    run(engine, alone);
    sluice_engine_close(&engine);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fixture_remove(directory);
    return 0;
}

static void open_watch(enum slow_stage slow) {
    pthread_mutex_lock(&watch.lock);
    memset(watch.hops, 0, sizeof watch.hops);
    memset(watch.pending, 0, sizeof watch.pending);
    watch.overwritten = 0;
    watch.changed = 0;
    watch.slow = slow;
    watch.is_open = true;
    pthread_mutex_unlock(&watch.lock);
}

static void run_slowly(enum slow_stage slow, int in_flight, int drafts) {
    static int32_t answers[REQUESTS][ANSWER];
    struct sluice_engine *engine = open_engine(STAGES, in_flight, drafts);
    open_watch(slow);
    run(engine, answers);
    sluice_engine_close(&engine);
    watch.is_open = false; /* all ranks have ended */
    assert_memory_equal(answers, alone, sizeof alone);
    assert_int_equal(watch.overwritten, 0);
    assert_int_equal(watch.changed, 0);
    for (int hop = 0; hop < STAGES - 1; hop++) {
        assert_true(watch.hops[hop].sent > ANSWER);
        assert_int_equal(watch.hops[hop].sent, watch.hops[0].sent);
        assert_int_equal(watch.hops[hop].arrived, watch.hops[hop].sent);
        assert_int_equal(watch.hops[hop].buffer_count, hop == 0 ? 2 : 3);
    }
}

static void slow_ranks_change_nothing(void **state) {
    (void)state;
    for (int slow = 0; slow < SLOW_COUNT; slow++) {
        for (int in_flight = 1; in_flight <= 2 * STAGES; in_flight += TESTS_ARE_SHORT ? 2 : 1) {
            run_slowly((enum slow_stage)slow, in_flight, in_flight % 3);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(slow_ranks_change_nothing)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
