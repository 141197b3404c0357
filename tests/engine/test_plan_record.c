/* Plans as bytes (A.2, T-18): what comes out is what went in, and nothing else is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/plan_record.h"

static const struct plan_bounds bounds = {.row_limit = 8,
                                          .logit_row_limit = 4,
                                          .segment_limit = 3,
                                          .page_update_limit = 2,
                                          .slot_operation_limit = 2,
                                          .token_limit = 10,
                                          .page_limit = 5};

static const int32_t tokens[] = {11, 12, 13, 14, 15};
static const int32_t logit_rows[] = {2, 4};
static const struct step_segment segments[] = {
    {.slot = 1, .first_position = 7, .row_count = 3, .token_ids = tokens},
    {.slot = 0, .first_position = 0, .row_count = 2, .token_ids = tokens + 3}};
static const struct step_page_update updates[] = {{1, 0, 5}, {0, 2, 6}};
static const struct step_slot_operation operations[] = {{STEP_SLOT_COPY, 1, 2}};

static const struct step_snapshot snapshots[] = {{0, 2, 4}, {1, 2, 3}};

static struct step_plan make_step(void) {
    return (struct step_plan){.segments = segments,
                              .segment_count = 2,
                              .logit_rows = logit_rows,
                              .logit_row_count = 2,
                              .page_updates = updates,
                              .page_update_count = 2,
                              .slot_operations = operations,
                              .slot_operation_count = 1,
                              .snapshots = snapshots,
                              .snapshot_count = 2};
}

struct fixture {
    struct plan_room room;
    int32_t *memory;
    size_t limit;
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    assert_int_equal(plan_room_init(&fixture->room, &bounds), STATUS_OK);
    fixture->limit = plan_record_bytes_max(&bounds);
    fixture->memory = calloc(1, fixture->limit);
    assert_non_null(fixture->memory);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    plan_room_deinit(&fixture->room);
    free(fixture->memory);
    free(fixture);
    return 0;
}

static enum status read(const struct fixture *fixture, const void *memory, size_t bytes, uint64_t number,
                        struct plan_record *record) {
    return plan_record_read(memory, bytes, number, &bounds, &fixture->room, record);
}

/* Writes the record, reads it and returns its size. */
static size_t pass(const struct fixture *fixture, const struct plan_record *record, uint64_t number,
                   struct plan_record *out) {
    size_t bytes = plan_record_write(record, number, fixture->memory);
    assert_true(bytes <= fixture->limit);
    assert_int_equal(read(fixture, fixture->memory, bytes, number, out), STATUS_OK);
    assert_int_equal(out->kind, record->kind);
    return bytes;
}

static void expect_step(const struct step_plan *step) {
    assert_int_equal(step->segment_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(step->segments[i].slot, segments[i].slot);
        assert_int_equal(step->segments[i].first_position, segments[i].first_position);
        assert_int_equal(step->segments[i].row_count, segments[i].row_count);
        assert_memory_equal(step->segments[i].token_ids, segments[i].token_ids,
                            (size_t)segments[i].row_count * sizeof(int32_t));
    }
    assert_int_equal(step->logit_row_count, 2);
    assert_memory_equal(step->logit_rows, logit_rows, sizeof logit_rows);
    assert_int_equal(step->page_update_count, 2);
    assert_memory_equal(step->page_updates, updates, sizeof updates);
    assert_int_equal(step->slot_operation_count, 1);
    assert_memory_equal(step->slot_operations, operations, sizeof operations);
    assert_int_equal(step->snapshot_count, 2);
    assert_memory_equal(step->snapshots, snapshots, sizeof snapshots);
}

static void test_a_step_comes_back(void **state) {
    struct plan_record record = {.kind = PLAN_KIND_STEP, .step = make_step()};
    struct plan_record out;
    (void)pass(*state, &record, 9, &out);
    expect_step(&out.step);
    record.kind = PLAN_KIND_CHANGE_STATE;
    (void)pass(*state, &record, 10, &out);
    expect_step(&out.step);
}

/* M-5: rows and positions are the plan's. */
static void test_a_draft_comes_back(void **state) {
    static const int32_t source_rows[] = {4, 3, 2, 1, 0};
    struct plan_record record = {.kind = PLAN_KIND_DRAFT,
                                 .draft = {.segments = segments,
                                           .segment_count = 2,
                                           .source = DRAFT_SOURCE_SAVED,
                                           .source_rows = source_rows,
                                           .writes_state_only = true,
                                           .snapshots = snapshots + 1,
                                           .snapshot_count = 1}};
    struct plan_record out;
    (void)pass(*state, &record, 0, &out);
    assert_int_equal(out.draft.source, DRAFT_SOURCE_SAVED);
    assert_true(out.draft.writes_state_only);
    assert_int_equal(out.draft.segment_count, 2);
    assert_memory_equal(out.draft.source_rows, source_rows, sizeof source_rows);
    assert_int_equal(out.draft.snapshot_count, 1);
    assert_memory_equal(out.draft.snapshots, snapshots + 1, sizeof *snapshots);
    (void)pass(*state, &(struct plan_record){.kind = PLAN_KIND_PASSES_END}, 1, &out);
    (void)pass(*state, &(struct plan_record){.kind = PLAN_KIND_END}, 2, &out);
}

