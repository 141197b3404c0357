/* Lists, pages and slots: who is where. */
#include <stdlib.h>

#include "engine/scheduler_internal.h"

/* Per slot: a copy and a saved row at its end; a clearing and a restored copy when the next one starts. */
enum { SLOT_OPERATIONS_PER_SLOT = 4 };

static int32_t pages_of_context(const struct scheduler_options *options) {
    return (options->context_tokens + options->page_tokens - 1) / options->page_tokens;
}

static enum status alloc_plan(struct plan_arrays *plan, const struct scheduler_options *options) {
    size_t slots = (size_t)options->slot_count;
    size_t rows = (size_t)options->row_limit;
    /*
     * A slot can change hands once between two plans: the old sequence's last pages and those it gave up for
     * cached ones, then all of the new.
     */
    size_t updates = 3 * slots * (size_t)pages_of_context(options);
    plan->steps = calloc(slots, sizeof *plan->steps);
    plan->segments = calloc(slots, sizeof *plan->segments);
    plan->sequences = calloc(slots, sizeof *plan->sequences);
    plan->row_tokens = calloc(rows, sizeof *plan->row_tokens);
    plan->logit_rows = calloc(rows, sizeof *plan->logit_rows);
    plan->page_updates = calloc(updates, sizeof *plan->page_updates);
    plan->slot_operations = calloc(SLOT_OPERATIONS_PER_SLOT * slots, sizeof *plan->slot_operations);
    plan->candidates = calloc(slots, sizeof *plan->candidates);
    plan->drafts = calloc(slots, sizeof *plan->drafts);
    plan->verified = calloc(slots, sizeof *plan->verified);
    plan->accepted = calloc(slots, sizeof *plan->accepted);
    bool is_complete = plan->steps != NULL && plan->segments != NULL && plan->sequences != NULL &&
                       plan->row_tokens != NULL && plan->logit_rows != NULL && plan->page_updates != NULL &&
                       plan->slot_operations != NULL && plan->candidates != NULL && plan->drafts != NULL &&
                       plan->verified != NULL && plan->accepted != NULL;
    CHECK(is_complete, STATUS_OUT_OF_MEMORY, "out of memory for plans of %d sequences", options->slot_count);
    return STATUS_OK;
}

enum status scheduler_create(const struct scheduler_options *options, struct scheduler **out) {
    enum status status = STATUS_OK;
    struct scheduler *scheduler = calloc(1, sizeof *scheduler);
    CHECK_MEMORY(scheduler);
    scheduler->options = *options;
    scheduler->slots = calloc((size_t)options->slot_count, sizeof *scheduler->slots);
    scheduler->matched_pages = calloc((size_t)pages_of_context(options), sizeof *scheduler->matched_pages);
    CHECK_MEMORY_GOTO(scheduler->slots);
    CHECK_MEMORY_GOTO(scheduler->matched_pages);
    TRY_GOTO(alloc_plan(&scheduler->plan, options));
    *out = scheduler;
    return STATUS_OK;
fail:
    scheduler_destroy(&scheduler);
    return status;
}

void scheduler_destroy(struct scheduler **scheduler) {
    if (*scheduler != NULL) {
        struct plan_arrays *plan = &(*scheduler)->plan;
        free(plan->steps);
        free(plan->segments);
        free(plan->sequences);
        free(plan->row_tokens);
        free(plan->logit_rows);
        free(plan->page_updates);
        free(plan->slot_operations);
        free(plan->candidates);
        free(plan->drafts);
        free(plan->verified);
        free(plan->accepted);
        free((*scheduler)->slots);
        free((*scheduler)->matched_pages);
        free(*scheduler);
        *scheduler = NULL;
    }
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
    scheduler->plan.slot_operations[scheduler->plan.slot_operation_count++] =
        (struct step_slot_operation){.action = action, .from = from, .to = to};
}

struct step_plan scheduler_pending_changes(const struct scheduler *scheduler) {
    const struct plan_arrays *plan = &scheduler->plan;
    return (struct step_plan){.page_updates = plan->page_updates,
                              .page_update_count = plan->page_update_count,
                              .slot_operations = plan->slot_operations,
                              .slot_operation_count = plan->slot_operation_count};
}

void scheduler_forget_changes(struct scheduler *scheduler) {
    scheduler->plan.page_update_count = 0;
    scheduler->plan.slot_operation_count = 0;
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
        scheduler->plan.page_updates[scheduler->plan.page_update_count++] =
            (struct step_page_update){.slot = sequence->slot, .index = sequence->page_count, .page = page};
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
        sequence_finish(sequence, SLUICE_FINISH_ERROR, status, message);
        scheduler_end(scheduler, sequence);
    }
}

void scheduler_fail(struct scheduler *scheduler, enum status status, const char *message) {
    fail_list(scheduler, &scheduler->running, status, message);
    fail_list(scheduler, &scheduler->waiting, status, message);
    /* Nobody knows what of the plan was carried out: its changes go, and with them what was to be shared. */
    scheduler->plan.segment_count = 0;
    scheduler->plan.page_update_count = 0;
    scheduler->plan.slot_operation_count = 0;
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
