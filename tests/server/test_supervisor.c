/*
 * Workers that die, hang and do not start: every accepted request ends with the text it would have had, and
 * nothing is left behind (spec parallelism F-3, F-4 a, T-24). The workers are those of the program, on
 * mini-v4.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "server/service_engine.h"
#include "server/supervisor.h"
#include "support/rule_cases.h"
#include "support/service_client.h"

#define MODEL "--model=" SLUICE_SOURCE_DIR "/models/mini-v4"

static const char *const arguments[] = {
    "sluice", "worker", MODEL, "--max-model-len=512", "--max-num-seqs=8", "--threads=1", "--chunk-tokens=128",
    NULL};

static struct supervisor_options options_of(int workers) {
    struct supervisor_options options = supervisor_options_default();
    options.program = SLUICE_PROGRAM;
    options.arguments = arguments;
    options.worker_count = workers;
    options.restart_seconds = 0.01;
    options.restart_limit = 100;
    return options;
}

static void nap(double seconds) {
    nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
}

static void wait_until_ready(struct service *service, int count) {
    struct service_stats stats = {0};
    double deadline = clock_seconds() + 60.0;
    while (stats.ready_count < count) {
        assert_true(clock_seconds() < deadline);
        nap(0.005);
        service->kind->stats(service, &stats);
    }
}

/* The planned requests, with rules or without, and what they give undisturbed. */
struct plan {
    struct request_fixture *fixture;
    bool has_rules;
    struct answer expected[REQUESTS];
};

static void submit_planned(const struct plan *plan, struct service_client *client, int index,
                           struct service_call *call) {
    struct sluice_request_options options = request_options(&plan->fixture->requests[index]);
    struct service_request request = service_request_of(&options);
    if (plan->has_rules) {
        request.rules = rule_case_rules(index % RULE_CASES);
    }
    EXPECT_OK(service_call_submit(client, &request, call));
}

/* Without rules it is known; with rules an engine in this process answers. */
static void fill_plan(struct plan *plan) {
    static struct service_call call;
    struct sluice_engine_options options = request_engine_options();
    struct service *service;
    struct service_client client;
    EXPECT_OK(service_engine_open(&options, NULL, &service));
    service_client_init(&client, service);
    for (int i = 0; i < REQUESTS; i++) {
        submit_planned(plan, &client, i, &call);
        service_call_wait(&call, SIZE_MAX);
        rule_case_expect_kept(i % RULE_CASES, &call.answer);
        plan->expected[i] = call.answer;
        service_call_release(&call);
    }
    service_client_deinit(&client);
    service->kind->close(&service);
}

static const struct plan *make_plan(struct request_fixture *fixture, bool has_rules) {
    static struct plan plans[2];
    struct plan *plan = &plans[has_rules];
    if (plan->fixture == NULL) {
        plan->fixture = fixture;
        plan->has_rules = has_rules;
        memcpy(plan->expected, fixture->alone, sizeof plan->expected);
        if (has_rules) {
            fill_plan(plan);
        }
    }
    return plan;
}

/* All running requests and what they hold are gone. */
static void expect_idle(struct service *service) {
    struct service_stats stats;
    double deadline = clock_seconds() + 10.0;
    do {
        assert_true(clock_seconds() < deadline);
        nap(0.01);
        service->kind->stats(service, &stats);
    } while (stats.engine.running_requests + stats.engine.waiting_requests > 0 ||
             stats.engine.free_pages + stats.engine.cached_pages !=
                 service->kind->facts(service).memory.page_count);
}

static void expect_answer(const struct plan *plan, int index, const struct answer *answer) {
    if (memcmp(answer, &plan->expected[index], sizeof *answer) != 0) {
        fail_msg("request %d (%s) differs beside dying workers", index,
                 plan->has_rules ? rule_case_name(index % RULE_CASES) : "no rules");
    }
}

