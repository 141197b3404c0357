/*
 * Schedules at random on a model on paper: whatever arrives, is cut, shared, drafted, pushed out or
 * cancelled, every request gets the text that it gets alone, and at the end nothing is left behind. Ticks are
 * run in the order of their plans, as all stages do; what they gave comes back later (spec parallelism 2.5).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/scheduler.h"
#include "support/paper_model.h"

enum { PAGE_TOKENS = 4, CONTEXT = 64, REQUESTS_MAX = 64, SLOTS_MAX = 6, TICKS_MAX = 5 };

/* One way to run requests. */
struct setting {
    uint64_t seed;
    int32_t slots;
    int32_t rows;
    int32_t pages;
    int32_t snapshots; /* 0: no prefix cache */
    int32_t drafts;
    bool is_adaptive;
    int32_t requests;
    int32_t cancel_percent;
    int32_t ticks; /* under way at once; 0: one */
};

/* A tick that was run and not yet completed. */
struct tick {
    int32_t group;
    int32_t sampled;
    struct round_result result;
    struct round_feedback feedback[SLOTS_MAX];
};

struct world {
    struct setting setting;
    uint64_t random;
    struct page_pool pages;
    struct prefix_cache *prefixes;
    struct draft_controller *controller;
    struct scheduler *scheduler;
    struct paper_model *model;
    struct sequence sequences[REQUESTS_MAX];
    int32_t submitted;
    int32_t finished;
    double now;
    struct tick ticks[TICKS_MAX]; /* a ring */
    int32_t oldest;
    int32_t under_way;
    int32_t most_under_way;
    int32_t chunks_in_a_row; /* most ticks with rows of one prompt that were under way at once */
};

static int32_t ticks_most(const struct world *world) {
    return world->setting.ticks == 0 ? 1 : world->setting.ticks;
}

static int32_t below(struct world *world, int32_t limit) {
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return (int32_t)(world->random % (uint64_t)limit);
}

static void on_finished(void *context, struct sequence *sequence) {
    struct world *world = context;
    assert_int_equal(sequence->phase, SEQUENCE_FINISHED);
    assert_int_equal(sequence->page_count, 0);
    world->finished++;
}

static void make_drafting(struct world *world) {
    struct draft_controller_options options = {.draft_limit = world->setting.drafts,
                                               .slot_count = world->setting.slots,
                                               .is_adaptive = world->setting.is_adaptive};
    if (world->setting.drafts > 0) {
        assert_int_equal(draft_controller_create(&options, &world->controller), STATUS_OK);
    }
}

static struct world *make_world(const struct setting *setting) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->setting = *setting;
    world->random = setting->seed * 2 + 1;
    assert_int_equal(page_pool_init(&world->pages, setting->pages), STATUS_OK);
    if (setting->snapshots > 0) {
        struct prefix_cache_options cache = {.pages = &world->pages,
                                             .page_tokens = PAGE_TOKENS,
                                             .first_snapshot_slot = setting->slots,
                                             .snapshot_count = setting->snapshots,
                                             .hash_seed = setting->seed};
        assert_int_equal(prefix_cache_create(&cache, &world->prefixes), STATUS_OK);
    }
    make_drafting(world);
    struct scheduler_options options = {.pages = &world->pages,
                                        .prefixes = world->prefixes,
                                        .controller = world->controller,
                                        .slot_count = setting->slots,
                                        .row_limit = setting->rows,
                                        .page_tokens = PAGE_TOKENS,
                                        .context_tokens = CONTEXT,
                                        .draft_limit = setting->drafts,
                                        .draft_window = PAPER_WINDOW + setting->drafts,
                                        .in_flight_limit = ticks_most(world),
                                        .vocabulary_size = PAPER_VOCABULARY,
                                        .snapshot_interval = 4 * PAGE_TOKENS,
                                        .finished = on_finished,
                                        .finished_context = world};
    assert_int_equal(scheduler_create(&options, &world->scheduler), STATUS_OK);
    world->model =
        paper_model_create(&(struct paper_model_options){.slot_count = setting->slots + setting->snapshots,
                                                         .page_count = setting->pages,
                                                         .page_tokens = PAGE_TOKENS,
                                                         .context_tokens = CONTEXT,
                                                         .draft_limit = setting->drafts,
                                                         .draft_quality = 50,
                                                         .seed = setting->seed});
    return world;
}

