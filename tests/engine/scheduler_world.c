#include "engine/scheduler_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int32_t ticks_most(const struct world *world) {
    return world->setting.ticks == 0 ? 1 : world->setting.ticks;
}

static int32_t groups_of(const struct world *world) {
    return world->setting.groups == 0 ? ticks_most(world) : world->setting.groups;
}

int32_t world_below(struct world *world, int32_t limit) {
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
        for (int32_t rows = 1; world->setting.row_seconds > 0 && rows <= 64; rows *= 8) {
            draft_controller_set_step_cost(world->controller, rows, rows * world->setting.row_seconds);
        }
    }
}

struct world *world_create(const struct world_setting *setting) {
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
                                        .store = setting->store,
                                        .controller = world->controller,
                                        .slot_count = setting->slots,
                                        .row_limit = setting->rows,
                                        .page_tokens = PAGE_TOKENS,
                                        .context_tokens = CONTEXT,
                                        .draft_limit = setting->drafts,
                                        .draft_window = PAPER_WINDOW + setting->drafts,
                                        .group_count = groups_of(world),
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
                                                         .row_seconds = setting->row_seconds,
                                                         .seed = setting->seed});
    return world;
}

void world_destroy(struct world *world) {
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

void world_submit(struct world *world, const int32_t *prompt, int32_t count, int32_t limit, int priority) {
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

void world_submit_at_random(struct world *world) {
    int32_t prompt[CONTEXT];
    int32_t stem = world_below(world, 3);
    int32_t stem_length = world_below(world, 30);
    int32_t count = stem_length + 1 + world_below(world, 15);
    for (int32_t i = 0; i < count; i++) {
        prompt[i] =
            i < stem_length ? (stem * 131 + i * 7) % PAPER_VOCABULARY : world_below(world, PAPER_VOCABULARY);
    }
    world_submit(world, prompt, count, 1 + world_below(world, CONTEXT - count < 18 ? CONTEXT - count : 18),
                 world_below(world, 3));
}

void world_cancel_at_random(struct world *world) {
    if (world->submitted > 0 && world_below(world, 100) < world->setting.cancel_percent) {
        world->sequences[world_below(world, world->submitted)].is_cancelled = true;
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

/*
 * P-33: a part of a prompt gives a token if it is the last one, and only then. Adds up the rows of prompts
 * that the draft layer works on, which are the last ones before the drafts.
 */
static void check_segment(struct world *world, const struct step_segment *step,
                          const struct round_segment *segment, const struct sequence *sequence) {
    int32_t end = step->first_position + step->row_count - segment->draft_count;
    int32_t first_draft_row = end - segment->catch_up_rows;
    int32_t prompt_end = end < sequence->prompt_count ? end : sequence->prompt_count;
    assert_int_equal(segment->is_sampled, end == sequence->token_count);
    world->prompt_draft_rows += prompt_end > first_draft_row ? prompt_end - first_draft_row : 0;
}

/* P-26: who gets tokens in a tick waits for none, and belongs to its group; of a group one tick samples. */
static void check_plan(struct world *world, const struct round_plan *plan) {
    int32_t chunks = 0;
    int32_t logit_rows = 0;
    bool leaves_out = false;
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        const struct sequence *sequence = plan->sequences[i];
        check_segment(world, &plan->step.segments[i], &plan->segments[i], sequence);
        logit_rows += plan->segments[i].is_sampled ? 1 + plan->segments[i].draft_count : 0;
        if (plan->segments[i].is_sampled) {
            assert_int_equal(sequence->group, plan->group);
            leaves_out |= plan->segments[i].catch_up_rows == 0;
        }
        chunks = sequence->ticks > chunks ? sequence->ticks : chunks;
    }
    assert_int_equal(plan->step.logit_row_count, logit_rows);
    world->partial_ticks += plan->regime != DRAFT_REGIME_COLD && leaves_out;
    for (int32_t i = 0; i < world->under_way; i++) {
        const struct world_tick *tick = &world->ticks[(world->oldest + i) % TICKS_MAX];
        assert_true(tick->sampled == 0 || plan->step.logit_row_count == 0 || tick->group != plan->group);
        assert_true(tick->sampled == 0 || world->under_way < groups_of(world));
    }
    world->chunks_in_a_row = chunks > world->chunks_in_a_row ? chunks : world->chunks_in_a_row;
}

bool world_plan_tick(struct world *world) {
    struct round_plan plan;
    if (!scheduler_plan(world->scheduler, world->now, &plan)) {
        return false;
    }
    check_plan(world, &plan);
    assert_true(world->under_way < ticks_most(world));
    struct world_tick *tick = &world->ticks[(world->oldest + world->under_way++) % TICKS_MAX];
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

void world_complete_tick(struct world *world) {
    scheduler_complete(world->scheduler, &world->ticks[world->oldest].result, world->now);
    world->oldest = (world->oldest + 1) % TICKS_MAX;
    world->under_way--;
}

bool world_step(struct world *world) {
    while (world->under_way < ticks_most(world) && world_plan_tick(world)) {
        if (ticks_most(world) > 1 && world_below(world, 4) == 0) {
            break;
        }
    }
    bool has_run = world->under_way > 0;
    if (has_run) {
        world_complete_tick(world);
    }
    world->now += 1.0;
    check_gauges(world);
    return has_run;
}

void world_check_texts(const struct world *world) {
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
