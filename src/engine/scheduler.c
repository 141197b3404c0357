/* Lists, pages and slots: who is where. */
#include <stdlib.h>

#include "engine/scheduler_internal.h"

static int32_t pages_of_context(const struct scheduler_options *options) {
    return (options->context_tokens + options->page_tokens - 1) / options->page_tokens;
}

static int32_t logit_rows_most(const struct scheduler_options *options) {
    int64_t rows = (int64_t)options->slot_count * (1 + options->draft_limit);
    return (int32_t)(rows < options->row_limit ? rows : options->row_limit);
}

static int64_t mask_words(const struct scheduler_options *options) {
    return (options->vocabulary_size + 31) / 32;
}

static enum status alloc_plan(struct plan_arrays *plan, const struct scheduler_options *options) {
    size_t slots = (size_t)options->slot_count;
    size_t rows = (size_t)options->row_limit;
    plan->steps = calloc(slots, sizeof *plan->steps);
    plan->segments = calloc(slots, sizeof *plan->segments);
    plan->sequences = calloc(slots, sizeof(struct sequence *));
    plan->snapshots = calloc(slots, sizeof *plan->snapshots);
    plan->row_tokens = calloc(rows, sizeof *plan->row_tokens);
    plan->logit_rows = calloc(rows, sizeof *plan->logit_rows);
    plan->candidates = calloc(slots, sizeof *plan->candidates);
    plan->drafts = calloc(slots, sizeof *plan->drafts);
    plan->verified = calloc(slots, sizeof *plan->verified);
    plan->accepted = calloc(slots, sizeof *plan->accepted);
    bool is_complete = plan->steps != NULL && plan->segments != NULL && plan->sequences != NULL &&
                       plan->snapshots != NULL && plan->row_tokens != NULL && plan->logit_rows != NULL &&
                       plan->candidates != NULL && plan->drafts != NULL && plan->verified != NULL &&
                       plan->accepted != NULL;
    CHECK(is_complete, STATUS_OUT_OF_MEMORY, "out of memory for plans of %d sequences", options->slot_count);
    return STATUS_OK;
}

static void free_plan(struct plan_arrays *plan) {
    free(plan->steps);
    free(plan->segments);
    free(plan->sequences);
    free(plan->snapshots);
    free(plan->row_tokens);
    free(plan->logit_rows);
    free(plan->candidates);
    free(plan->drafts);
    free(plan->verified);
    free(plan->accepted);
}

static enum status alloc_changes(struct plan_changes *changes, const struct scheduler_options *options) {
    size_t slots = (size_t)options->slot_count;
    /*
     * A slot can change hands once between two plans: the old sequence's last pages and those it gave up for
     * cached ones, then all of the new.
     */
    size_t updates = 3 * slots * (size_t)pages_of_context(options);
    changes->page_updates = calloc(updates, sizeof *changes->page_updates);
    changes->slot_operations =
        calloc(SCHEDULER_OPERATIONS_PER_SLOT * slots, sizeof *changes->slot_operations);
    CHECK_MEMORY(changes->page_updates);
    CHECK_MEMORY(changes->slot_operations);
    return STATUS_OK;
}

static void free_changes(struct plan_changes *changes) {
    free(changes->page_updates);
    free(changes->slot_operations);
}

static enum status alloc_masks(struct scheduler *scheduler) {
    size_t rows = (size_t)logit_rows_most(&scheduler->options);
    size_t words = rows * (size_t)mask_words(&scheduler->options);
    scheduler->masks = calloc(words == 0 ? 1 : words, sizeof *scheduler->masks);
    scheduler->row_masks = calloc(rows, sizeof(token_mask_word *));
    CHECK_MEMORY(scheduler->masks);
    CHECK_MEMORY(scheduler->row_masks);
    return STATUS_OK;
}

