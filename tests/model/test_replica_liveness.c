/*
 * Replicas that share experts stay in step (spec parallelism 5.6, T-16, D-1, D-3, E-19, E-20, E-22, S-7,
 * F-2): with ranks that are slow at random, requests that come, end and are given up at random, drafts of
 * other lengths on each replica, and one that has nothing to do, nothing stalls and no token changes. With
 * several stages the next tick is agreed on while the first stage computes this one (E-18). When nobody has
 * work all sleep. What one replica cannot go on from ends the requests of all, soon; a draft layer without
 * numbers ends those of its replica alone.
 *
 * The linker puts this file's functions in front of others (CMakeLists.txt). An argument is a number of
 * ticks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <stdatomic.h>

#include "engine/executor_shares.h"
#include "engine/lockstep.h"
#include "sluice/request.h"
#include "support/model_fixture.h"
#include "support/random_requests.h"
#include "weights/fixture.h"

enum {
    REPLICAS = 2,
    DRAFTS = 3,
    DELAY_MICROSECONDS = 150,
    DELAY_EVERY = 16, /* exchanges */
    SLEEP_MICROSECONDS = 200000,
    LONG_PROMPT = 300,
    FREE_TICKS = 30, /* until all requests are in and shared out over groups */
    HELD_TICKS = 40
};

static int ticks_wanted = TESTS_ARE_SHORT ? 300 : 3000;

static struct {
    atomic_uint_fast64_t random;
    atomic_bool is_slow;
    atomic_int known_costs;   /* of steps, of all replicas, before any request */
    atomic_int exchanges;     /* of the first replica */
    atomic_int ticks;         /* the same */
    atomic_int unlike_drafts; /* ticks with more draft passes than some replica wanted */
    atomic_int idle_replicas; /* ticks in which a replica had no rows */
    atomic_int victim;        /* replica whose next pass fails on its stage `victim_stage`; -1: none */
    atomic_int victim_stage;  /* -1: not a pass, but what comes before a tick */
    atomic_int begun;         /* ticks, by the first stage of the first replica */
    atomic_int first_held;    /* tick that waits there until the next one is agreed on; 0: none does */
    atomic_int overlapped;    /* those that did not wait in vain */
    atomic_int bad_draft_in;  /* draft passes until one gives no numbers, which is the last; 0: none does */
} watch = {.random = 88172645463325252u, .victim = -1};

enum status __real_comm_start_exchange(struct comm *comm, struct stream *stream, const void *in,
                                       const size_t *send_offsets, void *out, const size_t *receive_offsets,
                                       struct comm_flight *flight);
enum status __wrap_comm_start_exchange(struct comm *comm, struct stream *stream, const void *in,
                                       const size_t *send_offsets, void *out, const size_t *receive_offsets,
                                       struct comm_flight *flight);
enum status __real_lockstep_agree(struct comm *leaders, uint64_t number, const struct lockstep_wish *own,
                                  struct lockstep_tick *out);
enum status __wrap_lockstep_agree(struct comm *leaders, uint64_t number, const struct lockstep_wish *own,
                                  struct lockstep_tick *out);
enum status __real_executor_share_experts(struct executor *executor, int64_t rows, int64_t limit,
                                          const struct row_deal *deal);
enum status __wrap_executor_share_experts(struct executor *executor, int64_t rows, int64_t limit,
                                          const struct row_deal *deal);
void __real_draft_controller_set_step_cost(struct draft_controller *controller, int32_t rows, double seconds);
void __wrap_draft_controller_set_step_cost(struct draft_controller *controller, int32_t rows, double seconds);
int64_t __real_executor_first_not_finite(const float *values, int64_t count);
int64_t __wrap_executor_first_not_finite(const float *values, int64_t count);

/* Now and then a rank is late. */
static void delay(void) {
    uint64_t random = atomic_fetch_add(&watch.random, 0x9E3779B97F4A7C15u);
    random = model_next_random(&random);
    if (atomic_load(&watch.is_slow) && random % DELAY_EVERY == 0) {
        nanosleep(&(struct timespec){.tv_nsec = (long)(random / DELAY_EVERY % DELAY_MICROSECONDS) * 1000},
                  NULL);
    }
}

enum status __wrap_comm_start_exchange(struct comm *comm, struct stream *stream, const void *in,
                                       const size_t *send_offsets, void *out, const size_t *receive_offsets,
                                       struct comm_flight *flight) {
    delay();
    return __real_comm_start_exchange(comm, stream, in, send_offsets, out, receive_offsets, flight);
}

