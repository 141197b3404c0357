/* Sequences, of 150 to 900 tokens if nothing else is asked for, follow each other in every slot, some after a
 * pause. */
#include "test_draft_controller_world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* After a pause of the draft layer its first drafts are worse: by half, over this many rows. */
enum { REFILL_ROWS = 24, CONTEXT = 2000 };

struct world_slot {
    int64_t sequence;
    int64_t position;
    int64_t length;
    int32_t pause_ticks;
    int32_t pending;
    int32_t layer_rows;
};

struct world {
    const struct world_options *options;
    int32_t slot_count;
    struct world_slot slots[WORLD_SLOTS_MAX];
    int64_t tokens;
    int64_t tick;
    int64_t busy_ticks;
    double seconds;
    double made[2];
    double rounds[2];
};

static uint64_t luck; /* of the world that runs */

/* A number in [0, 1) that depends on nothing but its place (splitmix64). */
static double chance_at(uint64_t purpose, uint64_t a, uint64_t b) {
    uint64_t x =
        ((purpose + 16 * luck) * 0x9E3779B97F4A7C15U) ^ (a * 0xD1B54A32D192ED03U) ^ (b * 0x8CB92BA72F3D8DD7U);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    x ^= x >> 31;
    return (double)(x >> 11) * 0x1p-53;
}

/* 4 % of noise, and one tick in a hundred takes three times as long. */
static double noise_at(uint64_t purpose, uint64_t tick) {
    double sum = chance_at(purpose, tick, 0) + chance_at(purpose, tick, 1) + chance_at(purpose, tick, 2);
    double factor = 1 + 0.08 * (sum - 1.5);
    return chance_at(purpose, tick, 3) < 0.01 ? 3 * factor : factor;
}

/* A machine that others use too is slower for a while, again and again: by up to a half for up to 96 ticks.
 */
static double slowness_at(uint64_t tick) {
    enum { STRETCH_TICKS = 32 };
    double slowness = 1;
    for (uint64_t back = 0; back < 3; back++) {
        uint64_t stretch = tick / STRETCH_TICKS - back;
        bool is_slow = tick / STRETCH_TICKS >= back && chance_at(6, stretch, 0) < 0.1;
        bool still_lasts = chance_at(6, stretch, 1) * 3 >= (double)back;
        slowness += is_slow && still_lasts ? 0.5 * chance_at(6, stretch, 2) : 0;
    }
    return slowness;
}

double world_step_seconds(const struct world_costs *costs, int32_t rows) {
    double touched = 1 - pow(1 - 6.0 / 256, rows);
    return 1e-3 * (costs->base + costs->per_row * rows + costs->experts * touched);
}

static double draft_seconds(const struct world_costs *costs, int32_t sequences, const int32_t *drafts) {
    double milliseconds = costs->catch_up * (1 + 0.02 * sequences);
    for (int32_t j = 0; j < DRAFT_LIMIT_MAX; j++) {
        int32_t rows = 0;
        for (int32_t i = 0; i < sequences; i++) {
            rows += drafts[i] > j ? 1 : 0;
        }
        milliseconds += rows > 0 ? costs->pass_base + costs->pass_per_row * rows : 0;
    }
    return 1e-3 * milliseconds;
}

static int32_t half_of(const struct world *world) {
    return 2 * world->tokens >= world->options->tokens_per_slot * world->slot_count ? 1 : 0;
}

static void begin_sequence(struct world *world, int32_t slot, struct draft_controller *controller) {
    struct world_slot *state = &world->slots[slot];
    state->sequence++;
    state->position = 0;
    uint64_t place = (uint64_t)state->sequence;
    state->length = 150 + (int64_t)(750 * chance_at(1, (uint64_t)slot, place));
    if (world->options->answer_tokens > 0) {
        state->length = world->options->answer_tokens;
    }
    state->layer_rows = REFILL_ROWS;
    if (controller != NULL) {
        draft_controller_start_sequence(controller, slot, 0.6);
    }
}

static int32_t accepted_of(const struct world *world, int32_t slot) {
    const struct world_slot *state = &world->slots[slot];
    double chance = world->options->chances[half_of(world)][slot % 2];
    chance *= 0.5 + 0.5 * fmin(1, (double)state->layer_rows / REFILL_ROWS);
    int32_t accepted = 0;
    while (accepted < state->pending) {
        uint64_t place = (uint64_t)(state->sequence * 1000 + state->position + accepted);
        if (chance_at(2, (uint64_t)slot, place) >= chance) {
            break;
        }
        accepted++;
        chance *= world->options->chance_factor;
    }
    return accepted;
}

/* Who runs in this tick, and how many sequences begin. */
static int32_t gather(struct world *world, struct draft_controller *controller,
                      struct draft_candidate *candidates, int32_t *begun) {
    int32_t count = 0;
    *begun = 0;
    for (int32_t slot = 0; slot < world->slot_count; slot++) {
        struct world_slot *state = &world->slots[slot];
        if (state->pause_ticks > 0) {
            state->pause_ticks--;
            continue;
        }
        if (state->position >= state->length) {
            begin_sequence(world, slot, controller);
            (*begun)++;
        }
        int64_t room = state->length - state->position - state->pending - 2;
        room = room < 0 ? 0 : room > DRAFT_LIMIT_MAX ? DRAFT_LIMIT_MAX : room;
        candidates[count++] = (struct draft_candidate){slot, state->pending, (int32_t)room};
    }
    return count;
}