static void free_world(struct world *world) {
    for (int32_t i = 0; i < world->submitted; i++) {
        sequence_deinit(&world->sequences[i]);
    }
    paper_model_destroy(world->model);
    scheduler_destroy(&world->scheduler);
    draft_controller_destroy(&world->controller);
    prefix_cache_destroy(&world->prefixes);
    /* The cache has given its pages back. */
    assert_int_equal(world->pages.free_count, world->setting.pages);
    page_pool_deinit(&world->pages);
    free(world);
}

static void submit(struct world *world, const int32_t *prompt, int32_t count, int32_t limit, int priority) {
    struct sequence_bounds bounds = {.vocabulary_size = PAPER_VOCABULARY,
                                     .context_tokens = CONTEXT,
                                     .page_tokens = PAGE_TOKENS,
                                     .page_count = world->setting.pages,
                                     .draft_limit = world->setting.drafts};
    struct sluice_request_options options = sluice_request_options_default();
    options.prompt = prompt;
    options.prompt_count = (size_t)count;
    options.token_limit = limit;
    options.priority = priority;
    struct sequence *sequence = &world->sequences[world->submitted++];
    assert_int_equal(sequence_init(sequence, &options, &bounds, world->now), STATUS_OK);
    scheduler_submit(world->scheduler, sequence);
}

/* Prompts share beginnings: a few stems, cut anywhere, with tails of their own. */
static void submit_at_random(struct world *world) {
    int32_t prompt[CONTEXT];
    int32_t stem = below(world, 3);
    int32_t stem_length = below(world, 30);
    int32_t count = stem_length + 1 + below(world, 15);
    for (int32_t i = 0; i < count; i++) {
        prompt[i] =
            i < stem_length ? (stem * 131 + i * 7) % PAPER_VOCABULARY : below(world, PAPER_VOCABULARY);
    }
    submit(world, prompt, count, 1 + below(world, CONTEXT - count < 18 ? CONTEXT - count : 18),
           below(world, 3));
}

static void cancel_at_random(struct world *world) {
    if (world->submitted > 0 && below(world, 100) < world->setting.cancel_percent) {
        world->sequences[below(world, world->submitted)].is_cancelled = true;
    }
}

/* Every page is free, kept by the cache alone, or referred to by who runs. */
static void check_gauges(const struct world *world) {
    int32_t references = 0;
    int64_t cached = world->prefixes == NULL ? 0 : prefix_cache_counters(world->prefixes).cached_pages;
    int32_t used = 0;
    for (int32_t page = 0; page < world->setting.pages; page++) {
        references += world->pages.reference_counts[page];
        used += world->pages.reference_counts[page] > 0;
    }
    int32_t of_sequences = 0;
    for (struct sequence *s = scheduler_first(world->scheduler, false); s != NULL; s = s->next) {
        of_sequences += s->page_count;
    }
    assert_int_equal(references, of_sequences + cached);
    assert_int_equal(used + world->pages.free_count, world->setting.pages);
    assert_int_equal(scheduler_gauges(world->scheduler).running + scheduler_gauges(world->scheduler).waiting +
                         world->finished,
                     world->submitted);
}

/* P-26: who gets tokens in a tick waits for none, and belongs to its group; of a group one tick samples. */
static void check_plan(struct world *world, const struct round_plan *plan) {
    int32_t chunks = 0;
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        const struct sequence *sequence = plan->sequences[i];
        if (plan->segments[i].is_sampled) {
            assert_int_equal(sequence->group, plan->group);
        }
        chunks = sequence->ticks > chunks ? sequence->ticks : chunks;
    }
    for (int32_t i = 0; i < world->under_way && plan->step.logit_row_count > 0; i++) {
        const struct tick *tick = &world->ticks[(world->oldest + i) % TICKS_MAX];
        assert_true(tick->sampled == 0 || tick->group != plan->group);
    }
    world->chunks_in_a_row = chunks > world->chunks_in_a_row ? chunks : world->chunks_in_a_row;
}

