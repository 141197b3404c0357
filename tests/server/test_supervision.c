/* Who watches over workers, with workers that only count: what they do wrong can be told exactly. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "server/counting_worker.h"
#include "server/supervisor.h"
#include "support/service_client.h"

enum { PROMPT = 5, ANSWER = 30 };

static struct supervisor_options options_of(int workers, const char *const *arguments) {
    struct supervisor_options options = supervisor_options_default();
    options.program = COUNTING_WORKER;
    options.arguments = arguments;
    options.worker_count = workers;
    options.restart_seconds = 0.01;
    options.ping_seconds = 0.05;
    options.deadline_seconds = 0.5;
    return options;
}

static struct service *open_good(int workers) {
    static const char *const arguments[] = {"counting_worker", "good", NULL};
    struct supervisor_options options = options_of(workers, arguments);
    struct service *service;
    EXPECT_OK(supervisor_open(&options, &service));
    return service;
}

static void nap(double seconds) {
    nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
}

static enum status submit_count(struct service_client *client, int32_t first, int64_t limit,
                                struct service_call *call) {
    int32_t prompt[PROMPT] = {first, 1, 2, 3, 4};
    struct sluice_request_options options = sluice_request_options_default();
    options.prompt = prompt;
    options.prompt_count = PROMPT;
    options.token_limit = limit;
    struct service_request request = service_request_of(&options);
    return service_call_submit(client, &request, call);
}

static void expect_count(const struct service_call *call, int32_t first, size_t count) {
    assert_int_equal(call->answer.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(call->answer.tokens[i], (first + PROMPT + (int32_t)i) % 1000);
    }
}

/* Its worker ends at position 9, and the next one at the same place; what ran beside it goes on. */
static void expect_kills_twice(int32_t misdeed, const char *words) {
    struct service *service = open_good(1);
    struct service_client client;
    struct service_call killer;
    struct service_call other;
    service_client_init(&client, service);
    EXPECT_OK(submit_count(&client, 7, 4000, &other));
    service_call_wait(&other, 1);
    EXPECT_OK(submit_count(&client, misdeed, ANSWER, &killer));
    service_call_wait(&killer, SIZE_MAX);
    assert_int_equal(killer.state.finish_reason, SLUICE_FINISH_ERROR);
    assert_int_equal(killer.state.status, SLUICE_PEER_LOST);
    assert_non_null(strstr(killer.message, "try again"));
    assert_non_null(strstr(killer.message, words));
    /* Positions 5 to 8 came before the first death, nothing between the two. */
    assert_int_equal(killer.answer.count, 4);
    service_call_release(&killer);
    service_call_wait(&other, SIZE_MAX);
    assert_int_equal(other.state.finish_reason, SLUICE_FINISH_LENGTH);
    assert_int_equal(other.answer.count, 4000);
    struct service_stats stats;
    service->kind->stats(service, &stats);
    assert_int_equal(stats.restarts, 2);
    assert_int_equal(stats.ready_count, 1);
    service_call_release(&other);
    service_client_deinit(&client);
    service->kind->close(&service);
}

static void test_a_request_that_kills_twice_ends(void **state) {
    (void)state;
    expect_kills_twice(COUNTING_DIES, "killed by signal 9");
}

/* Nobody hears of the errors that a lost rank is to all requests: the worker ends, and another goes on. */
static void test_a_lost_rank_ends_the_worker(void **state) {
    (void)state;
    expect_kills_twice(COUNTING_LOSES, "ended with code 1");
}

/* As where the thread that shows what requests got is the one that hangs. */
static void test_a_silent_loss_ends_the_worker(void **state) {
    (void)state;
    expect_kills_twice(COUNTING_STOPS, "ended with code 1");
}

/*
 * A grammar is compiled before its request has a place, and may kill the worker there, although one that came
 * before it has not been compiled either.
 */