/* What is said of a prefix on disk, with changes of the state in front where it has some. */
static void test_orders_about_prefixes_come_back(void **state) {
    static const int32_t pages[] = {8, 6, 4};
    struct plan_record record = {.step = make_step(),
                                 .prefix = {.tokens = tokens,
                                            .token_count = 5,
                                            .first_page = 2,
                                            .pages = pages,
                                            .page_count = 3,
                                            .snapshot_slot = 7,
                                            .has_snapshot = true,
                                            .has_draft_rows = true}};
    struct plan_record out;
    for (int kind = PLAN_KIND_PREFIX_FIND; kind <= PLAN_KIND_PREFIX_KEEP; kind++) {
        record.kind = (enum plan_kind)kind;
        (void)pass(*state, &record, 9, &out);
        expect_step(&out.step);
        assert_int_equal(out.prefix.token_count, 5);
        assert_memory_equal(out.prefix.tokens, tokens, sizeof tokens);
        assert_int_equal(out.prefix.first_page, 2);
        assert_int_equal(out.prefix.page_count, 3);
        assert_memory_equal(out.prefix.pages, pages, sizeof pages);
        assert_int_equal(out.prefix.snapshot_slot, 7);
        assert_true(out.prefix.has_snapshot && out.prefix.has_draft_rows);
    }
    (void)pass(*state, &(struct plan_record){.kind = PLAN_KIND_PREFIX_FIND}, 0, &out);
    assert_int_equal(out.prefix.token_count + out.prefix.page_count, 0);
    assert_false(out.prefix.has_snapshot || out.prefix.has_draft_rows);
}

/* Pages beyond those of a sequence, and parts of a prefix in a plan that is not about one. */
static void test_impossible_prefixes_are_refused(void **state) {
    const struct fixture *fixture = *state;
    struct plan_record out;
    struct plan_record record = {.kind = PLAN_KIND_PREFIX_LOAD,
                                 .prefix = {.first_page = 3, .pages = tokens, .page_count = 3}};
    size_t bytes = plan_record_write(&record, 0, fixture->memory);
    assert_int_equal(read(fixture, fixture->memory, bytes, 0, &out), STATUS_INTERNAL);
    record.prefix.page_count = 2;
    record.kind = PLAN_KIND_REPORT;
    bytes = plan_record_write(&record, 0, fixture->memory);
    assert_int_equal(read(fixture, fixture->memory, bytes, 0, &out), STATUS_INTERNAL);
    record.kind = PLAN_KIND_PREFIX_LOAD;
    (void)pass(fixture, &record, 0, &out);
}

static const struct round_segment round_segments[] = {{.generation = 0x80000007,
                                                       .draft_count = 0,
                                                       .is_sampled = true,
                                                       .catch_up_rows = 2,
                                                       .following_token = -1,
                                                       .next_draft_count = 1,
                                                       .token_room = 30,
                                                       .saved_row = 4,
                                                       .first_scored_row = 1,
                                                       .end_scored_row = 2,
                                                       .kept_row = -1},
                                                      {.generation = 3,
                                                       .draft_count = 0,
                                                       .is_sampled = true,
                                                       .following_token = 77,
                                                       .token_room = 1,
                                                       .saved_row = -1,
                                                       .kept_row = 1}};
static const token_mask_word mask[] = {1, 2};
static const token_mask_word *const row_masks[] = {NULL, mask};
static const struct sluice_logit_bias bias[] = {{3, 0.5f}};
static const struct sequence_rules rules = {
    .sampling = {.temperature = 0.75, .top_p = 0.5, .seed = 99, .logit_bias = bias, .logit_bias_count = 1},
    .choice_index = 5,
    .log_probability_count = 3,
    .prompt_log_probability_count = 2};
static const struct round_start starts[] = {
    {.slot = 2, .generation = 8, .rules = &rules, .prompt_count = 4, .token_count = 6}};

