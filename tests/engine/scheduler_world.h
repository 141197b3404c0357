/*
 * A scheduler over a model on paper, for tests: requests come in, ticks are planned, run in the order of
 * their plans and completed later, and after each step all that must always hold is checked. Asserts.
 */
#ifndef SLUICE_TESTS_ENGINE_SCHEDULER_WORLD_H
#define SLUICE_TESTS_ENGINE_SCHEDULER_WORLD_H

#include "engine/scheduler.h"
#include "support/paper_model.h"

enum { PAGE_TOKENS = 4, CONTEXT = 64, REQUESTS_MAX = 256, SLOTS_MAX = 12, TICKS_MAX = 5 };

/* One way to run requests. */
struct world_setting {
    uint64_t seed;
    int32_t slots;
    int32_t rows;
    int32_t pages;
    int32_t snapshots; /* 0: no prefix cache */
    int32_t drafts;
    bool is_adaptive;
    int32_t requests;
    bool is_crowded; /* all requests come at the start */
    int32_t cancel_percent;
    int32_t ticks;      /* under way at once; 0: one */
    int32_t groups;     /* 0: as many as ticks */
    double row_seconds; /* of the model on paper */
    struct scheduler_store store;
};

/* A tick that was run and not yet completed. */
struct world_tick {
    int32_t group;
    int32_t sampled;
    struct round_result result;
    struct round_feedback feedback[SLOTS_MAX];
};

struct world {
    struct world_setting setting;
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
    struct world_tick ticks[TICKS_MAX]; /* a ring */
    int32_t oldest;
    int32_t under_way;
    int32_t most_under_way;
    int32_t partial_ticks;     /* in which the draft layer worked for some of the sequences that got tokens */
    int32_t prompt_draft_rows; /* rows of prompts that the draft layer worked on */
    int32_t chunks_in_a_row;   /* most ticks with rows of one prompt that were under way at once */
};

/* The next random number below `limit`. */
int32_t world_below(struct world *world, int32_t limit);

/* Scheduler, cache, drafts and model by the setting; nothing waits. */
struct world *world_create(const struct world_setting *setting);

/* Expects all pages back where they belong, and frees. */
void world_destroy(struct world *world);

/* A request of this prompt for `limit` tokens. */
void world_submit(struct world *world, const int32_t *prompt, int32_t count, int32_t limit, int priority);

/* Prompts share beginnings: a few stems, cut anywhere, with tails of their own. */
void world_submit_at_random(struct world *world);

/* Any request, now and then. */
void world_cancel_at_random(struct world *world);

/* Plans a tick and runs it; false if there is none to plan. */
bool world_plan_tick(struct world *world);

/* Takes in what the oldest tick under way gave. */
void world_complete_tick(struct world *world);

/* Plans what can be planned, or less, and completes a tick. */
bool world_step(struct world *world);

/* The text is the one that the model gives alone, as far as the request came. */
void world_check_texts(const struct world *world);

#endif