static void test_a_grammar_that_kills_twice_ends(void **state) {
    (void)state;
    enum { BEFORE = 12, LONG_ANSWER = 3000 };
    static struct service_call before[BEFORE];
    static struct service_call late, killer;
    struct service *service = open_good(1);
    struct service_client client;
    int32_t prompt[1] = {3};
    service_client_init(&client, service);
    for (int i = 0; i < BEFORE; i++) {
        EXPECT_OK(submit_count(&client, 10 + i, LONG_ANSWER, &before[i]));
    }
    struct sluice_request_options options = sluice_request_options_default();
    options.prompt = prompt;
    options.prompt_count = 1;
    options.token_limit = 10;
    struct service_request request = service_request_of(&options);
    request.rules.grammar = SERVICE_GRAMMAR_JSON;
    prompt[0] = COUNTING_IS_LATE;
    EXPECT_OK(service_call_submit(&client, &request, &late));
    prompt[0] = 3;
    EXPECT_OK(service_call_submit(&client, &request, &killer));
    service_call_wait(&killer, SIZE_MAX);
    assert_int_equal(killer.state.status, SLUICE_PEER_LOST);
    struct service_stats stats;
    service->kind->stats(service, &stats);
    assert_int_equal(stats.restarts + (stats.ready_count == 0), 2);
    service_call_release(&killer);
    service_call_wait(&late, SIZE_MAX);
    assert_int_equal(late.state.finish_reason, SLUICE_FINISH_LENGTH);
    assert_int_equal(late.answer.count, 10);
    service_call_release(&late);
    for (int i = 0; i < BEFORE; i++) {
        service_call_wait(&before[i], SIZE_MAX);
        assert_int_equal(before[i].state.finish_reason, SLUICE_FINISH_LENGTH);
        assert_int_equal(before[i].answer.count, LONG_ANSWER);
        service_call_release(&before[i]);
    }
    service_client_deinit(&client);
    service->kind->close(&service);
}

/* A worker that answers pings and makes no step with work at hand. */
static void test_a_step_that_never_ends(void **state) {
    (void)state;
    static const char *const arguments[] = {"counting_worker", "good", NULL};
    struct supervisor_options options = options_of(1, arguments);
    struct service *service;
    struct service_client client;
    struct service_call call;
    options.deadline_seconds = 60.0;
    options.step_seconds = 0.3;
    EXPECT_OK(supervisor_open(&options, &service));
    service_client_init(&client, service);
    EXPECT_OK(submit_count(&client, COUNTING_HANGS, ANSWER, &call));
    service_call_wait(&call, SIZE_MAX);
    assert_int_equal(call.state.status, SLUICE_PEER_LOST);
    assert_non_null(strstr(call.message, "no step"));
    service_call_release(&call);
    service_client_deinit(&client);
    service->kind->close(&service);
}

static void expect_no_start(const char *how, enum status status, const char *words) {
    const char *const arguments[] = {"counting_worker", how, NULL};
    struct supervisor_options options = options_of(2, arguments);
    struct service *service = NULL;
    assert_int_equal(supervisor_open(&options, &service), status);
    if (strstr(error_last()->message, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error_last()->message, words);
    }
}

