/* Plans as bytes: what comes out is what went in, and nothing else is believed. */
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
                                          .slot_operation_limit = 2};

static const int32_t tokens[] = {11, 12, 13, 14, 15};
static const int32_t logit_rows[] = {2, 4};
static const struct step_segment segments[] = {
    {.slot = 1, .first_position = 7, .row_count = 3, .token_ids = tokens},
    {.slot = 0, .first_position = 0, .row_count = 2, .token_ids = tokens + 3}};
static const struct step_page_update updates[] = {{1, 0, 5}, {0, 2, 6}};
static const struct step_slot_operation operations[] = {{STEP_SLOT_COPY, 1, 2}};

static struct step_plan make_step(void) {
    return (struct step_plan){.segments = segments,
                              .segment_count = 2,
                              .logit_rows = logit_rows,
                              .logit_row_count = 2,
                              .page_updates = updates,
                              .page_update_count = 2,
                              .slot_operations = operations,
                              .slot_operation_count = 1};
}

static void test_a_step_comes_back(void **state) {
    (void)state;
    struct step_plan plan = make_step();
    struct step_segment read[3];
    struct plan_record record;
    void *memory = calloc(1, plan_record_bytes_max(&bounds));
    assert_non_null(memory);
    size_t bytes = plan_record_write(PLAN_KIND_STEP, 9, &plan, NULL, memory);
    assert_true(bytes <= plan_record_bytes_max(&bounds));
    assert_int_equal(plan_record_read(memory, bytes, 9, &bounds, read, &record), STATUS_OK);
    assert_int_equal(record.kind, PLAN_KIND_STEP);
    assert_int_equal(record.step.segment_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(record.step.segments[i].slot, segments[i].slot);
        assert_int_equal(record.step.segments[i].first_position, segments[i].first_position);
        assert_int_equal(record.step.segments[i].row_count, segments[i].row_count);
        assert_memory_equal(record.step.segments[i].token_ids, segments[i].token_ids,
                            (size_t)segments[i].row_count * sizeof(int32_t));
    }
    assert_int_equal(record.step.logit_row_count, 2);
    assert_memory_equal(record.step.logit_rows, logit_rows, sizeof logit_rows);
    assert_int_equal(record.step.page_update_count, 2);
    assert_memory_equal(record.step.page_updates, updates, sizeof updates);
    assert_int_equal(record.step.slot_operation_count, 1);
    assert_memory_equal(record.step.slot_operations, operations, sizeof operations);
    free(memory);
}

static void test_a_draft_comes_back(void **state) {
    (void)state;
    static const int32_t source_rows[] = {4, 3, 2, 1, 0};
    struct draft_plan plan = {.segments = segments,
                              .segment_count = 2,
                              .source = DRAFT_SOURCE_SAVED,
                              .source_rows = source_rows,
                              .writes_state_only = true};
    struct step_segment read[3];
    struct plan_record record;
    void *memory = calloc(1, plan_record_bytes_max(&bounds));
    assert_non_null(memory);
    size_t bytes = plan_record_write(PLAN_KIND_DRAFT, 0, NULL, &plan, memory);
    assert_int_equal(plan_record_read(memory, bytes, 0, &bounds, read, &record), STATUS_OK);
    assert_int_equal(record.kind, PLAN_KIND_DRAFT);
    assert_int_equal(record.draft.source, DRAFT_SOURCE_SAVED);
    assert_true(record.draft.writes_state_only);
    assert_int_equal(record.draft.segment_count, 2);
    assert_memory_equal(record.draft.source_rows, source_rows, sizeof source_rows);
    bytes = plan_record_write(PLAN_KIND_END, 1, NULL, NULL, memory);
    assert_int_equal(plan_record_read(memory, bytes, 1, &bounds, read, &record), STATUS_OK);
    assert_int_equal(record.kind, PLAN_KIND_END);
    free(memory);
}

/* A record out of turn, of another size, or with any word changed to nonsense is refused or harmless. */
static void test_damaged_records(void **state) {
    (void)state;
    struct step_plan plan = make_step();
    struct step_segment read[3];
    struct plan_record record;
    size_t limit = plan_record_bytes_max(&bounds);
    int32_t *memory = calloc(1, limit);
    int32_t *damaged = calloc(1, limit);
    assert_true(memory != NULL && damaged != NULL);
    size_t bytes = plan_record_write(PLAN_KIND_STEP, 3, &plan, NULL, memory);
    assert_int_equal(plan_record_read(memory, bytes, 4, &bounds, read, &record), STATUS_INTERNAL);
    for (size_t size = 0; size < bytes; size++) {
        assert_int_equal(plan_record_read(memory, size, 3, &bounds, read, &record), STATUS_INTERNAL);
    }
    static const int32_t nonsense[] = {-1, 0x7fffffff, (int32_t)0x80000000, 1000};
    for (size_t word = 0; word < bytes / sizeof *memory; word++) {
        for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
            memcpy(damaged, memory, bytes);
            damaged[word] = nonsense[i];
            if (plan_record_read(damaged, bytes, 3, &bounds, read, &record) == STATUS_OK) {
                int64_t rows = 0;
                for (int32_t s = 0; s < record.step.segment_count; s++) {
                    rows += record.step.segments[s].row_count;
                }
                assert_in_range(rows, 0, bounds.row_limit);
            }
        }
    }
    free(memory);
    free(damaged);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_comes_back),
        cmocka_unit_test(test_a_draft_comes_back),
        cmocka_unit_test(test_damaged_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