static bool plan_tick(struct world *world) {
    struct round_plan plan;
    if (!scheduler_plan(world->scheduler, world->now, &plan)) {
        return false;
    }
    check_plan(world, &plan);
    assert_true(world->under_way < ticks_most(world));
    struct tick *tick = &world->ticks[(world->oldest + world->under_way++) % TICKS_MAX];
    paper_model_run(world->model, &plan, &tick->result);
    memcpy(tick->feedback, tick->result.feedback,
           (size_t)tick->result.feedback_count * sizeof tick->feedback[0]);
    tick->result.feedback = tick->feedback;
    tick->group = plan.group;
    tick->sampled = tick->result.feedback_count;
    world->most_under_way =
        world->under_way > world->most_under_way ? world->under_way : world->most_under_way;
    assert_int_equal(scheduler_in_flight(world->scheduler), world->under_way);
    return true;
}

static void complete_tick(struct world *world) {
    scheduler_complete(world->scheduler, &world->ticks[world->oldest].result, world->now);
    world->oldest = (world->oldest + 1) % TICKS_MAX;
    world->under_way--;
}

/* Plans what can be planned, or less, and completes a tick. */
static bool step(struct world *world) {
    while (world->under_way < ticks_most(world) && plan_tick(world)) {
        if (ticks_most(world) > 1 && below(world, 4) == 0) {
            break;
        }
    }
    bool has_run = world->under_way > 0;
    if (has_run) {
        complete_tick(world);
    }
    world->now += 1.0;
    check_gauges(world);
    return has_run;
}

/* The text is the one that the model gives alone, as far as the request came. */
static void check_texts(const struct world *world) {
    for (int32_t i = 0; i < world->submitted; i++) {
        const struct sequence *sequence = &world->sequences[i];
        for (int32_t t = sequence->prompt_count; t < sequence->token_count; t++) {
            assert_int_equal(sequence->tokens[t], paper_model_next_token(sequence->tokens, t));
        }
        if (sequence->finish_reason != SLUICE_FINISH_CANCELLED) {
            assert_int_equal(sequence->finish_reason, SLUICE_FINISH_LENGTH);
            assert_int_equal(sequence->token_count, sequence->token_limit);
        }
    }
}

static void run_setting(const struct setting *setting) {
    struct world *world = make_world(setting);
    int32_t steps = 0;
    while (world->submitted < setting->requests || scheduler_first(world->scheduler, false) != NULL ||
           scheduler_first(world->scheduler, true) != NULL) {
        while (world->submitted < setting->requests && below(world, 3) == 0) {
            submit_at_random(world);
        }
        cancel_at_random(world);
        step(world);
        /* Something gets on in every step, so all ends. */
        assert_true(++steps < 100 * setting->requests + 1000);
    }
    assert_int_equal(world->finished, setting->requests);
    check_texts(world);
    free_world(world);
}

static void run_many(int32_t count, struct setting (*draw)(struct world *source)) {
    struct world source = {.random = 20261129};
    for (int32_t i = 0; i < count; i++) {
        struct setting setting = draw(&source);
        setting.seed = (uint64_t)i + 1;
        run_setting(&setting);
    }
}

static struct setting draw_any(struct world *source) {
    struct setting setting = {.slots = 1 + below(source, 6), .requests = 1 + below(source, 24)};
    setting.rows = setting.slots + below(source, 30);
    setting.pages = CONTEXT / PAGE_TOKENS + below(source, 30);
    setting.snapshots = below(source, 2) * (1 + below(source, 8));
    setting.drafts = below(source, 4);
    setting.is_adaptive = below(source, 2) == 0;
    setting.cancel_percent = below(source, 2) * 10;
    return setting;
}

