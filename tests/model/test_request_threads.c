/*
 * Requests from several threads at once through the public interface: submitted, waited for, cancelled and
 * released at any moment. At the end nothing is left, and what was not given up is what comes alone.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sluice/request.h"
#include "support/model_fixture.h"
#include "weights/fixture.h"

enum {
    THREADS = 4,
    CYCLES = TESTS_ARE_SHORT ? 60 : 800, /* of each thread */
    KINDS = 8,
    PROMPT_MAX = 140,
    ANSWER = 4,
};

struct kind {
    int32_t prompt[PROMPT_MAX];
    size_t prompt_count;
    int32_t answer[ANSWER];
};

struct shared {
    struct sluice_engine *engine;
    struct kind kinds[KINDS];
    atomic_int wrong; /* cmocka's assertions belong to the main thread */
    atomic_int finished;
    atomic_int notified;
};

struct user {
    struct shared *shared;
    pthread_t thread;
    uint64_t random;
};

static int below(struct user *user, int limit) {
    return (int)((model_next_random(&user->random) >> 20) % (uint64_t)limit);
}

/* On the engine's thread, which must leave signals to the program's own. */
static void count_notification(void *context) {
    struct shared *shared = context;
    sigset_t blocked;
    atomic_fetch_add(&shared->notified, 1);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    atomic_fetch_add(&shared->wrong, !sigismember(&blocked, SIGINT) || !sigismember(&blocked, SIGTERM));
}

static struct sluice_request *submit(struct shared *shared, int kind) {
    struct sluice_request_options options = sluice_request_options_default();
    struct sluice_request *request = NULL;
    options.prompt = shared->kinds[kind].prompt;
    options.prompt_count = shared->kinds[kind].prompt_count;
    options.token_limit = ANSWER;
    options.sampling.temperature = kind % 2 * 0.8;
    options.sampling.seed = (uint64_t)kind;
    options.notify = count_notification;
    options.notify_context = shared;
    return sluice_engine_submit(shared->engine, &options, &request) == SLUICE_OK ? request : NULL;
}

/* What has come so far is the beginning of the answer, all of it if the request ended by itself. */
static bool is_right(const struct shared *shared, int kind, const struct sluice_request *request,
                     const struct sluice_request_state *state) {
    bool is_whole = state->finish_reason != SLUICE_FINISH_LENGTH || state->token_count == ANSWER;
    for (size_t i = 0; i < state->token_count; i++) {
        is_whole = is_whole && sluice_request_token(request, i) == shared->kinds[kind].answer[i];
    }
    return is_whole;
}

/* One request, given up after any number of looks at it, or seen through to its end. */
static void use_request(struct user *user) {
    struct shared *shared = user->shared;
    int kind = below(user, KINDS);
    int looks = below(user, 4);
    struct sluice_request *request = submit(shared, kind);
    struct sluice_request_state state = {0};
    if (request == NULL) {
        atomic_fetch_add(&shared->wrong, 1);
        return;
    }
    for (int i = 0; i < looks && state.phase != SLUICE_REQUEST_FINISHED; i++) {
        state =
            sluice_request_wait(request, state.token_count, state.prompt_tokens_done, below(user, 2) * 0.01);
        atomic_fetch_add(&shared->wrong, !is_right(shared, kind, request, &state));
    }
    if (below(user, 3) == 0) {
        sluice_request_cancel(request);
    }
    if (below(user, 2) == 0) {
        state = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
        atomic_fetch_add(&shared->wrong, !is_right(shared, kind, request, &state));
        atomic_fetch_add(&shared->finished, state.finish_reason == SLUICE_FINISH_LENGTH);
    }
    if (below(user, 50) == 0) {
        struct sluice_engine_stats stats = sluice_engine_stats(shared->engine);
        atomic_fetch_add(&shared->wrong, stats.running_requests < 0 || stats.free_pages < 0);
    }
    if (below(user, 200) == 0) {
        sluice_engine_clear_prefix_cache(shared->engine);
    }
    sluice_request_release(&request);
}

static void *run_user(void *context) {
    struct user *user = context;
    for (int i = 0; i < CYCLES; i++) {
        use_request(user);
    }
    return NULL;
}

static void make_answers(struct shared *shared) {
    for (int i = 0; i < KINDS; i++) {
        struct kind *kind = &shared->kinds[i];
        kind->prompt_count = i < 2 ? PROMPT_MAX - (size_t)i : 1 + 3 * (size_t)i;
        model_random_tokens((uint64_t)i / 2, TINY_VOCABULARY, kind->prompt, (int)kind->prompt_count);
        struct sluice_request *request = submit(shared, i);
        assert_non_null(request);
        struct sluice_request_state state = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
        assert_int_equal(state.token_count, ANSWER);
        for (size_t t = 0; t < ANSWER; t++) {
            kind->answer[t] = sluice_request_token(request, t);
        }
        sluice_request_release(&request);
    }
}

/* Waits until what was given up has ended too. */
static struct sluice_engine_stats wait_for_idle(struct sluice_engine *engine) {
    struct sluice_engine_stats stats = sluice_engine_stats(engine);
    while (stats.finished_requests < KINDS + THREADS * CYCLES) {
        stats = sluice_engine_stats(engine);
    }
    return stats;
}

static void test_many_threads(void **state) {
    char directory[FIXTURE_PATH_BYTES];
    static struct shared shared;
    struct user users[THREADS];
    (void)state;
    fixture_make(directory);
    model_synthesise(directory, TINY_CONFIG, NULL, 0);
    struct sluice_engine_options options = model_options(directory);
    options.numerics = SLUICE_NUMERICS_NATIVE;
    options.context_tokens = 256;
    options.sequence_limit = 3; /* fewer than threads: some wait */
    options.step_token_limit = 40;
    options.has_prefix_cache = true;
    options.draft.limit = 1;
    EXPECT_OK(sluice_engine_open(&options, &shared.engine));
    make_answers(&shared);
    for (int i = 0; i < THREADS; i++) {
        users[i] = (struct user){.shared = &shared, .random = (uint64_t)i * 2654435761u + 1};
        assert_int_equal(pthread_create(&users[i].thread, NULL, run_user, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(users[i].thread, NULL);
    }
    struct sluice_engine_stats stats = wait_for_idle(shared.engine);
    assert_int_equal(atomic_load(&shared.wrong), 0);
    assert_true(atomic_load(&shared.finished) > THREADS * CYCLES / 8);
    assert_true(atomic_load(&shared.notified) > atomic_load(&shared.finished));
    assert_int_equal(stats.running_requests + stats.waiting_requests, 0);
    assert_int_equal(stats.free_pages + stats.cached_pages,
                     sluice_engine_facts(shared.engine).memory.page_count);
    EXPECT_OK(sluice_engine_clear_prefix_cache(shared.engine));
    assert_int_equal(sluice_engine_stats(shared.engine).free_pages,
                     sluice_engine_facts(shared.engine).memory.page_count);
    sluice_engine_close(&shared.engine);
    fixture_remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