static enum status alloc_scheduler(struct scheduler *scheduler) {
    const struct scheduler_options *options = &scheduler->options;
    size_t slots = (size_t)options->slot_count;
    size_t plans = (size_t)options->in_flight_limit;
    scheduler->slots = calloc(slots, sizeof(struct sequence *));
    scheduler->generations = calloc(slots, sizeof *scheduler->generations);
    scheduler->starts = calloc(slots, sizeof *scheduler->starts);
    scheduler->matched_pages = calloc((size_t)pages_of_context(options), sizeof *scheduler->matched_pages);
    scheduler->plans = calloc(plans, sizeof *scheduler->plans);
    scheduler->is_group_busy = calloc((size_t)options->group_count, sizeof *scheduler->is_group_busy);
    CHECK_MEMORY(scheduler->slots);
    CHECK_MEMORY(scheduler->generations);
    CHECK_MEMORY(scheduler->starts);
    CHECK_MEMORY(scheduler->matched_pages);
    CHECK_MEMORY(scheduler->plans);
    CHECK_MEMORY(scheduler->is_group_busy);
    for (size_t i = 0; i < plans; i++) {
        TRY(alloc_plan(&scheduler->plans[i], options));
    }
    TRY(alloc_changes(&scheduler->pending, options));
    TRY(alloc_changes(&scheduler->given, options));
    return alloc_masks(scheduler);
}

enum status scheduler_create(const struct scheduler_options *options, struct scheduler **out) {
    struct scheduler *scheduler = calloc(1, sizeof *scheduler);
    CHECK_MEMORY(scheduler);
    scheduler->options = *options;
    enum status status = alloc_scheduler(scheduler);
    if (status != STATUS_OK) {
        scheduler_destroy(&scheduler);
        return error_forward(status, ERROR_HERE);
    }
    *out = scheduler;
    return STATUS_OK;
}

void scheduler_destroy(struct scheduler **scheduler_pointer) {
    struct scheduler *scheduler = *scheduler_pointer;
    if (scheduler == NULL) {
        return;
    }
    for (int32_t i = 0; scheduler->plans != NULL && i < scheduler->options.in_flight_limit; i++) {
        free_plan(&scheduler->plans[i]);
    }
    free_changes(&scheduler->pending);
    free_changes(&scheduler->given);
    free(scheduler->plans);
    free(scheduler->slots);
    free(scheduler->generations);
    free(scheduler->starts);
    free(scheduler->masks);
    free(scheduler->row_masks);
    free(scheduler->is_group_busy);
    free(scheduler->matched_pages);
    free(scheduler);
    *scheduler_pointer = NULL;
}

static bool goes_before(const struct sequence *a, const struct sequence *b) {
    return a->priority != b->priority ? a->priority < b->priority : a->arrival < b->arrival;
}

/* From the back: most sequences arrive in order. */
void scheduler_list(struct sequence_list *list, struct sequence *sequence) {
    struct sequence *successor = NULL;
    struct sequence *before = list->last;
    while (before != NULL && goes_before(sequence, before)) {
        successor = before;
        before = before->previous;
    }
    sequence_list_insert(list, successor, sequence);
}

void scheduler_submit(struct scheduler *scheduler, struct sequence *sequence) {
    sequence->arrival = scheduler->arrivals++;
    sequence->phase = SEQUENCE_WAITING;
    scheduler_list(&scheduler->waiting, sequence);
    scheduler->gauges.prompt_tokens += sequence->prompt_count;
}

void scheduler_add_slot_operation(struct scheduler *scheduler, enum step_slot_action action, int32_t from,
                                  int32_t to) {
    struct plan_changes *pending = &scheduler->pending;
    pending->slot_operations[pending->slot_operation_count++] =
        (struct step_slot_operation){.action = action, .from = from, .to = to};
}

void scheduler_add_page_update(struct scheduler *scheduler, int32_t slot, int32_t index, int32_t page) {
    struct plan_changes *pending = &scheduler->pending;
    pending->page_updates[pending->page_update_count++] =
        (struct step_page_update){.slot = slot, .index = index, .page = page};
}

struct step_plan scheduler_pending_changes(const struct scheduler *scheduler) {
    const struct plan_changes *pending = &scheduler->pending;
    return (struct step_plan){.page_updates = pending->page_updates,
                              .page_update_count = pending->page_update_count,
                              .slot_operations = pending->slot_operations,
                              .slot_operation_count = pending->slot_operation_count};
}

void scheduler_forget_changes(struct scheduler *scheduler) {
    scheduler->pending.page_update_count = 0;
    scheduler->pending.slot_operation_count = 0;
}

