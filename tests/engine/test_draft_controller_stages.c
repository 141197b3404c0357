/*
 * The controller on a simulated pipeline of two stages (spec parallelism M-34, M-42): groups of sequences
 * take turns, drafts are made on the last stage, and what counts is the pipeline's clock. Told the ticks'
 * seconds as the engine tells them, the controller must come near the best fixed number of drafts and never
 * fall behind none.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/draft_controller.h"
#include "engine/stage_seconds.h"

enum { GROUPS_MAX = 2, SEQUENCES_MAX = 32, LIMIT = 3, TICKS = 12000, EARLY_TICKS = 1500, CONTEXT = 2000 };

/* Milliseconds of a stage: base + per_row * rows; of a draft pass likewise, over its sequences. */
struct line {
    double base;
    double per_row;
};

struct pipeline {
    struct line first;
    struct line last;
    struct line pass;
    double chance; /* that a draft is accepted */
    int group_count;
    int32_t sequence_count; /* of each group */
};

struct group {
    struct draft_candidate candidates[SEQUENCES_MAX];
    struct draft_tick tick;
    int32_t drafts[SEQUENCES_MAX]; /* to be made in the tick under way */
    enum draft_regime regime;
    double ready; /* when its last tick ended */
};

struct run {
    const struct pipeline *pipeline;
    struct draft_controller *controller; /* NULL: no drafts */
    struct group groups[GROUPS_MAX];
    double first_free;
    double last_free;
    int64_t tick;
    int64_t tokens;
};

