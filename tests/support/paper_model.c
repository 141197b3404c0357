#include "support/paper_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What a ring remembers of a position. */
struct ring_row {
    int32_t position; /* -1: nothing */
    int32_t token;
};

struct paper_model {
    struct paper_model_options options;
    int32_t pages_per_slot;
    int32_t ring_rows;
    int32_t *pages;               /* [page_count][page_tokens] */
    int32_t *table;               /* [slot_count][pages_per_slot] */
    struct ring_row *rings;       /* [slot_count][ring_rows] */
    struct ring_row *draft_rings; /* the same: the token after the position */
    struct ring_row *saved;       /* [slot_count]: position and token of the saved row */
    struct ring_row *boundary;    /* rows of the last step */
    int32_t boundary_rows;
    int32_t boundary_capacity;
    struct round_feedback *feedback;
    int64_t row_count;
    uint64_t random;
};

static void *make(size_t count, size_t bytes) {
    void *memory = calloc(count == 0 ? 1 : count, bytes);
    assert_non_null(memory);
    return memory;
}

struct paper_model *paper_model_create(const struct paper_model_options *options) {
    struct paper_model *model = make(1, sizeof *model);
    size_t slots = (size_t)options->slot_count;
    model->options = *options;
    model->random = options->seed | 1;
    model->pages_per_slot = (options->context_tokens + options->page_tokens - 1) / options->page_tokens;
    model->ring_rows = PAPER_WINDOW + options->draft_limit;
    size_t ring = slots * (size_t)model->ring_rows;
    model->pages = make((size_t)options->page_count * (size_t)options->page_tokens, sizeof *model->pages);
    model->table = make(slots * (size_t)model->pages_per_slot, sizeof *model->table);
    model->rings = make(ring, sizeof *model->rings);
    model->draft_rings = make(ring, sizeof *model->draft_rings);
    model->saved = make(slots, sizeof *model->saved);
    model->feedback = make(slots, sizeof *model->feedback);
    memset(model->table, -1, slots * (size_t)model->pages_per_slot * sizeof *model->table);
    for (size_t i = 0; i < ring; i++) {
        model->rings[i].position = -1;
        model->draft_rings[i].position = -1;
    }
    return model;
}

void paper_model_destroy(struct paper_model *model) {
    free(model->pages);
    free(model->table);
    free(model->rings);
    free(model->draft_rings);
    free(model->saved);
    free(model->boundary);
    free(model->feedback);
    free(model);
}

int64_t paper_model_row_count(const struct paper_model *model) {
    return model->row_count;
}

static uint64_t mix(uint64_t hash, int32_t token) {
    hash = (hash ^ (uint64_t)(uint32_t)token) * 0x9E3779B97F4A7C15U;
    return hash ^ hash >> 29;
}

int32_t paper_model_next_token(const int32_t *tokens, int32_t count) {
    uint64_t hash = 1;
    for (int32_t i = 0; i < count; i++) {
        hash = mix(hash, tokens[i]);
    }
    return (int32_t)(hash % PAPER_VOCABULARY);
}

static int32_t random_below(struct paper_model *model, int32_t limit) {
    model->random ^= model->random << 13;
    model->random ^= model->random >> 7;
    model->random ^= model->random << 17;
    return (int32_t)(model->random % (uint64_t)limit);
}

/* Where the slot keeps the token of a position. */
static int32_t *page_entry(struct paper_model *model, int32_t slot, int32_t position) {
    int32_t page_tokens = model->options.page_tokens;
    int32_t page = model->table[slot * model->pages_per_slot + position / page_tokens];
    assert_in_range(page, 0, model->options.page_count - 1);
    return &model->pages[page * page_tokens + position % page_tokens];
}

static struct ring_row *ring_row(struct paper_model *model, struct ring_row *rings, int32_t slot,
                                 int32_t position) {
    return &rings[slot * model->ring_rows + position % model->ring_rows];
}