static void test_workers_that_do_not_start(void **state) {
    (void)state;
    expect_no_start("bad", STATUS_BAD_CONFIG, "the model does not please");
    expect_no_start("crash", STATUS_PEER_LOST, "killed by signal 9");
    const char *const arguments[] = {"nothing", NULL};
    struct supervisor_options options = options_of(1, arguments);
    struct service *service = NULL;
    options.program = "/nonexistent/worker";
    assert_int_equal(supervisor_open(&options, &service), STATUS_IO);
    assert_non_null(strstr(error_last()->message, "/nonexistent/worker"));
    /* None is left, dead or alive. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* After too many deaths it stays down: requests end, new ones are refused, and it says why. */
static void test_gives_up(void **state) {
    (void)state;
    static const char *const arguments[] = {"counting_worker", "good", NULL};
    struct supervisor_options options = options_of(1, arguments);
    struct service *service;
    struct service_client client;
    struct service_call call;
    const char *why;
    options.restart_limit = 0;
    EXPECT_OK(supervisor_open(&options, &service));
    assert_true(service->kind->is_ready(service, &why));
    service_client_init(&client, service);
    EXPECT_OK(submit_count(&client, COUNTING_IDLES, ANSWER, &call));
    kill(supervisor_worker_pid(service, 0), SIGKILL);
    service_call_wait(&call, SIZE_MAX);
    assert_int_equal(call.state.status, SLUICE_PEER_LOST);
    service_call_release(&call);
    assert_false(service->kind->is_ready(service, &why));
    assert_non_null(strstr(why, "killed by signal 9"));
    assert_int_equal(submit_count(&client, 1, ANSWER, &call), STATUS_PEER_LOST);
    service_client_deinit(&client);
    service->kind->close(&service);
}

static void test_cancel_and_release_at_any_moment(void **state) {
    (void)state;
    enum { CALLS = 300 };
    static struct service_call calls[CALLS];
    struct service *service = open_good(2);
    struct service_client client;
    uint64_t random = 99;
    service_client_init(&client, service);
    for (int i = 0; i < CALLS; i++) {
        int what = (int)(model_next_random(&random) % 6);
        EXPECT_OK(submit_count(&client, what == 5 ? COUNTING_IDLES : i, ANSWER, &calls[i]));
        if (what >= 3) {
            service_call_wait(&calls[i], what == 4 ? 3 : 0);
            service->kind->cancel(calls[i].generation);
        }
        if (what == 2) {
            service_call_release(&calls[i]);
        }
        if (i == CALLS / 2) {
            kill(supervisor_worker_pid(service, 0), SIGKILL);
        }
    }
    for (int i = 0; i < CALLS; i++) {
        if (calls[i].generation != NULL) {
            service_call_wait(&calls[i], SIZE_MAX);
            if (calls[i].state.finish_reason == SLUICE_FINISH_LENGTH) {
                expect_count(&calls[i], i, ANSWER);
            } else {
                assert_int_equal(calls[i].state.finish_reason, SLUICE_FINISH_CANCELLED);
            }
            service_call_release(&calls[i]);
        }
    }
    struct service_stats stats;
    double deadline = clock_seconds() + 10.0;
    do {
        assert_true(clock_seconds() < deadline);
        nap(0.01);
        service->kind->stats(service, &stats);
    } while (stats.engine.running_requests + stats.engine.waiting_requests > 0);
    service_client_deinit(&client);
    service->kind->close(&service);
}

static void test_refusals_of_the_worker_are_ends(void **state) {
    (void)state;
    struct service *service = open_good(1);
    struct service_client client;
    struct service_call call;
    int32_t prompt[1] = {3};
    service_client_init(&client, service);
    struct sluice_request_options options = sluice_request_options_default();
    options.prompt = prompt;
    options.prompt_count = 1;
    options.priority = 1;
    struct service_request request = service_request_of(&options);
    EXPECT_OK(service_call_submit(&client, &request, &call));
    service_call_wait(&call, SIZE_MAX);
    assert_int_equal(call.state.status, SLUICE_UNSUPPORTED);
    assert_non_null(strstr(call.message, "no priorities"));
    service_call_release(&call);
    prompt[0] = 2000;
    assert_int_equal(service_call_submit(&client, &request, &call), STATUS_OUT_OF_RANGE);
    assert_non_null(strstr(error_last()->message, "2000"));
    service_client_deinit(&client);
    service->kind->close(&service);
}

static void test_stats_and_caches_of_all(void **state) {
    (void)state;
    struct service *service = open_good(3);
    struct service_stats stats;
    double deadline = clock_seconds() + 10.0;
    EXPECT_OK(service->kind->clear_prefix_cache(service));
    do {
        assert_true(clock_seconds() < deadline);
        nap(0.01);
        service->kind->stats(service, &stats);
    } while (stats.engine.cached_prompt_tokens < 3);
    assert_int_equal(stats.worker_count, 3);
    kill(supervisor_worker_pid(service, 1), SIGKILL);
    do {
        assert_true(clock_seconds() < deadline);
        nap(0.01);
        service->kind->stats(service, &stats);
    } while (stats.restarts < 1 || stats.ready_count < 3);
    /* Counters of the dead count on. */
    assert_int_equal(stats.engine.cached_prompt_tokens, 3);
    service->kind->close(&service);
}

static long resident_kilobytes(void) {
    long pages = 0;
    long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &pages, &resident), 2);
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void test_memory_of_idle_generations(void **state) {
    (void)state;
    enum { IDLE = 1000, TOKENS = 4000, LIMIT_KILOBYTES = 100 << 10 };
    static struct service_call calls[IDLE];
    static int32_t prompt[TOKENS] = {COUNTING_IDLES};
    struct service *service = open_good(1);
    struct service_client client;
    service_client_init(&client, service);
    long before = resident_kilobytes();
    for (int i = 0; i < IDLE; i++) {
        struct sluice_request_options options = sluice_request_options_default();
        options.prompt = prompt;
        options.prompt_count = TOKENS;
        options.token_limit = 10;
        struct service_request request = service_request_of(&options);
        EXPECT_OK(service_call_submit(&client, &request, &calls[i]));
    }
    struct service_stats stats;
    double deadline = clock_seconds() + 20.0;
    do {
        assert_true(clock_seconds() < deadline);
        nap(0.01);
        service->kind->stats(service, &stats);
    } while (stats.engine.running_requests < IDLE);
    assert_true(TESTS_ARE_SHORT || resident_kilobytes() - before < LIMIT_KILOBYTES);
    for (int i = 0; i < IDLE; i++) {
        service_call_release(&calls[i]);
    }
    service_client_deinit(&client);
    service->kind->close(&service);
}