static struct setting draw_stages(struct world *source) {
    struct setting setting = draw_any(source);
    setting.ticks = 1 + below(source, TICKS_MAX);
    return setting;
}

static void test_any_schedule_gives_the_same_texts(void **state) {
    (void)state;
    run_many(3000, draw_any);
}

static void test_ticks_under_way_give_the_same_texts(void **state) {
    (void)state;
    run_many(3000, draw_stages);
}

/* Groups of answers are as many as ticks, so that all of these are always under way (P-25, P-28). */
static void test_groups_fill_the_stages(void **state) {
    (void)state;
    struct setting setting = {.seed = 23, .slots = 6, .rows = 40, .pages = 120, .requests = 6, .ticks = 3};
    struct world *world = make_world(&setting);
    for (int32_t i = 0; i < setting.requests; i++) {
        int32_t prompt[3] = {i, 1, 2};
        submit(world, prompt, 3, 40, 0);
    }
    while (step(world)) {
        int32_t groups[3] = {0};
        for (struct sequence *s = scheduler_first(world->scheduler, false); s != NULL; s = s->next) {
            groups[s->group]++;
        }
        if (scheduler_gauges(world->scheduler).running == 6) {
            assert_true(groups[0] == 2 && groups[1] == 2 && groups[2] == 2);
        }
    }
    assert_int_equal(world->most_under_way, 3);
    check_texts(world);
    free_world(world);
}

/* When the requests of all groups but one have ended, what is left is dealt out anew (P-27). */
static void test_groups_even_out(void **state) {
    (void)state;
    struct setting setting = {.seed = 29, .slots = 4, .rows = 40, .pages = 120, .requests = 4, .ticks = 2};
    struct world *world = make_world(&setting);
    for (int32_t i = 0; i < setting.requests; i++) {
        int32_t prompt[3] = {i, 1, 2};
        submit(world, prompt, 3, 60, 0);
    }
    for (int i = 0; i < 4; i++) {
        step(world);
    }
    int32_t group = world->sequences[0].group;
    for (int32_t i = 0; i < 4; i++) {
        world->sequences[i].is_cancelled = world->sequences[i].group != group;
    }
    for (int i = 0; i < 40; i++) {
        step(world);
    }
    int32_t groups[2] = {0};
    for (struct sequence *s = scheduler_first(world->scheduler, false); s != NULL; s = s->next) {
        groups[s->group]++;
    }
    assert_int_equal(groups[0], 1);
    assert_int_equal(groups[1], 1);
    while (step(world)) {
    }
    check_texts(world);
    free_world(world);
}

/* Parts of one prompt are in consecutive ticks that wait for nothing (P-30); one tick more is refused (T-17).
 */
static void test_parts_of_a_prompt_do_not_wait(void **state) {
    (void)state;
    struct setting setting = {.seed = 31, .slots = 2, .rows = 8, .pages = 80, .requests = 1, .ticks = 4};
    struct world *world = make_world(&setting);
    int32_t prompt[50] = {5};
    submit(world, prompt, 50, 4, 0);
    for (int i = 0; i < 4; i++) {
        assert_true(plan_tick(world));
    }
    struct round_plan plan;
    assert_false(scheduler_plan(world->scheduler, world->now, &plan));
    assert_int_equal(world->sequences[0].ticks, 4);
    assert_int_equal(world->sequences[0].planned, 32);
    assert_int_equal(world->sequences[0].computed, 0);
    complete_tick(world);
    assert_int_equal(world->sequences[0].computed, 8);
    while (step(world)) {
    }
    assert_int_equal(world->chunks_in_a_row, 4);
    check_texts(world);
    free_world(world);
}

/* So few pages that running requests push each other out. */
static void test_preempted_requests_resume(void **state) {
    (void)state;
    struct setting setting = {
        .seed = 5, .slots = 6, .rows = 16, .pages = CONTEXT / PAGE_TOKENS + 2, .drafts = 2, .requests = 40};
    struct world *world = make_world(&setting);
    for (int32_t i = 0; i < setting.requests; i++) {
        int32_t prompt[3] = {i, 1, 2};
        submit(world, prompt, 3, 50, 0);
    }
    while (step(world)) {
    }
    assert_true(scheduler_gauges(world->scheduler).preemptions > 10);
    assert_int_equal(world->finished, setting.requests);
    check_texts(world);
    free_world(world);
}

