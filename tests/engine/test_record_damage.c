/*
 * T-18, for every record that ranks send each other: cut short, with something behind its end, and with any
 * bit turned round. It is refused with a sentence, or what comes of it points into the record and is of sizes
 * that the reader asked for. Records lie in memory of just their size, so that a sanitizer sees what is read
 * beyond.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/feedback_record.h"
#include "engine/plan_record.h"
#include "engine/rank_identity.h"

static const struct plan_bounds bounds = {.row_limit = 8,
                                          .logit_row_limit = 4,
                                          .segment_limit = 3,
                                          .page_update_limit = 2,
                                          .slot_operation_limit = 2,
                                          .token_limit = 16,
                                          .page_limit = 5};
static const struct feedback_shape shape = {
    .draft_limit = 2, .sequence_limit = 3, .row_limit = 8, .vocabulary_size = 100};

static const int32_t tokens[] = {11, 12, 13, 14, 15};
static const int32_t logit_rows[] = {1, 2, 4};
static const int32_t source_rows[] = {4, 3, 2, 1, 0};
static const struct step_segment segments[] = {
    {.slot = 1, .first_position = 7, .row_count = 3, .token_ids = tokens},
    {.slot = 0, .first_position = 0, .row_count = 2, .token_ids = tokens + 3}};
static const struct step_page_update updates[] = {{1, 0, 5}, {0, 2, 6}};
static const struct step_slot_operation operations[] = {{STEP_SLOT_COPY, 1, 2}};
static const struct step_snapshot snapshots[] = {{0, 2, 4}};
static const int32_t prefix_pages[] = {8, 6, 4};
static const struct round_segment round_segments[] = {
    {.generation = 7, .draft_count = 1, .is_sampled = true, .token_room = 9, .saved_row = -1, .kept_row = -1},
    {.generation = 3,
     .is_sampled = true,
     .end_scored_row = 1,
     .token_room = 1,
     .saved_row = 2,
     .kept_row = 1}};
static const token_mask_word mask[] = {1, 2, 3, 4};
static const token_mask_word *const row_masks[] = {NULL, mask, NULL};
static const struct sequence_rules rules = {.sampling = {.temperature = 0.75, .seed = 99},
                                            .log_probability_count = 3,
                                            .prompt_log_probability_count = 2};
static const struct round_start starts[] = {
    {.slot = 2, .generation = 8, .rules = &rules, .prompt_count = 4, .token_count = 6}};

static struct step_plan make_step(void) {
    return (struct step_plan){.segments = segments,
                              .segment_count = 2,
                              .logit_rows = logit_rows,
                              .logit_row_count = 3,
                              .page_updates = updates,
                              .page_update_count = 2,
                              .slot_operations = operations,
                              .slot_operation_count = 1,
                              .snapshots = snapshots,
                              .snapshot_count = 1};
}

static struct round_plan make_round(void) {
    return (struct round_plan){.step = make_step(),
                               .segments = round_segments,
                               .regime = DRAFT_REGIME_DRAFT,
                               .starts = starts,
                               .start_count = 1,
                               .row_masks = row_masks,
                               .group = 1};
}

static struct plan_record make_plan(enum plan_kind kind) {
    struct plan_record record = {.kind = kind};
    switch (kind) {
    case PLAN_KIND_STEP:
    case PLAN_KIND_CHANGE_STATE:
        record.step = make_step();
        break;
    case PLAN_KIND_HEAD:
        record.step = (struct step_plan){.logit_rows = logit_rows, .logit_row_count = 3};
        break;
    case PLAN_KIND_DRAFT:
        record.draft = (struct draft_plan){.segments = segments,
                                           .segment_count = 2,
                                           .source = DRAFT_SOURCE_DRAFT,
                                           .source_rows = source_rows,
                                           .snapshots = snapshots,
                                           .snapshot_count = 1};
        break;
    case PLAN_KIND_ROUND:
        record.round = make_round();
        break;
    case PLAN_KIND_PREFIX_FIND:
    case PLAN_KIND_PREFIX_LOAD:
    case PLAN_KIND_PREFIX_RESTORE:
    case PLAN_KIND_PREFIX_KEEP:
        record.step = (struct step_plan){.page_updates = updates, .page_update_count = 2};
        record.prefix = (struct prefix_order){
            .tokens = tokens, .token_count = 5, .first_page = 2, .pages = prefix_pages, .page_count = 3};
        break;
    case PLAN_KIND_PASSES_END:
    case PLAN_KIND_REPORT:
    case PLAN_KIND_REST:
    case PLAN_KIND_TRACE:
    case PLAN_KIND_END:
        break;
    }
    return record;
}

/* Memory of just so many bytes; `bytes` beyond those of the record are zeros. */
static unsigned char *copy_of(const void *record, size_t record_bytes, size_t bytes) {
    unsigned char *copy = calloc(1, bytes == 0 ? 1 : bytes);
    assert_non_null(copy);
    memcpy(copy, record, record_bytes < bytes ? record_bytes : bytes);
    return copy;
}