/* A free page; cached pages that nobody uses are given up for it. -1: there is none. */
static int32_t take_page(struct scheduler *scheduler) {
    if (scheduler->options.pages->free_count == 0 && scheduler->options.prefixes != NULL) {
        prefix_cache_evict(scheduler->options.prefixes, 1);
    }
    return page_pool_take(scheduler->options.pages);
}

bool scheduler_reserve_pages(struct scheduler *scheduler, struct sequence *sequence, int32_t positions) {
    int32_t page_tokens = scheduler->options.page_tokens;
    int32_t needed = (positions + page_tokens - 1) / page_tokens;
    while (sequence->page_count < needed) {
        int32_t page = take_page(scheduler);
        if (page < 0) {
            return false;
        }
        scheduler_add_page_update(scheduler, sequence->slot, sequence->page_count, page);
        sequence->pages[sequence->page_count++] = page;
    }
    return true;
}

void scheduler_take_off(struct scheduler *scheduler, struct sequence *sequence) {
    for (int32_t i = 0; i < sequence->page_count; i++) {
        page_pool_drop_reference(scheduler->options.pages, sequence->pages[i]);
    }
    scheduler->slots[sequence->slot] = NULL;
    sequence->page_count = 0;
    sequence->slot = -1;
    sequence->computed = 0;
    sequence->planned = 0;
    sequence->gives_way = false;
    sequence->draft_count = 0;
    sequence->draft_gap_end = 0;
    sequence->restored_from = -1;
    sequence_list_remove(&scheduler->running, sequence);
}

void scheduler_end(struct scheduler *scheduler, struct sequence *sequence) {
    if (sequence->phase == SEQUENCE_RUNNING) {
        scheduler_take_off(scheduler, sequence);
    } else {
        sequence_list_remove(&scheduler->waiting, sequence);
    }
    sequence->phase = SEQUENCE_FINISHED;
    scheduler->gauges.finished++;
    scheduler->options.finished(scheduler->options.finished_context, sequence);
}

static void fail_list(struct scheduler *scheduler, struct sequence_list *list, enum status status,
                      const char *message) {
    while (list->first != NULL) {
        struct sequence *sequence = list->first;
        if (sequence->finish_reason == SLUICE_FINISH_NONE) {
            sequence_finish(sequence, SLUICE_FINISH_ERROR, status, message);
        }
        scheduler_end(scheduler, sequence);
    }
}

void scheduler_fail(struct scheduler *scheduler, enum status status, const char *message) {
    scheduler->plan_count = 0;
    for (int32_t group = 0; group < scheduler->options.group_count; group++) {
        scheduler->is_group_busy[group] = false;
    }
    if (scheduler->options.controller != NULL) {
        draft_controller_forget_ticks(scheduler->options.controller);
    }
    fail_list(scheduler, &scheduler->running, status, message);
    fail_list(scheduler, &scheduler->waiting, status, message);
    /* Nobody knows what of the plans was carried out: their changes go, and with them what was to be shared.
     */
    scheduler_forget_changes(scheduler);
    if (scheduler->options.prefixes != NULL) {
        prefix_cache_clear(scheduler->options.prefixes);
    }
}

struct sequence *scheduler_first(const struct scheduler *scheduler, bool is_waiting) {
    return is_waiting ? scheduler->waiting.first : scheduler->running.first;
}

static double earliest_deadline(const struct sequence_list *list, double earliest) {
    for (const struct sequence *sequence = list->first; sequence != NULL; sequence = sequence->next) {
        if (sequence->deadline > 0.0 && (earliest == 0.0 || sequence->deadline < earliest)) {
            earliest = sequence->deadline;
        }
    }
    return earliest;
}

double scheduler_next_deadline(const struct scheduler *scheduler) {
    return earliest_deadline(&scheduler->waiting, earliest_deadline(&scheduler->running, 0.0));
}

struct scheduler_gauges scheduler_gauges(const struct scheduler *scheduler) {
    struct scheduler_gauges gauges = scheduler->gauges;
    gauges.running = scheduler->running.count;
    gauges.waiting = scheduler->waiting.count;
    return gauges;
}

int32_t scheduler_in_flight(const struct scheduler *scheduler) {
    return scheduler->plan_count;
}