enum status __wrap_lockstep_agree(struct comm *leaders, uint64_t number, const struct lockstep_wish *own,
                                  struct lockstep_tick *out) {
    delay();
    if (leaders != NULL && comm_rank(leaders) == watch.victim && watch.victim_stage < 0) {
        watch.victim = -1;
        FAIL(STATUS_INTERNAL, "this replica was to fail");
    }
    enum status status = __real_lockstep_agree(leaders, number, own, out);
    if (leaders != NULL && status == STATUS_OK) {
        watch.exchanges += comm_rank(leaders) == 0;
        watch.ticks += comm_rank(leaders) == 0 && out->rows > 0;
        watch.unlike_drafts += own->draft_passes < out->draft_passes;
        watch.idle_replicas += own->rows == 0 && out->rows > 0;
    }
    return status;
}

/* A tick does not go on before the next one is agreed on, or it never will be. */
static void hold(int tick) {
    for (int i = 0; i < RANDOM_WAIT_SECONDS * 100 / 4 && watch.ticks <= tick; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    watch.overlapped += watch.ticks > tick;
}

enum status __wrap_executor_share_experts(struct executor *executor, int64_t rows, int64_t limit,
                                          const struct row_deal *deal) {
    const struct executor_ranks *ranks = executor->options.ranks;
    if (ranks != NULL && !executor->queue.is_dry && ranks->replica == 0 && ranks->stage == 0) {
        int tick = ++watch.begun;
        if (watch.first_held > 0 && tick >= watch.first_held && tick < watch.first_held + HELD_TICKS) {
            hold(tick);
        }
    }
    if (ranks != NULL && !executor->queue.is_dry && ranks->replica == watch.victim &&
        ranks->stage == watch.victim_stage) {
        watch.victim = -1;
        FAIL(STATUS_INTERNAL, "this rank was to fail");
    }
    return __real_executor_share_experts(executor, rows, limit, deal);
}

int64_t __wrap_executor_first_not_finite(const float *values, int64_t count) {
    if (count > 0 && atomic_load(&watch.bad_draft_in) > 0 && atomic_fetch_sub(&watch.bad_draft_in, 1) == 1) {
        return 0;
    }
    return __real_executor_first_not_finite(values, count);
}

void __wrap_draft_controller_set_step_cost(struct draft_controller *controller, int32_t rows,
                                           double seconds) {
    assert_true(seconds > 0.0);
    watch.known_costs++;
    __real_draft_controller_set_step_cost(controller, rows, seconds);
}

/* A layer for each stage: it is ticks that count. */
static const struct config_change short_model[] = {
    {"num_hidden_layers", "2"}, {"compress_ratios", "[0, 4, 0]"}, {"num_hash_layers", "1"}};

static char directory[FIXTURE_PATH_BYTES];

/* The more run on a replica, the fewer drafts each has: so replicas want other numbers of passes. */
static const struct sluice_draft_schedule_row schedule[] = {{1, DRAFTS}, {2, 1}, {3, 0}};

static struct sluice_engine_options engine_options(int replicas, int pipeline, int tensor) {
    struct sluice_engine_options options = sluice_engine_options_default();
    options.model_directory = directory;
    options.thread_count = 1;
    options.context_tokens = RANDOM_CONTEXT;
    options.sequence_limit = 3;
    options.step_token_limit = 11;
    options.parallel.data = replicas;
    options.parallel.pipeline = pipeline;
    options.parallel.tensor = tensor;
    options.parallel.expert_exchange = SLUICE_EXPERT_EXCHANGE_DISPATCH;
    options.parallel.in_flight = pipeline == 1 ? 1 : pipeline + 1;
    return options;
}

static struct sluice_engine *open_engine(int replicas, int pipeline, int tensor, bool has_drafts) {
    struct sluice_engine_options options = engine_options(replicas, pipeline, tensor);
    struct sluice_engine *engine;
    if (has_drafts) {
        options.draft =
            (struct sluice_draft_options){.limit = DRAFTS,
                                          .schedule = schedule,
                                          .schedule_row_count = sizeof schedule / sizeof schedule[0]};
    }
    EXPECT_OK(sluice_engine_open(&options, &engine));
    return engine;
}

/* For prompts of several pages. */
static struct sluice_engine *open_long_engine(void) {
    struct sluice_engine_options options = sluice_engine_options_default();
    struct sluice_engine *engine;
    options.model_directory = directory;
    options.thread_count = 1;
    options.context_tokens = 2 * LONG_PROMPT;
    options.sequence_limit = 3;
    options.parallel.data = REPLICAS;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    return engine;
}

static int set_up(void **state) {
    (void)state;
    fixture_make(directory);
    model_synthesise(directory, TINY_CONFIG, short_model, sizeof short_model / sizeof short_model[0]);
    struct sluice_engine *engine = open_engine(1, 1, 1, false);
    random_requests_learn(engine);
    sluice_engine_close(&engine);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fixture_remove(directory);
    return 0;
}

static void replicas_stay_in_step(void **state) {
    static const struct {
        int pipeline;
        int tensor;
        bool has_drafts;
    } layouts[] = {{1, 1, true}, {2, 1, true}, {1, 2, true}, {2, 1, false}};
    (void)state;
    int count = (int)(sizeof layouts / sizeof layouts[0]);
    for (int i = 0; i < count; i++) {
        struct sluice_engine *engine =
            open_engine(REPLICAS, layouts[i].pipeline, layouts[i].tensor, layouts[i].has_drafts);
        watch.unlike_drafts = 0;
        watch.idle_replicas = 0;
        watch.is_slow = true;
        random_requests_run(engine, &watch.ticks, ticks_wanted / count);
        sluice_engine_close(&engine);
        watch.is_slow = false;
        assert_true(watch.idle_replicas > ticks_wanted / count / 10);
        assert_int_equal(layouts[i].has_drafts, watch.unlike_drafts > 0);
    }
}

/* Each with one request, the first prompt: a replica has the same load as the other. */
static void run_one_each(struct sluice_engine *engine, struct live_request *live) {
    for (int i = 0; i < REPLICAS; i++) {
        live[i] = (struct live_request){.prompt = 2, .limit = random_requests_limit(2)};
        live[i].request = random_requests_submit(engine, 2, live[i].limit);
    }
}

/* E-18: with groups that take turns there is always a next tick to agree on, and agreeing waits for no stage.
 */
static void agreeing_overlaps_computing(void **state) {
    (void)state;
    for (int has_drafts = 0; has_drafts < 2; has_drafts++) {
        struct live_request live[RANDOM_LIVE_MAX];
        watch.ticks = 0;
        watch.begun = 0;
        watch.overlapped = 0;
        struct sluice_engine *engine = open_engine(REPLICAS, 2, 1, has_drafts != 0);
        for (int i = 0; i < RANDOM_LIVE_MAX; i++) {
            live[i] = (struct live_request){.prompt = i % 2, .limit = random_requests_limit(i % 2)};
            live[i].request = random_requests_submit(engine, live[i].prompt, live[i].limit);
        }
        watch.first_held = watch.ticks + FREE_TICKS;
        for (int i = 0; i < RANDOM_LIVE_MAX; i++) {
            random_requests_end(&live[i]);
        }
        sluice_engine_close(&engine);
        watch.first_held = 0;
        assert_int_equal(watch.overlapped, HELD_TICKS);
    }
}

/* E-21: once nothing runs nothing is exchanged and nothing computed, until there is work again. */
static void all_sleep_without_work(void **state) {
    (void)state;
    struct sluice_engine *engine = open_engine(REPLICAS, 2, 1, true);
    for (int i = 0; i < 3; i++) {
        struct live_request live = random_requests_start(engine, 64u * 9 + 8 + (uint64_t)i);
        random_requests_end(&live);
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_MICROSECONDS * 1000 / 4}, NULL);
        int exchanges = watch.exchanges;
        clock_t used = clock();
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_MICROSECONDS * 1000}, NULL);
        assert_int_equal(watch.exchanges, exchanges);
        assert_in_range(clock() - used, 0, CLOCKS_PER_SEC / 50);
    }
    sluice_engine_close(&engine);
}