static void apply(struct paper_model *model, const struct step_plan *plan) {
    size_t bytes = (size_t)model->ring_rows * sizeof *model->rings;
    for (int32_t i = 0; i < plan->page_update_count; i++) {
        const struct step_page_update *update = &plan->page_updates[i];
        assert_in_range(update->index, 0, model->pages_per_slot - 1);
        model->table[update->slot * model->pages_per_slot + update->index] = update->page;
    }
    for (int32_t i = 0; i < plan->slot_operation_count; i++) {
        const struct step_slot_operation *operation = &plan->slot_operations[i];
        int32_t to = operation->to * model->ring_rows;
        switch (operation->action) {
        case STEP_SLOT_COPY:
            memcpy(&model->rings[to], &model->rings[operation->from * model->ring_rows], bytes);
            memcpy(&model->draft_rings[to], &model->draft_rings[operation->from * model->ring_rows], bytes);
            break;
        case STEP_SLOT_SAVE_ROW:
            model->saved[operation->to] = model->saved[operation->from];
            break;
        case STEP_SLOT_CLEAR_DRAFT:
            for (int32_t j = 0; j < model->ring_rows; j++) {
                model->draft_rings[to + j].position = -1;
            }
            break;
        }
    }
}

/* All that a segment's first row reads must be there, under the positions that it reads it by. */
static uint64_t check_history(struct paper_model *model, const struct step_segment *segment) {
    uint64_t hash = 1;
    for (int32_t p = 0; p < segment->first_position; p++) {
        int32_t token = *page_entry(model, segment->slot, p);
        hash = mix(hash, token);
        if (p >= segment->first_position - PAPER_WINDOW) {
            const struct ring_row *row = ring_row(model, model->rings, segment->slot, p);
            assert_int_equal(row->position, p);
            assert_int_equal(row->token, token);
        }
    }
    return hash;
}

/* Copies the ring where a snapshot is wanted after the segment's first `row_count` rows. */
static void keep_snapshot(struct paper_model *model, struct ring_row *rings, const struct step_plan *plan,
                          int32_t segment, int32_t row_count) {
    int32_t slot = plan->segments[segment].slot;
    for (int32_t i = 0; i < plan->snapshot_count; i++) {
        const struct step_snapshot *snapshot = &plan->snapshots[i];
        if (snapshot->segment == segment && snapshot->row_count == row_count) {
            assert_in_range(snapshot->slot, 0, model->options.slot_count - 1);
            memcpy(&rings[snapshot->slot * model->ring_rows], &rings[slot * model->ring_rows],
                   (size_t)model->ring_rows * sizeof *rings);
        }
    }
}

static void commit(struct paper_model *model, const struct step_plan *plan, int32_t index) {
    const struct step_segment *segment = &plan->segments[index];
    for (int32_t i = 0; i < segment->row_count; i++) {
        int32_t position = segment->first_position + i;
        *ring_row(model, model->rings, segment->slot, position) =
            (struct ring_row){position, segment->token_ids[i]};
        keep_snapshot(model, model->rings, plan, index, i + 1);
    }
}

/* Runs a segment's rows; `next_tokens` [row_count] get what follows each. */
static void run_segment(struct paper_model *model, const struct step_plan *plan, int32_t index,
                        int32_t first_row, int32_t *next_tokens) {
    const struct step_segment *segment = &plan->segments[index];
    uint64_t hash = check_history(model, segment);
    for (int32_t i = 0; i < segment->row_count; i++) {
        int32_t position = segment->first_position + i;
        *page_entry(model, segment->slot, position) = segment->token_ids[i];
        hash = mix(hash, segment->token_ids[i]);
        next_tokens[i] = (int32_t)(hash % PAPER_VOCABULARY);
        model->boundary[first_row + i] = (struct ring_row){position, segment->token_ids[i]};
    }
    commit(model, plan, index);
    model->row_count += segment->row_count;
}