/* A request that was hit twice between two tokens may end early: it says so, and what came is right. */
static int expect_answer_or_apology(const struct plan *plan, int index, struct service_call *call) {
    const struct answer *expected = &plan->expected[index];
    if (call->state.finish_reason != SLUICE_FINISH_ERROR) {
        expect_answer(plan, index, &call->answer);
        return 0;
    }
    assert_int_equal(call->state.status, SLUICE_PEER_LOST);
    assert_non_null(strstr(call->message, "try again"));
    assert_true(call->answer.count < expected->count);
    assert_memory_equal(call->answer.tokens, expected->tokens, call->answer.count * sizeof *expected->tokens);
    return 1;
}

/* Runs all planned requests and kills workers with `signal_number` meanwhile; returns how many it hit. */
static int run_under_fire(const struct plan *plan, struct service *service, int workers, int kills,
                          int signal_number) {
    static struct service_call calls[REQUESTS];
    struct service_client client;
    int killed = 0;
    int apologies = 0;
    service_client_init(&client, service);
    for (int i = 0; i < REQUESTS; i++) {
        submit_planned(plan, &client, i, &calls[i]);
    }
    for (int i = 0; i < REQUESTS; i++) {
        /* In the middle of answers: some tokens of this one are there. */
        service_call_wait(&calls[i], plan->expected[i].count / 2);
        if (killed < kills && i % 3 == 0 && !calls[i].is_over) {
            pid_t pid = supervisor_worker_pid(service, killed % workers);
            killed += pid > 0 && kill(pid, signal_number) == 0;
            nap(0.05);
        }
    }
    for (int i = 0; i < REQUESTS; i++) {
        service_call_wait(&calls[i], SIZE_MAX);
        apologies += expect_answer_or_apology(plan, i, &calls[i]);
        service_call_release(&calls[i]);
    }
    service_client_deinit(&client);
    /* At most the one that was on probation at the second of two kills. */
    assert_true(apologies <= (killed < 2 ? 0 : killed - 1));
    return killed;
}

static void test_text_of_an_undisturbed_run(void **state) {
    struct service *service;
    struct supervisor_options options = options_of(1);
    EXPECT_OK(supervisor_open(&options, &service));
    assert_int_equal(run_under_fire(make_plan(*state, false), service, 1, 0, 0), 0);
    expect_idle(service);
    service->kind->close(&service);
}

static void kill_under_load(const struct plan *plan) {
    struct service *service;
    struct supervisor_options options = options_of(1);
    EXPECT_OK(supervisor_open(&options, &service));
    int killed = run_under_fire(plan, service, 1, 3, SIGKILL);
    assert_true(killed > 0);
    wait_until_ready(service, 1);
    expect_idle(service);
    struct service_stats stats;
    service->kind->stats(service, &stats);
    assert_int_equal(stats.restarts, killed);
    service->kind->close(&service);
}

static void test_killed_under_load(void **state) {
    kill_under_load(make_plan(*state, false));
}

/* Grammars, stop texts and words go on in the middle, too. */
static void test_killed_with_rules(void **state) {
    kill_under_load(make_plan(*state, true));
}

/* A stopped process neither answers nor ends. */
static void test_hung_under_load(void **state) {
    struct service *service;
    struct supervisor_options options = options_of(1);
    options.ping_seconds = 0.05;
    options.deadline_seconds = 0.5;
    EXPECT_OK(supervisor_open(&options, &service));
    int killed = run_under_fire(make_plan(*state, false), service, 1, 1, SIGSTOP);
    assert_int_equal(killed, 1);
    struct service_stats stats;
    service->kind->stats(service, &stats);
    assert_int_equal(stats.restarts, killed);
    service->kind->close(&service);
}

/* Two replicas give the text of one, and the loss of one of them leaves the other answering. */
static void test_replicas(void **state) {
    struct service *service;
    struct supervisor_options options = options_of(2);
    EXPECT_OK(supervisor_open(&options, &service));
    assert_int_equal(run_under_fire(make_plan(*state, false), service, 2, 0, 0), 0);
    assert_true(run_under_fire(make_plan(*state, false), service, 2, 3, SIGKILL) > 0);
    wait_until_ready(service, 2);
    expect_idle(service);
    assert_int_equal(service->kind->facts(service).sequence_limit, 16);
    service->kind->close(&service);
}