/* M-35: what steps cost is known of all replicas once the engine is open, whatever is late meanwhile. */
static void costs_are_measured_together(void **state) {
    (void)state;
    for (int pipeline = 1; pipeline <= 2; pipeline++) {
        struct sluice_engine_options options = engine_options(REPLICAS, pipeline, 1);
        struct sluice_engine *engine;
        options.draft = (struct sluice_draft_options){.limit = DRAFTS, .is_adaptive = true};
        watch.known_costs = 0;
        watch.is_slow = true;
        EXPECT_OK(sluice_engine_open(&options, &engine));
        watch.is_slow = false;
        /* Steps of 1, 2, 4 and 8 rows: 11 are the most that one may have. */
        assert_int_equal(watch.known_costs, REPLICAS * 4);
        struct live_request live = random_requests_start(engine, 8);
        random_requests_end(&live);
        sluice_engine_close(&engine);
    }
}

/* A request goes where its beginning is known; others go where less is to be done. */
static void a_known_beginning_finds_its_replica(void **state) {
    static int32_t text[2][LONG_PROMPT];
    (void)state;
    struct sluice_engine *engine = open_long_engine();
    for (int round = 0; round < 2; round++) {
        struct sluice_request *requests[2];
        for (int i = 0; i < 2; i++) {
            struct sluice_request_options options = sluice_request_options_default();
            model_random_tokens(40 + (uint64_t)i, 512, text[i], LONG_PROMPT);
            options.prompt = text[round == 0 ? i : 1 - i]; /* the other order, the second time */
            options.prompt_count = LONG_PROMPT;
            options.token_limit = 3;
            EXPECT_OK(sluice_engine_submit(engine, &options, &requests[i]));
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(random_requests_wait(requests[i]).cached_prompt_tokens, round == 0 ? 0 : 256);
            sluice_request_release(&requests[i]);
        }
    }
    struct sluice_engine_stats stats = sluice_engine_stats(engine);
    assert_int_equal(stats.finished_requests, 4);
    assert_int_equal(stats.prompt_tokens, 4 * LONG_PROMPT);
    assert_int_equal(sluice_engine_facts(engine).sequence_limit, REPLICAS * 3);
    sluice_engine_close(&engine);
}