/* A number in [0, 1) that depends on nothing but its place. */
static double chance_at(uint64_t a, uint64_t b) {
    uint64_t x = a * 0x9E3779B97F4A7C15U ^ (b + 1) * 0xD1B54A32D192ED03U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

/* A few per cent of noise, and one in a hundred takes three times as long. */
static double seconds_of(const struct run *run, struct line line, double rows, uint64_t purpose) {
    uint64_t tick = (uint64_t)run->tick;
    double factor = 0.96 + 0.08 * chance_at(tick, purpose);
    factor *= chance_at(tick, purpose + 50) < 0.01 ? 3 : 1;
    return 1e-3 * (line.base + line.per_row * rows) * factor;
}

static void plan(struct run *run, int index) {
    struct group *group = &run->groups[index];
    int32_t count = run->pipeline->sequence_count;
    for (int32_t i = 0; i < count; i++) {
        group->candidates[i] = (struct draft_candidate){index * count + i, group->drafts[i], LIMIT};
        group->drafts[i] = 0;
    }
    group->tick = (struct draft_tick){group->candidates, count, 0, 0, CONTEXT};
    group->regime = run->controller == NULL
                        ? DRAFT_REGIME_COLD
                        : draft_controller_plan(run->controller, &group->tick, group->drafts).regime;
}

static double draft_seconds(const struct run *run, const struct group *group) {
    double seconds = 0;
    for (int32_t pass = 0; pass < LIMIT; pass++) {
        int32_t rows = 0;
        for (int32_t i = 0; i < run->pipeline->sequence_count; i++) {
            rows += group->drafts[i] > pass;
        }
        seconds += rows == 0 ? 0 : seconds_of(run, run->pipeline->pass, rows, 10 + (uint64_t)pass);
    }
    /* Catching up writes a few rows. */
    return group->regime == DRAFT_REGIME_COLD ? 0 : seconds + 0.02e-3;
}

static int32_t accepted_of(const struct run *run, int32_t slot, int32_t pending) {
    int32_t accepted = 0;
    while (accepted < pending && chance_at((uint64_t)run->tick, 100 + (uint64_t)(slot * LIMIT + accepted)) <
                                     run->pipeline->chance) {
        accepted++;
    }
    return accepted;
}

/* The planned tick of the group goes through both stages; what it gave is observed. */
static void finish(struct run *run, int index) {
    const struct pipeline *pipeline = run->pipeline;
    struct group *group = &run->groups[index];
    int32_t verified[SEQUENCES_MAX];
    int32_t accepted[SEQUENCES_MAX];
    int32_t rows = pipeline->sequence_count;
    for (int32_t i = 0; i < pipeline->sequence_count; i++) {
        verified[i] = group->candidates[i].pending_drafts;
        accepted[i] = accepted_of(run, group->candidates[i].slot, verified[i]);
        rows += verified[i];
        run->tokens += 1 + accepted[i];
    }
    struct stage_seconds stages = {.last = seconds_of(run, pipeline->last, rows, 1),
                                   .draft = draft_seconds(run, group)};
    double first = seconds_of(run, pipeline->first, rows, 2);
    stage_seconds_add(&stages, first);
    run->first_free = fmax(group->ready, run->first_free) + first;
    run->last_free = fmax(run->first_free, run->last_free) + stages.last + stages.draft;
    group->ready = run->last_free;
    if (run->controller != NULL) {
        struct tick_seconds told = stage_seconds_of_tick(&stages, pipeline->group_count);
        draft_controller_observe(run->controller, &group->tick,
                                 &(struct draft_outcome){.verified = verified,
                                                         .accepted = accepted,
                                                         .step_seconds = told.step,
                                                         .draft_seconds = told.draft});
    }
    run->tick++;
}

/* Tokens per second once the controller has looked around. */
static double rate_of(const struct pipeline *pipeline, int32_t limit, bool is_adaptive) {
    struct run run = {.pipeline = pipeline};
    int64_t early_tokens = 0;
    double early = 0;
    if (limit > 0) {
        const struct draft_controller_options options = {.draft_limit = limit,
                                                         .slot_count =
                                                             pipeline->group_count * pipeline->sequence_count,
                                                         .is_adaptive = is_adaptive};
        assert_int_equal(draft_controller_create(&options, &run.controller), STATUS_OK);
        for (int32_t slot = 0; slot < options.slot_count; slot++) {
            draft_controller_start_sequence(run.controller, slot, 0.0);
        }
    }
    for (int g = 0; g < pipeline->group_count; g++) {
        plan(&run, g);
    }
    while (run.tick < TICKS) {
        int next = (int)(run.tick % pipeline->group_count);
        finish(&run, next);
        plan(&run, next);
        if (run.tick == EARLY_TICKS) {
            early_tokens = run.tokens;
            early = run.last_free;
        }
    }
    draft_controller_destroy(&run.controller);
    return (double)(run.tokens - early_tokens) / (run.last_free - early);
}

/* Within `share` of the best fixed number; returns that number. */
static int compete(struct pipeline pipeline, double share) {
    double best = rate_of(&pipeline, 0, false);
    int best_limit = 0;
    for (int limit = 1; limit <= LIMIT; limit++) {
        double rate = rate_of(&pipeline, limit, false);
        best_limit = rate > best ? limit : best_limit;
        best = rate > best ? rate : best;
    }
    double ours = rate_of(&pipeline, LIMIT, true);
    if (ours < share * best) {
        fail_msg("%d groups of %d: %.1f tokens per second, %.1f are possible with %d drafts",
                 pipeline.group_count, pipeline.sequence_count, ours, best, best_limit);
    }
    return best_limit;
}

/* The first stage has most layers, so that the last one has time to draft. */
static void drafts_in_the_shade_of_the_first_stage_are_free(void **state) {
    (void)state;
    struct pipeline pipeline = {.first = {4, 0.02},
                                .last = {1, 0.02},
                                .pass = {0.9, 0.01},
                                .chance = 0.5,
                                .group_count = 2,
                                .sequence_count = 4};
    assert_int_equal(compete(pipeline, 0.98), 3);
    /* With one group under way they are in nobody's shade. */
    pipeline.group_count = 1;
    assert_in_range(compete(pipeline, 0.98), 0, 1);
}

/* As soon as it drafts, the last stage is what all wait for. */
static void drafts_that_the_pipeline_waits_for_are_not_made(void **state) {
    (void)state;
    struct pipeline pipeline = {.first = {2, 0.05},
                                .last = {2, 0.05},
                                .pass = {1.6, 0.05},
                                .chance = 0.6,
                                .group_count = 2,
                                .sequence_count = 8};
    assert_int_equal(compete(pipeline, 0.98), 0);
    /* One at a time they cost less than the way through both stages that they save. */
    pipeline.group_count = 1;
    assert_in_range(compete(pipeline, 0.98), 1, 3);
}

static void rows_are_dear_on_every_stage(void **state) {
    (void)state;
    struct pipeline pipeline = {.first = {0.2, 0.1},
                                .last = {0.2, 0.1},
                                .pass = {0.05, 0.02},
                                .chance = 0.85,
                                .group_count = 2,
                                .sequence_count = 16};
    assert_int_equal(compete(pipeline, 0.98), 0);
    pipeline.sequence_count = 1;
    assert_in_range(compete(pipeline, 0.98), 1, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_in_the_shade_of_the_first_stage_are_free),
        cmocka_unit_test(drafts_that_the_pipeline_waits_for_are_not_made),
        cmocka_unit_test(rows_are_dear_on_every_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