static void choose(const struct step_segment *step, const struct round_segment *segment,
                   const int32_t *next_tokens, struct round_feedback *feedback) {
    int32_t first = step->row_count - segment->draft_count - 1;
    feedback->tokens[feedback->token_count++] = next_tokens[first];
    for (int32_t j = 0; j < segment->draft_count; j++) {
        if (step->token_ids[first + 1 + j] != feedback->tokens[j]) {
            break;
        }
        feedback->tokens[feedback->token_count++] = next_tokens[first + 1 + j];
    }
    feedback->accepted_drafts = feedback->token_count - 1;
}

/* Rows that the draft layer writes: those to catch up on and the committed ones, with the token after each.
 */
static void write_draft_rows(struct paper_model *model, const struct round_plan *plan, int32_t index,
                             const struct round_feedback *feedback) {
    const struct step_segment *step = &plan->step.segments[index];
    const struct round_segment *segment = &plan->segments[index];
    int32_t base = step->row_count - segment->draft_count;
    if (segment->saved_row >= 0) {
        assert_int_equal(model->saved[segment->saved_row].position, step->first_position - 1);
        *ring_row(model, model->draft_rings, step->slot, step->first_position - 1) =
            (struct ring_row){step->first_position - 1, step->token_ids[0]};
    }
    for (int32_t i = base - segment->catch_up_rows;
         i < base + (feedback == NULL ? 0 : feedback->accepted_drafts); i++) {
        int32_t after = i + 1 < base ? step->token_ids[i + 1] : segment->following_token;
        if (i + 1 >= base && feedback != NULL) {
            after = feedback->tokens[i + 1 - base];
        }
        *ring_row(model, model->draft_rings, step->slot, step->first_position + i) =
            (struct ring_row){step->first_position + i, after};
        keep_snapshot(model, model->draft_rings, &plan->step, index, i + 1);
    }
}

/*
 * The rows that a draft after `position` reads: all there, but for those that were left out knowingly; in the
 * place of these nothing, or an older row of the same sequence.
 */
static void check_draft_rows(struct paper_model *model, const struct step_segment *step,
                             const struct sequence *sequence, int32_t position) {
    for (int32_t p = position - PAPER_WINDOW + 1; p < position; p++) {
        const struct ring_row *row = p < 0 ? NULL : ring_row(model, model->draft_rings, step->slot, p);
        if (row != NULL && p >= sequence->draft_gap_end) {
            assert_int_equal(row->position, p);
        }
        if (row != NULL && row->position >= 0) {
            assert_int_equal(row->token, *page_entry(model, step->slot, row->position + 1));
        }
    }
}

/* Drafts: the right continuation, spoilt at random. */
static void make_drafts(struct paper_model *model, const struct step_segment *step,
                        const struct round_segment *segment, const struct sequence *sequence,
                        struct round_feedback *feedback) {
    int32_t room = segment->token_room - feedback->token_count - 1;
    int32_t wanted = segment->next_draft_count < room ? segment->next_draft_count : room;
    uint64_t hash = 1;
    int32_t known = step->first_position + step->row_count - segment->draft_count + feedback->token_count;
    for (int32_t p = 0; p < known - 1; p++) {
        hash = mix(hash, *page_entry(model, step->slot, p));
    }
    hash = mix(hash, feedback->tokens[feedback->token_count - 1]);
    if (wanted > 0) {
        check_draft_rows(model, step, sequence, known - 2);
    }
    for (int32_t j = 0; j < wanted; j++) {
        int32_t token = (int32_t)(hash % PAPER_VOCABULARY);
        bool is_right = random_below(model, 100) < model->options.draft_quality;
        feedback->drafts[feedback->draft_count++] = is_right ? token : (token + 1) % PAPER_VOCABULARY;
        hash = mix(hash, feedback->drafts[j]);
    }
}