/* Pages are kept free for those alone who will want more: requests of one page run on every page. */
static void test_requests_fill_all_pages(void **state) {
    (void)state;
    struct setting setting = {.seed = 3, .slots = 4, .rows = 32, .pages = 4, .requests = 8};
    struct world *world = make_world(&setting);
    int32_t prompt[PAGE_TOKENS] = {1, 2, 3};
    for (int i = 0; i < 4; i++) {
        submit(world, prompt, PAGE_TOKENS - 2, 2, 0);
    }
    step(world);
    assert_int_equal(scheduler_gauges(world->scheduler).running, 4);
    while (step(world)) {
    }
    /* With two pages each there are pages for four prompts, but only two can go on. */
    for (int i = 0; i < 4; i++) {
        submit(world, prompt, PAGE_TOKENS - 2, PAGE_TOKENS, 0);
    }
    step(world);
    assert_int_equal(scheduler_gauges(world->scheduler).running, 2);
    while (step(world)) {
    }
    check_texts(world);
    free_world(world);
}

/* A running answer gets a token in every step, whatever long prompts arrive. */
static void test_prompts_do_not_delay_answers(void **state) {
    (void)state;
    struct setting setting = {.seed = 7, .slots = 4, .rows = 8, .pages = 80, .requests = 4};
    struct world *world = make_world(&setting);
    int32_t prompt[CONTEXT] = {1, 2, 3};
    submit(world, prompt, 3, 40, 0);
    step(world);
    for (int i = 0; i < 3; i++) {
        submit(world, prompt, 50, 5, 0);
    }
    for (int32_t i = 0; i < 30; i++) {
        int32_t before = world->sequences[0].token_count;
        step(world);
        assert_int_equal(world->sequences[0].token_count, before + 1);
    }
    while (step(world)) {
    }
    check_texts(world);
    free_world(world);
}

static void test_priorities_and_order(void **state) {
    (void)state;
    struct setting setting = {.seed = 9, .slots = 1, .rows = 64, .pages = 20, .requests = 4};
    struct world *world = make_world(&setting);
    int32_t prompt[2] = {1, 2};
    submit(world, prompt, 2, 2, 1);
    submit(world, prompt, 2, 2, 1);
    submit(world, prompt, 2, 2, 0);
    int32_t order[3];
    for (int32_t done = 0; done < 3; done = world->finished) {
        step(world);
        if (world->finished > done) {
            for (int32_t i = 0; i < 3; i++) {
                if (world->sequences[i].last_token_seconds == world->now - 1.0) {
                    order[done] = i;
                }
            }
        }
    }
    assert_int_equal(order[0], 2);
    assert_int_equal(order[1], 0);
    assert_int_equal(order[2], 1);
    free_world(world);
}

static void test_deadlines_and_cancellation_take_one_step(void **state) {
    (void)state;
    struct setting setting = {.seed = 11, .slots = 2, .rows = 8, .pages = 40, .requests = 3};
    struct world *world = make_world(&setting);
    int32_t prompt[30] = {5};
    submit(world, prompt, 30, 30, 0);
    submit(world, prompt, 3, 30, 0);
    submit(world, prompt, 3, 30, 0);
    world->sequences[0].deadline = 2.5;
    world->sequences[2].deadline = 1.5;
    step(world);
    step(world);
    step(world); /* at 2: the one that waits is too late */
    assert_int_equal(world->sequences[2].finish_reason, SLUICE_FINISH_DEADLINE);
    step(world);
    assert_int_equal(world->sequences[0].finish_reason, SLUICE_FINISH_DEADLINE);
    world->sequences[1].is_cancelled = true;
    assert_false(step(world));
    assert_int_equal(world->sequences[1].finish_reason, SLUICE_FINISH_CANCELLED);
    assert_int_equal(world->pages.free_count, setting.pages);
    free_world(world);
}

