/* Which group a sequence belongs to: groups that take equally long keep all stages busy (P-27, P-28). */
#include "engine/scheduler_internal.h"

/* A row of a step weighs as much as reading so many tokens of context. */
enum { ROW_WEIGHT = 4096, PATIENCE_PLANS = 8 };

/* What a sequence will add to each tick of its group. */
static int64_t weight(const struct sequence *sequence) {
    return (int64_t)ROW_WEIGHT * (1 + sequence->draft_count) + sequence->token_count;
}

static int64_t group_load(const struct scheduler *scheduler, int32_t group) {
    int64_t load = 0;
    for (const struct sequence *s = scheduler->running.first; s != NULL; s = s->next) {
        load += s->group == group ? weight(s) : 0;
    }
    return load;
}

/* Of all that run, and of as many that wait as there are slots for. */
static int64_t whole_load(const struct scheduler *scheduler) {
    int64_t load = 0;
    int32_t free_slots = scheduler->options.slot_count - scheduler->running.count;
    for (const struct sequence *s = scheduler->running.first; s != NULL; s = s->next) {
        load += weight(s);
    }
    for (const struct sequence *s = scheduler->waiting.first; s != NULL && free_slots > 0; s = s->next) {
        load += weight(s);
        free_slots--;
    }
    return load;
}

bool scheduler_group_has_room(const struct scheduler *scheduler, int32_t group) {
    int32_t groups = scheduler->options.group_count;
    return groups == 1 || group_load(scheduler, group) * groups < whole_load(scheduler);
}

static int32_t lightest_group(const struct scheduler *scheduler) {
    int32_t lightest = 0;
    for (int32_t group = 1; group < scheduler->options.group_count; group++) {
        if (group_load(scheduler, group) < group_load(scheduler, lightest)) {
            lightest = group;
        }
    }
    return lightest;
}

/* The lowest in rank of those whose move makes the two groups more even; NULL: none. */
static struct sequence *find_movable(const struct scheduler *scheduler, int32_t group, int64_t difference) {
    for (struct sequence *s = scheduler->running.last; s != NULL; s = s->previous) {
        if (s->group == group && !s->awaits_tokens && 2 * weight(s) <= difference + ROW_WEIGHT / 2) {
            return s;
        }
    }
    return NULL;
}

void scheduler_even_groups(struct scheduler *scheduler, int32_t group) {
    if (scheduler->options.group_count == 1) {
        return;
    }
    int32_t lightest = lightest_group(scheduler);
    struct sequence *sequence =
        find_movable(scheduler, group, group_load(scheduler, group) - group_load(scheduler, lightest));
    if (sequence == NULL) {
        return;
    }
    scheduler->uneven_plans++;
    if (scheduler->uneven_plans >= PATIENCE_PLANS) {
        sequence->group = lightest;
        scheduler->uneven_plans = 0;
    }
}