/* F-2, T-22: a rank of any stage of the busy replica or of the idle one. */
static void a_lost_rank_ends_all(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        bool is_idle = i / 2 % 2 == 1;
        struct live_request live[REPLICAS];
        struct sluice_engine *engine = open_engine(REPLICAS, 2, 1, true);
        run_one_each(engine, live);
        if (is_idle) {
            sluice_request_cancel(live[i % 2].request);
            random_requests_wait(live[i % 2].request);
        } else {
            sluice_request_wait(live[0].request, 3, SIZE_MAX, RANDOM_WAIT_SECONDS);
        }
        assert_false(sluice_engine_is_lost(engine));
        watch.victim_stage = i / 4 - 1;
        watch.victim = i % 2;
        for (int r = 0; r < REPLICAS; r++) {
            struct sluice_request_state end = random_requests_wait(live[r].request);
            if (!is_idle || r != i % 2) {
                assert_int_equal(end.finish_reason, SLUICE_FINISH_ERROR);
                assert_true(end.message[0] != '\0');
                assert_true(sluice_engine_is_lost(engine));
            }
            sluice_request_release(&live[r].request);
        }
        struct sluice_request *late = random_requests_submit(engine, 0, 4);
        struct sluice_request_state end = random_requests_wait(late);
        assert_int_equal(end.finish_reason, SLUICE_FINISH_ERROR);
        sluice_request_release(&late);
        sluice_engine_close(&engine);
    }
}

/* The same where nobody else has experts of it: the engine says so, and answers nothing more. */
static void a_lost_stage_ends_all(void **state) {
    (void)state;
    for (int stage = 0; stage < 2; stage++) {
        struct sluice_engine *engine = open_engine(1, 2, 1, true);
        for (int i = 0; i < 2; i++) {
            struct sluice_request *request = random_requests_submit(engine, 2, random_requests_limit(2));
            if (i == 0) {
                sluice_request_wait(request, 3, SIZE_MAX, RANDOM_WAIT_SECONDS);
                assert_false(sluice_engine_is_lost(engine));
                watch.victim_stage = stage;
                watch.victim = 0;
            }
            assert_int_equal(random_requests_wait(request).finish_reason, SLUICE_FINISH_ERROR);
            assert_true(sluice_engine_is_lost(engine));
            sluice_request_release(&request);
        }
        sluice_engine_close(&engine);
    }
}

/* In any of its draft passes: the other replica is in those to come, and goes on. */
static void run_with_a_bad_draft(struct sluice_engine *engine, int bad_draft_in) {
    struct live_request live[REPLICAS];
    int failed = 0;
    run_one_each(engine, live);
    sluice_request_wait(live[0].request, 3, SIZE_MAX, RANDOM_WAIT_SECONDS);
    watch.bad_draft_in = bad_draft_in;
    for (int r = 0; r < REPLICAS; r++) {
        struct sluice_request_state end = random_requests_wait(live[r].request);
        failed += end.finish_reason == SLUICE_FINISH_ERROR && end.status == SLUICE_NOT_FINITE;
        live[r].is_cancelled = end.finish_reason == SLUICE_FINISH_ERROR;
        random_requests_end(&live[r]);
    }
    assert_int_equal(failed, 1);
}

static void bad_drafts_end_one_replicas_requests(void **state) {
    (void)state;
    struct live_request live[REPLICAS];
    struct sluice_engine *engine = open_engine(REPLICAS, 1, 1, true);
    for (int passes = 1; passes <= 2 * DRAFTS; passes++) {
        run_with_a_bad_draft(engine, passes);
    }
    run_one_each(engine, live);
    for (int r = 0; r < REPLICAS; r++) {
        random_requests_end(&live[r]);
    }
    sluice_engine_close(&engine);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_stay_in_step),
        cmocka_unit_test(agreeing_overlaps_computing),
        cmocka_unit_test(all_sleep_without_work),
        cmocka_unit_test(costs_are_measured_together),
        cmocka_unit_test(a_known_beginning_finds_its_replica),
        cmocka_unit_test(a_lost_rank_ends_all),
        cmocka_unit_test(a_lost_stage_ends_all),
        cmocka_unit_test(bad_drafts_end_one_replicas_requests),
    };
    ticks_wanted = argc > 1 ? atoi(argv[1]) : ticks_wanted;
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