/* Sums what arrays point to, so that they must be there. */
static int64_t touch_step(const struct step_plan *step) {
    int64_t sum = 0;
    for (int32_t i = 0; i < step->segment_count; i++) {
        const struct step_segment *segment = &step->segments[i];
        assert_in_range(segment->slot, 0, bounds.segment_limit - 1);
        assert_in_range(segment->first_position, 0, bounds.token_limit - segment->row_count);
        for (int32_t row = 0; row < segment->row_count; row++) {
            sum += segment->token_ids[row];
        }
    }
    for (int32_t i = 0; i < step->logit_row_count; i++) {
        assert_in_range(step->logit_rows[i], 0, bounds.row_limit - 1);
    }
    for (int32_t i = 0; i < step->page_update_count; i++) {
        sum += step->page_updates[i].page;
    }
    for (int32_t i = 0; i < step->slot_operation_count; i++) {
        sum += step->slot_operations[i].to;
    }
    for (int32_t i = 0; i < step->snapshot_count; i++) {
        assert_in_range(step->snapshots[i].segment, 0, step->segment_count - 1);
    }
    return sum;
}

static int64_t touch_plan(const struct plan_record *record) {
    int64_t sum = touch_step(&record->step) + touch_step(&record->round.step);
    for (int32_t i = 0; record->kind == PLAN_KIND_ROUND && i < record->round.step.segment_count; i++) {
        assert_in_range(record->round.segments[i].draft_count, 0,
                        record->round.step.segments[i].row_count - 1);
    }
    for (int32_t i = 0; record->mask_count > 0 && i < record->round.step.logit_row_count; i++) {
        sum += record->mask_flags[i];
    }
    for (int32_t i = 0; i < record->round.start_count; i++) {
        assert_in_range(record->round.starts[i].rules->log_probability_count + 1, 0,
                        1 + SLUICE_LOG_PROBABILITIES_MAX);
    }
    assert_in_range(record->prefix.token_count, 0, bounds.token_limit);
    assert_in_range(record->prefix.first_page, 0, bounds.page_limit);
    assert_in_range(record->prefix.page_count, 0, bounds.page_limit - record->prefix.first_page);
    for (int32_t i = 0; i < record->prefix.token_count; i++) {
        sum += record->prefix.tokens[i];
    }
    for (int32_t i = 0; i < record->prefix.page_count; i++) {
        sum += record->prefix.pages[i];
    }
    int32_t rows = 0;
    for (int32_t i = 0; i < record->draft.segment_count; i++) {
        rows += record->draft.segments[i].row_count;
    }
    for (int32_t i = 0; i < rows; i++) {
        sum += record->draft.source_rows[i];
    }
    return sum;
}

/* Reads the first `size` of the record's bytes and zeros behind them. */
static enum status read_plan(const struct plan_room *room, const void *record, size_t bytes, size_t size) {
    static volatile int64_t sink;
    struct plan_record out;
    unsigned char *copy = copy_of(record, bytes, size);
    enum status status = plan_record_read(copy, size, 3, &bounds, room, &out);
    if (status == STATUS_OK) {
        sink += touch_plan(&out);
    } else {
        assert_int_equal(status, STATUS_INTERNAL);
        assert_true(strlen(error_last()->message) > 10);
    }
    free(copy);
    return status;
}