/* Waiting ends when the first step begins, not when it is done. */
static void test_waiting_ends_with_the_first_step(void **state) {
    (void)state;
    struct setting setting = {.seed = 19, .slots = 1, .rows = 8, .pages = 40, .requests = 2};
    struct world *world = make_world(&setting);
    struct round_plan plan;
    struct round_result result;
    int32_t prompt[20] = {5};
    submit(world, prompt, 20, 2, 0);
    submit(world, prompt, 20, 2, 0);
    for (double now = 7.0; scheduler_plan(world->scheduler, now, &plan); now += 2.0) {
        paper_model_run(world->model, &plan, &result);
        scheduler_complete(world->scheduler, &result, now + 1.0);
    }
    /* 20 rows are three steps, the second token a fourth: at 7, 9, 11 and 13. Then the other's turn. */
    assert_true(world->sequences[0].start_seconds == 7.0);
    assert_true(world->sequences[0].first_token_seconds == 12.0);
    assert_true(world->sequences[1].start_seconds == 15.0);
    free_world(world);
}

/* A second request with the same beginning runs only what is new. */
static void test_shared_beginnings_run_once(void **state) {
    (void)state;
    struct setting setting = {.seed = 13, .slots = 1, .rows = 64, .pages = 64, .snapshots = 8, .requests = 3};
    struct world *world = make_world(&setting);
    int32_t prompt[42];
    for (int32_t i = 0; i < 42; i++) {
        prompt[i] = i;
    }
    submit(world, prompt, 42, 6, 0);
    while (step(world)) {
    }
    int64_t before = paper_model_row_count(world->model);
    submit(world, prompt, 42, 6, 0);
    while (step(world)) {
    }
    /* 40 tokens are cached: the prompt's last 2 and 5 of the answer run. */
    assert_int_equal(paper_model_row_count(world->model) - before, 7);
    assert_int_equal(world->sequences[1].cached_prompt_tokens, 40);
    /* The answer's own pages are there too: a prompt that goes on from it starts behind them. */
    int32_t longer[49];
    memcpy(longer, world->sequences[0].tokens, 48 * sizeof *longer);
    longer[48] = 3;
    submit(world, longer, 49, 1, 0);
    while (step(world)) {
    }
    assert_int_equal(world->sequences[2].cached_prompt_tokens, 44);
    check_texts(world);
    free_world(world);
}

/*
 * A prompt that fits a step takes one, whatever is kept of it for others: they start behind its last page.
 * Drafts are made from one kept row of a slot, so a prompt that ends with a page takes two steps with them.
 */
static void test_snapshots_take_no_step(void **state) {
    (void)state;
    for (int32_t count = 5; count <= 16; count++) {
        for (int32_t drafts = 0; drafts <= 2; drafts += 2) {
            struct setting setting = {
                .seed = 37, .slots = 1, .rows = 64, .pages = 64, .snapshots = 8, .drafts = drafts};
            struct world *world = make_world(&setting);
            int32_t prompt[16] = {0, 1, 2, 3, 4, 5, 6};
            submit(world, prompt, count, 1, 0);
            step(world);
            bool is_one_step = drafts == 0 || count % PAGE_TOKENS != 0;
            assert_int_equal(world->finished, is_one_step);
            while (step(world)) {
            }
            submit(world, prompt, count, 8, 0);
            while (step(world)) {
            }
            assert_int_equal(world->sequences[1].cached_prompt_tokens,
                             (count - 1) / PAGE_TOKENS * PAGE_TOKENS);
            check_texts(world);
            free_world(world);
        }
    }
}