static void advance(struct world *world, int32_t slot, bool takes_part, int32_t accepted, int32_t drafts) {
    struct world_slot *state = &world->slots[slot];
    state->position += 1 + accepted;
    world->tokens += 1 + accepted;
    state->layer_rows = takes_part ? state->layer_rows + 1 + accepted : 0;
    state->pending = drafts;
    world->made[slot % 2] += drafts;
    world->rounds[slot % 2]++;
    if (state->position >= state->length) {
        state->pending = 0;
        state->pause_ticks = (int32_t)(4 * chance_at(3, (uint64_t)slot, (uint64_t)state->sequence));
    }
}

static void run_tick(struct world *world, struct draft_controller *controller) {
    const struct world_costs *costs = &world->options->costs[half_of(world)];
    struct draft_candidate candidates[WORLD_SLOTS_MAX];
    int32_t drafts[WORLD_SLOTS_MAX] = {0};
    int32_t verified[WORLD_SLOTS_MAX];
    int32_t accepted[WORLD_SLOTS_MAX];
    int32_t begun;
    int32_t count = gather(world, controller, candidates, &begun);
    int32_t prompt_rows = begun * world->options->prompt_rows;
    struct draft_tick tick = {candidates, count, prompt_rows, prompt_rows, CONTEXT};
    struct draft_orders orders = {DRAFT_REGIME_COLD, 0, false};
    if (controller != NULL) {
        orders = draft_controller_plan(controller, &tick, drafts);
    }
    int32_t rows = count + tick.other_rows;
    for (int32_t i = 0; i < count; i++) {
        assert_in_range(drafts[i], 0, candidates[i].draft_room);
        assert_true((orders.regime == DRAFT_REGIME_DRAFT && i < orders.participant_count) || drafts[i] == 0);
        verified[i] = candidates[i].pending_drafts;
        accepted[i] = accepted_of(world, candidates[i].slot);
        rows += verified[i];
    }
    struct draft_outcome outcome = {.verified = verified, .accepted = accepted};
    double slowness = world->options->is_shared ? slowness_at((uint64_t)world->tick) : 1;
    double step = world_step_seconds(costs, rows);
    double draft = orders.participant_count > 0 ? draft_seconds(costs, orders.participant_count, drafts) : 0;
    int32_t caught_up = orders.participant_count + (orders.has_prompts ? prompt_rows : 0);
    draft += 1e-3 * world->options->row_catch_up * caught_up;
    outcome.step_seconds = step * slowness * noise_at(4, (uint64_t)world->tick);
    outcome.draft_seconds = draft * slowness * noise_at(5, (uint64_t)world->tick);
    if (controller != NULL) {
        draft_controller_observe(controller, &tick, &outcome);
    }
    for (int32_t i = 0; i < count; i++) {
        advance(world, candidates[i].slot, i < orders.participant_count, accepted[i], drafts[i]);
    }
    world->seconds += step + draft;
    world->tick++;
    world->busy_ticks += count > 0 ? 1 : 0;
}

static void profile(struct draft_controller *controller, const struct world_options *options,
                    int32_t slot_count) {
    const struct world_costs *costs = &options->costs[0];
    static const int32_t rows[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        draft_controller_set_step_cost(controller, rows[i],
                                       world_step_seconds(costs, rows[i]) *
                                           (1 - options->profile_flatness * (1 - 1.0 / rows[i])));
        for (int32_t k = 0; k <= 2 && rows[i] <= slot_count; k++) {
            int32_t drafts[WORLD_SLOTS_MAX];
            for (int32_t r = 0; r < rows[i]; r++) {
                drafts[r] = k;
            }
            draft_controller_set_draft_cost(controller, rows[i], k, draft_seconds(costs, rows[i], drafts));
        }
    }
}

struct world_result world_run(const struct world_options *options, int32_t slot_count, int32_t draft_limit,
                              bool is_adaptive) {
    struct world *world = calloc(1, sizeof *world);
    struct draft_controller *controller = NULL;
    assert_non_null(world);
    world->options = options;
    luck = options->world_number;
    world->slot_count = slot_count;
    if (draft_limit > 0) {
        const struct draft_controller_options wanted = {
            .draft_limit = draft_limit, .slot_count = slot_count, .is_adaptive = is_adaptive};
        assert_int_equal(draft_controller_create(&wanted, &controller), STATUS_OK);
        if (options->is_profiled) {
            profile(controller, options, slot_count);
        }
    }
    int64_t all = options->tokens_per_slot * slot_count;
    int64_t early_tokens = 0;
    double early_seconds = 0;
    while (world->tokens < all) {
        run_tick(world, controller);
        if (early_tokens == 0 && world->tokens >= all / 20) {
            early_tokens = world->tokens;
            early_seconds = world->seconds;
        }
    }
    struct world_result result = {.tokens_per_second = (double)world->tokens / world->seconds,
                                  .ticks = world->busy_ticks,
                                  .tokens = world->tokens};
    result.late_rate = (double)(world->tokens - early_tokens) / (world->seconds - early_seconds);
    for (int i = 0; i < 2; i++) {
        result.slot_drafts[i] = world->rounds[i] > 0 ? world->made[i] / world->rounds[i] : 0;
    }
    if (controller != NULL) {
        result.counters = draft_controller_counters(controller);
    }
    draft_controller_destroy(&controller);
    free(world);
    return result;
}