static void plans_are_refused_or_harmless(void **state) {
    (void)state;
    struct plan_room room;
    unsigned char *memory = calloc(1, plan_record_bytes_max(&bounds));
    assert_non_null(memory);
    assert_int_equal(plan_room_init(&room, &bounds), STATUS_OK);
    for (int kind = PLAN_KIND_STEP; kind <= PLAN_KIND_END; kind++) {
        const struct plan_record record = make_plan((enum plan_kind)kind);
        size_t bytes = plan_record_write(&record, 3, memory);
        assert_int_equal(read_plan(&room, memory, bytes, bytes), STATUS_OK);
        for (size_t size = 0; size < bytes + 64; size++) {
            assert_int_equal(read_plan(&room, memory, bytes, size) == STATUS_OK, size == bytes);
        }
        for (size_t bit = 0; bit < 8 * bytes; bit++) {
            memory[bit / 8] ^= (unsigned char)(1u << bit % 8);
            (void)read_plan(&room, memory, bytes, bytes);
            memory[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
    }
    plan_room_deinit(&room);
    free(memory);
}

enum { SAMPLED = 2 };

struct feedback_fixture {
    unsigned char *memory;
    unsigned char *extra;
    size_t bytes;
    size_t extra_bytes;
};

static struct feedback_fixture write_feedback(enum status tick_status) {
    static const struct sluice_log_probability records[] = {{7, -0.5f}, {8, -1.5f}, {9, -2.0f}, {7, -0.25f}};
    const struct round_plan plan = make_round();
    struct round_feedback feedback[SAMPLED] = {
        {.segment = 0,
         .token_count = 2,
         .tokens = {7, 9},
         .draft_count = 1,
         .drafts = {3},
         .recorded_tokens = 2,
         .record_width = 2,
         .log_probabilities = records},
        {.segment = 1, .status = STATUS_NOT_FINITE, .message = "layer 3 gave a value that is not finite"}};
    struct round_feedback prompt = {
        .segment = 1, .recorded_tokens = 1, .record_width = 2, .log_probabilities = records};
    const struct round_result result = {.feedback = feedback,
                                        .feedback_count = SAMPLED,
                                        .prompt_feedback = &prompt,
                                        .prompt_feedback_count = 1};
    const struct feedback_tick tick = {.number = 3, .status = tick_status, .message = "no draft came of it"};
    struct feedback_fixture fixture = {.bytes = feedback_record_bytes(&shape, SAMPLED)};
    fixture.memory = calloc(1, fixture.bytes);
    fixture.extra = calloc(1, feedback_extra_bytes_max(&shape));
    assert_true(fixture.memory != NULL && fixture.extra != NULL);
    fixture.extra_bytes = feedback_record_write(&shape, &tick, &plan, &result, fixture.memory, fixture.extra);
    return fixture;
}

static void touch_feedback(const struct round_feedback *feedback) {
    static volatile double sink;
    assert_in_range(feedback->token_count, 0, shape.draft_limit + 1);
    assert_in_range(feedback->draft_count, 0, shape.draft_limit);
    for (int32_t i = 0; i < feedback->recorded_tokens * feedback->record_width; i++) {
        sink += feedback->log_probabilities[i].log_probability;
    }
    assert_true(strnlen(feedback->message, sizeof feedback->message) < sizeof feedback->message);
}

/* What a leader does that gets these two messages, of the sizes that it expects. */
static enum status read_feedback(const struct feedback_fixture *fixture) {
    const struct round_plan plan = make_round();
    struct round_feedback feedback[SAMPLED];
    struct round_feedback prompts[2];
    struct round_result result = {.feedback = feedback, .prompt_feedback = prompts};
    struct feedback_tick tick;
    size_t extra_bytes = 0;
    unsigned char *memory = copy_of(fixture->memory, fixture->bytes, fixture->bytes);
    enum status status = feedback_record_check(&shape, 3, SAMPLED, memory, &extra_bytes);
    unsigned char *extra = NULL;
    if (status == STATUS_OK) {
        assert_true(extra_bytes <= feedback_extra_bytes_max(&shape));
        extra = copy_of(fixture->extra, fixture->extra_bytes, extra_bytes);
        status = feedback_record_read(&shape, &plan, memory, extra, &tick, &result);
    }
    if (status == STATUS_OK) {
        assert_int_equal(result.feedback_count, SAMPLED);
        touch_feedback(&feedback[0]);
        touch_feedback(&feedback[1]);
        assert_int_equal(result.prompt_feedback_count, 1);
        touch_feedback(&prompts[0]);
        assert_true(tick.status == STATUS_OK || strlen(tick.message) < ERROR_MESSAGE_BYTES);
    } else {
        assert_int_equal(status, STATUS_INTERNAL);
        assert_true(strlen(error_last()->message) > 10);
    }
    free(memory);
    free(extra);
    return status;
}

static void feedback_is_refused_or_harmless(void **state) {
    (void)state;
    for (int failed = 0; failed < 2; failed++) {
        struct feedback_fixture fixture = write_feedback(failed ? STATUS_NOT_FINITE : STATUS_OK);
        assert_int_equal(read_feedback(&fixture), STATUS_OK);
        for (size_t bit = 0; bit < 8 * (fixture.bytes + fixture.extra_bytes); bit++) {
            size_t byte = bit / 8;
            unsigned char *at =
                byte < fixture.bytes ? fixture.memory + byte : fixture.extra + (byte - fixture.bytes);
            *at ^= (unsigned char)(1u << bit % 8);
            (void)read_feedback(&fixture);
            *at ^= (unsigned char)(1u << bit % 8);
        }
        free(fixture.memory);
        free(fixture.extra);
    }
}

/* Descriptions of a handshake, of which every bit counts. */
static void identities_are_compared_to_the_last_bit(void **state) {
    (void)state;
    static const char lines[] = "build=2026\ncheckpoint=8f2a\nlayers=43\nnumerics=native\n";
    assert_int_equal(rank_identity_compare(lines, lines, 1), STATUS_OK);
    for (size_t size = 0; size < sizeof lines - 2; size++) { /* the last line's end says nothing more */
        char *other = (char *)copy_of(lines, size, size + 1);
        assert_int_equal(rank_identity_compare(lines, other, 1), STATUS_BAD_CONFIG);
        assert_int_equal(rank_identity_compare(other, lines, 1), STATUS_BAD_CONFIG);
        assert_non_null(strstr(error_last()->message, "rank 1"));
        free(other);
    }
    for (size_t bit = 0; bit < 8 * (sizeof lines - 1); bit++) {
        char *other = (char *)copy_of(lines, sizeof lines, sizeof lines);
        other[bit / 8] = (char)(other[bit / 8] ^ (char)(1u << bit % 8));
        assert_int_equal(rank_identity_compare(lines, other, 1), STATUS_BAD_CONFIG);
        free(other);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_refused_or_harmless),
        cmocka_unit_test(feedback_is_refused_or_harmless),
        cmocka_unit_test(identities_are_compared_to_the_last_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