static struct plan_record make_round(void) {
    return (struct plan_record){.kind = PLAN_KIND_ROUND,
                                .round = {.step = make_step(),
                                          .segments = round_segments,
                                          .regime = DRAFT_REGIME_WARM,
                                          .starts = starts,
                                          .start_count = 1,
                                          .row_masks = row_masks,
                                          .group = 1}};
}

/* P-15, P-16: all that a rank needs to know of a tick is in its record. */
static void test_a_round_comes_back(void **state) {
    struct plan_record record = make_round();
    struct plan_record out;
    (void)pass(*state, &record, 5, &out);
    expect_step(&out.round.step);
    for (int i = 0; i < 2; i++) {
        const struct round_segment *in = &round_segments[i];
        const struct round_segment *segment = &out.round.segments[i];
        assert_int_equal(segment->generation, in->generation);
        assert_int_equal(segment->draft_count, in->draft_count);
        assert_int_equal(segment->is_sampled, in->is_sampled);
        assert_int_equal(segment->catch_up_rows, in->catch_up_rows);
        assert_int_equal(segment->following_token, in->following_token);
        assert_int_equal(segment->next_draft_count, in->next_draft_count);
        assert_int_equal(segment->token_room, in->token_room);
        assert_int_equal(segment->saved_row, in->saved_row);
        assert_int_equal(segment->kept_row, in->kept_row);
        assert_int_equal(segment->first_scored_row, in->first_scored_row);
        assert_int_equal(segment->end_scored_row, in->end_scored_row);
    }
    assert_int_equal(out.round.regime, DRAFT_REGIME_WARM);
    assert_int_equal(out.round.group, 1);
    assert_int_equal(out.mask_count, 1);
    assert_int_equal(out.mask_flags[0], 0);
    assert_int_equal(out.mask_flags[1], 1);
    assert_int_equal(out.round.start_count, 1);
    const struct round_start *start = &out.round.starts[0];
    assert_int_equal(start->slot, 2);
    assert_int_equal(start->generation, 8);
    assert_int_equal(start->prompt_count, 4);
    assert_int_equal(start->token_count, 6);
    assert_int_equal(start->rules->choice_index, 5);
    assert_int_equal(start->rules->log_probability_count, 3);
    assert_int_equal(start->rules->prompt_log_probability_count, 2);
    assert_int_equal(start->rules->sampling.seed, 99);
    assert_int_equal(start->rules->sampling.logit_bias_count, 1);
    assert_null(start->rules->sampling.logit_bias);
    assert_true(start->rules->sampling.temperature == 0.75 && start->rules->sampling.top_p == 0.5);
}

/* A record out of turn, of another size, or with any word changed to nonsense is refused or harmless (T-18).
 */
static void expect_damage_is_harmless(const struct fixture *fixture, const struct plan_record *record) {
    struct plan_record out;
    int32_t *damaged = calloc(1, fixture->limit);
    assert_non_null(damaged);
    size_t bytes = pass(fixture, record, 3, &out);
    assert_int_equal(read(fixture, fixture->memory, bytes, 4, &out), STATUS_INTERNAL);
    for (size_t size = 0; size < bytes; size++) {
        assert_int_equal(read(fixture, fixture->memory, size, 3, &out), STATUS_INTERNAL);
    }
    static const int32_t nonsense[] = {-1, 0x7fffffff, (int32_t)0x80000000, 1000, 0, 1};
    for (size_t word = 0; word < bytes / sizeof *damaged; word++) {
        for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
            memcpy(damaged, fixture->memory, bytes);
            damaged[word] = nonsense[i];
            if (read(fixture, damaged, bytes, 3, &out) == STATUS_OK) {
                const struct step_plan *step = out.kind == PLAN_KIND_ROUND ? &out.round.step : &out.step;
                int64_t rows = 0;
                for (int32_t s = 0; s < step->segment_count; s++) {
                    rows += step->segments[s].row_count;
                    assert_true(out.kind != PLAN_KIND_ROUND ||
                                out.round.segments[s].draft_count < step->segments[s].row_count);
                }
                assert_in_range(rows, 0, bounds.row_limit);
                assert_in_range(out.round.start_count, 0, bounds.segment_limit);
            }
        }
    }
    free(damaged);
}

static void test_damaged_records(void **state) {
    struct plan_record step = {.kind = PLAN_KIND_STEP, .step = make_step()};
    struct plan_record round = make_round();
    expect_damage_is_harmless(*state, &step);
    expect_damage_is_harmless(*state, &round);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_comes_back),
        cmocka_unit_test(test_a_draft_comes_back),
        cmocka_unit_test(test_orders_about_prefixes_come_back),
        cmocka_unit_test(test_impossible_prefixes_are_refused),
        cmocka_unit_test(test_a_round_comes_back),
        cmocka_unit_test(test_damaged_records),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