/* A front that is killed takes its workers with it. */
static void test_no_orphans(void **state) {
    (void)state;
    int pipe_ends[2];
    pid_t worker = -1;
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t front = fork();
    if (front == 0) {
        struct service *service = open_good(1);
        worker = supervisor_worker_pid(service, 0);
        ssize_t written = write(pipe_ends[1], &worker, sizeof worker);
        (void)written;
        pause();
    }
    assert_int_equal(read(pipe_ends[0], &worker, sizeof worker), sizeof worker);
    assert_int_equal(kill(worker, 0), 0);
    kill(front, SIGKILL);
    assert_int_equal(waitpid(front, NULL, 0), front);
    double deadline = clock_seconds() + 5.0;
    while (kill(worker, 0) == 0) {
        char path[64];
        char line[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", (int)worker);
        FILE *file = fopen(path, "r");
        if (file == NULL || fgets(line, sizeof line, file) == NULL || strstr(line, ") Z ") != NULL) {
            if (file != NULL) {
                fclose(file);
            }
            break; /* dead: it is not ours to bury */
        }
        fclose(file);
        assert_true(clock_seconds() < deadline);
        nap(0.01);
    }
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_orphans), /* first: it forks, and no thread must be there yet */
        cmocka_unit_test(test_workers_that_do_not_start),
        cmocka_unit_test(test_a_request_that_kills_twice_ends),
        cmocka_unit_test(test_a_lost_rank_ends_the_worker),
        cmocka_unit_test(test_a_silent_loss_ends_the_worker),
        cmocka_unit_test(test_a_grammar_that_kills_twice_ends),
        cmocka_unit_test(test_a_step_that_never_ends),
        cmocka_unit_test(test_gives_up),
        cmocka_unit_test(test_cancel_and_release_at_any_moment),
        cmocka_unit_test(test_refusals_of_the_worker_are_ends),
        cmocka_unit_test(test_stats_and_caches_of_all),
        cmocka_unit_test(test_memory_of_idle_generations),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