/* Clients come, cancel and leave at any moment, and a worker dies: no place and no page stays taken. */
static void test_leaves_nothing_behind(void **state) {
    static struct service_call calls[REQUESTS];
    const struct plan *plan = make_plan(*state, true);
    struct service *service;
    struct service_client client;
    struct supervisor_options options = options_of(2);
    uint64_t random = 7;
    EXPECT_OK(supervisor_open(&options, &service));
    service_client_init(&client, service);
    for (int i = 0; i < REQUESTS; i++) {
        submit_planned(plan, &client, i, &calls[i]);
        int victim = (int)(model_next_random(&random) % (uint64_t)(i + 1));
        bool is_there = calls[victim].generation != NULL;
        int what = (int)(model_next_random(&random) % 4);
        if (is_there && what == 0) {
            service_call_release(&calls[victim]);
        } else if (is_there && what == 1) {
            service->kind->cancel(calls[victim].generation);
        } else if (is_there && what == 2) {
            service_call_wait(&calls[victim], 1);
        }
        if (i == REQUESTS / 2) {
            kill(supervisor_worker_pid(service, 0), SIGKILL);
        }
    }
    for (int i = 0; i < REQUESTS; i++) {
        if (calls[i].generation != NULL) {
            service_call_wait(&calls[i], SIZE_MAX);
            assert_true(calls[i].state.finish_reason != SLUICE_FINISH_ERROR);
            if (calls[i].state.finish_reason != SLUICE_FINISH_CANCELLED) {
                expect_answer(plan, i, &calls[i].answer);
            }
            service_call_release(&calls[i]);
        }
    }
    wait_until_ready(service, 2);
    expect_idle(service);
    service_client_deinit(&client);
    service->kind->close(&service);
}

/* B54, and F-6 by its fallback: a worker of several ranks is killed under load, comes back, and no text is
 * another. */
static void expect_ranks_survive(struct request_fixture *fixture, const char *const *words) {
    struct service *service;
    struct supervisor_options options = options_of(1);
    options.arguments = words;
    EXPECT_OK(supervisor_open(&options, &service));
    assert_int_equal(run_under_fire(make_plan(fixture, true), service, 1, 1, SIGKILL), 1);
    wait_until_ready(service, 1);
    expect_idle(service);
    service->kind->close(&service);
}

/* A worker of four ranks, which die together and come back together. */
static void test_ranks_within_a_worker(void **state) {
    static const char *const arguments_of_ranks[] = {"sluice",
                                                     "worker",
                                                     MODEL,
                                                     "--max-model-len=512",
                                                     "--max-num-seqs=8",
                                                     "--threads=1",
                                                     "--chunk-tokens=128",
                                                     "--tensor-parallel-size=2",
                                                     "--pipeline-parallel-size=2",
                                                     NULL};
    expect_ranks_survive(*state, arguments_of_ranks);
}

#ifdef SUPERVISOR_HAS_MPI
/* The worker's process starts the ranks' and hands the wire on to the first of them. */
static void test_ranks_as_processes(void **state) {
    static const char *const arguments_of_ranks[] = {"sluice",
                                                     "worker",
                                                     MODEL,
                                                     "--max-model-len=512",
                                                     "--max-num-seqs=8",
                                                     "--threads=1",
                                                     "--chunk-tokens=128",
                                                     "--tensor-parallel-size=2",
                                                     "--distributed-executor-backend=mp",
                                                     NULL};
    expect_ranks_survive(*state, arguments_of_ranks);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_of_an_undisturbed_run),
        cmocka_unit_test(test_killed_under_load),
        cmocka_unit_test(test_killed_with_rules),
        cmocka_unit_test(test_hung_under_load),
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_leaves_nothing_behind),
        cmocka_unit_test(test_ranks_within_a_worker),
#ifdef SUPERVISOR_HAS_MPI
        cmocka_unit_test(test_ranks_as_processes),
#endif
    };
    return cmocka_run_group_tests(tests, request_fixture_set_up, request_fixture_tear_down);
}