/* Requests that come and go as fast as they can leave nothing behind. */
static void test_nothing_leaks(void **state) {
    (void)state;
    struct setting setting = {.seed = 17, .slots = 5, .rows = 20, .pages = 30, .snapshots = 6, .drafts = 2};
    struct world *world = make_world(&setting);
    for (int32_t done = 0; done < 100000 / REQUESTS_MAX; done++) {
        world->submitted = 0;
        world->finished = 0;
        while (world->submitted < REQUESTS_MAX) {
            int32_t prompt[20];
            int32_t count = 1 + below(world, 20);
            for (int32_t i = 0; i < count; i++) {
                prompt[i] = below(world, 2);
            }
            submit(world, prompt, count, 1 + below(world, 3), 0);
            world->sequences[world->submitted - 1].is_cancelled = below(world, 4) == 0;
        }
        while (step(world)) {
        }
        assert_int_equal(world->finished, REQUESTS_MAX);
        assert_int_equal(world->pages.free_count + prefix_cache_counters(world->prefixes).unused_pages,
                         setting.pages);
        for (int32_t i = 0; i < REQUESTS_MAX; i++) {
            sequence_deinit(&world->sequences[i]);
        }
    }
    world->submitted = 0;
    prefix_cache_clear(world->prefixes);
    assert_int_equal(world->pages.free_count, setting.pages);
    free_world(world);
}

/*
 * Rounds that fail, before they have changed anything or after: they end what runs and waits, and leave
 * nothing in the next plan but what it needs itself.
 */
static void test_failed_rounds_leave_nothing(void **state) {
    (void)state;
    struct setting setting = {.seed = 19, .slots = 3, .rows = 40, .pages = 40, .snapshots = 6, .drafts = 2};
    struct world *world = make_world(&setting);
    for (int32_t i = 0; i < 200; i++) {
        world->submitted = 0;
        world->finished = 0;
        while (world->submitted < 2 * setting.slots) {
            submit_at_random(world);
        }
        for (int32_t steps = below(world, 8); steps > 0 && step(world); steps--) {
        }
        struct round_plan plan;
        struct round_result result;
        if (scheduler_plan(world->scheduler, world->now, &plan)) {
            assert_in_range(plan.step.slot_operation_count, 0, SCHEDULER_OPERATIONS_PER_SLOT * setting.slots);
            assert_in_range(plan.step.page_update_count, 0, 3 * setting.slots * (CONTEXT / PAGE_TOKENS));
            if (below(world, 2) == 0) {
                paper_model_run(world->model, &plan, &result);
            }
            scheduler_fail(world->scheduler, STATUS_IO, "the device is gone");
        }
        assert_int_equal(world->finished, world->submitted);
        assert_int_equal(world->pages.free_count + prefix_cache_counters(world->prefixes).unused_pages,
                         setting.pages);
        for (int32_t r = 0; r < world->submitted; r++) {
            struct sequence *sequence = &world->sequences[r];
            if (sequence->finish_reason == SLUICE_FINISH_ERROR) {
                assert_int_equal(sequence->status, STATUS_IO);
                assert_string_equal(sequence->message, "the device is gone");
            }
            for (int32_t t = sequence->prompt_count; t < sequence->token_count; t++) {
                assert_int_equal(sequence->tokens[t], paper_model_next_token(sequence->tokens, t));
            }
            sequence_deinit(sequence);
        }
    }
    world->submitted = 0;
    free_world(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_schedule_gives_the_same_texts),
        cmocka_unit_test(test_ticks_under_way_give_the_same_texts),
        cmocka_unit_test(test_groups_fill_the_stages),
        cmocka_unit_test(test_groups_even_out),
        cmocka_unit_test(test_parts_of_a_prompt_do_not_wait),
        cmocka_unit_test(test_preempted_requests_resume),
        cmocka_unit_test(test_requests_fill_all_pages),
        cmocka_unit_test(test_prompts_do_not_delay_answers),
        cmocka_unit_test(test_priorities_and_order),
        cmocka_unit_test(test_deadlines_and_cancellation_take_one_step),
        cmocka_unit_test(test_waiting_ends_with_the_first_step),
        cmocka_unit_test(test_shared_beginnings_run_once),
        cmocka_unit_test(test_snapshots_take_no_step),
        cmocka_unit_test(test_nothing_leaks),
        cmocka_unit_test(test_failed_rounds_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