static void reserve_boundary(struct paper_model *model, const struct step_plan *plan) {
    int32_t rows = 0;
    for (int32_t i = 0; i < plan->segment_count; i++) {
        rows += plan->segments[i].row_count;
    }
    if (rows > model->boundary_capacity) {
        free(model->boundary);
        model->boundary = make((size_t)rows, sizeof *model->boundary);
        model->boundary_capacity = rows;
    }
    model->boundary_rows = rows;
}

/* The same page in two segments of one step would be written by one and read by the other. */
static void check_writers(struct paper_model *model, const struct step_plan *plan) {
    for (int32_t i = 0; i < plan->segment_count; i++) {
        const struct step_segment *a = &plan->segments[i];
        for (int32_t p = a->first_position; p < a->first_position + a->row_count; p++) {
            for (int32_t j = 0; j < plan->segment_count; j++) {
                const struct step_segment *b = &plan->segments[j];
                assert_true(i == j || a->slot != b->slot);
                for (int32_t q = 0; i != j && q < b->first_position; q += model->options.page_tokens) {
                    assert_ptr_not_equal(page_entry(model, a->slot, p) - p % model->options.page_tokens,
                                         page_entry(model, b->slot, q));
                }
            }
        }
    }
}

/* Snapshots of one step are taken in no order, and next to what others start from. */
static void check_snapshots(const struct step_plan *plan) {
    for (int32_t i = 0; i < plan->snapshot_count; i++) {
        for (int32_t j = 0; j < i; j++) {
            assert_int_not_equal(plan->snapshots[i].slot, plan->snapshots[j].slot);
            assert_int_not_equal(plan->snapshots[i].segment, plan->snapshots[j].segment);
        }
    }
}

/* Boundary rows before the step's snapshots, for who will draft from them. */
static void keep_snapshot_rows(struct paper_model *model, const struct round_plan *plan) {
    for (int32_t i = 0; i < plan->step.snapshot_count; i++) {
        const struct step_snapshot *snapshot = &plan->step.snapshots[i];
        int32_t row = snapshot->row_count - 1;
        for (int32_t j = 0; j < snapshot->segment; j++) {
            row += plan->step.segments[j].row_count;
        }
        if (plan->segments[snapshot->segment].catch_up_rows > 0) {
            model->saved[snapshot->slot] = model->boundary[row];
        }
    }
}

void paper_model_run(struct paper_model *model, const struct round_plan *plan, struct round_result *out) {
    int32_t first_row = 0;
    *out = (struct round_result){.feedback = model->feedback, .step_seconds = 1e-3, .draft_seconds = 1e-4};
    apply(model, &plan->step);
    reserve_boundary(model, &plan->step);
    if (model->options.row_seconds > 0) {
        out->step_seconds = model->boundary_rows * model->options.row_seconds;
    }
    check_writers(model, &plan->step);
    check_snapshots(&plan->step);
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        const struct step_segment *step = &plan->step.segments[i];
        int32_t *next_tokens = make((size_t)step->row_count, sizeof *next_tokens);
        run_segment(model, &plan->step, i, first_row, next_tokens);
        struct round_feedback *feedback = &model->feedback[out->feedback_count];
        if (plan->segments[i].is_sampled) {
            out->feedback_count++;
            *feedback = (struct round_feedback){.segment = i};
            choose(step, &plan->segments[i], next_tokens, feedback);
        }
        if (plan->regime != DRAFT_REGIME_COLD) {
            write_draft_rows(model, plan, i, plan->segments[i].is_sampled ? feedback : NULL);
        }
        if (plan->segments[i].is_sampled) {
            make_drafts(model, step, &plan->segments[i], plan->sequences[i], feedback);
        }
        if (plan->segments[i].kept_row >= 0) {
            assert_in_range(plan->segments[i].kept_row, 0, step->row_count - 1);
            model->saved[step->slot] = model->boundary[first_row + plan->segments[i].kept_row];
        }
        first_row += step->row_count;
        free(next_tokens);
    }
    keep_snapshot_rows(model, plan);
}
