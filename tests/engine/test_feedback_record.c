/* Feedback as bytes (spec parallelism P-34 to P-36, A.3, T-18). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/feedback_record.h"

enum { SEGMENTS = 4, SAMPLED = 3 };

static const struct step_segment steps[SEGMENTS] = {{.slot = 2, .row_count = 3},
                                                    {.slot = 0, .row_count = 5},
                                                    {.slot = 1, .row_count = 1},
                                                    {.slot = 3, .row_count = 1}};
static const struct round_segment segments[SEGMENTS] = {
    {.generation = 9, .is_sampled = true, .draft_count = 2},
    {.generation = 1, .first_scored_row = 1, .end_scored_row = 4},
    {.generation = 4, .is_sampled = true},
    {.generation = 5, .is_sampled = true}};
/* The prompt of the second segment gets log-probabilities for three rows. */
static const struct sluice_log_probability scores[] = {{1, -0.1}, {2, -0.2}, {3, -0.3}};
static const struct sluice_log_probability records[] = {{7, -0.5}, {7, -0.5}, {8, -1.5}, {9, -2.5}};

static struct round_plan make_plan(void) {
    return (struct round_plan){.step = {.segments = steps, .segment_count = SEGMENTS}, .segments = segments};
}

/* A sequence with records, one that failed, one with nothing but a token. */
static void make_feedback(struct round_feedback *feedback) {
    feedback[0] = (struct round_feedback){.segment = 0,
                                          .accepted_drafts = 1,
                                          .token_count = 2,
                                          .tokens = {7, 8},
                                          .draft_count = 2,
                                          .drafts = {10, 11},
                                          .recorded_tokens = 2,
                                          .record_width = 2,
                                          .log_probabilities = records};
    feedback[1] = (struct round_feedback){
        .segment = 2, .status = STATUS_NOT_FINITE, .message = "layer 3 gave a value that is not finite"};
    feedback[2] = (struct round_feedback){.segment = 3, .token_count = 1, .tokens = {99}};
}

struct message {
    unsigned char *memory;
    unsigned char *extra;
    size_t bytes;
    size_t extra_bytes;
};

static const struct feedback_shape shape = {
    .draft_limit = 2, .sequence_limit = 4, .row_limit = 10, .vocabulary_size = 100};

struct read_result {
    struct round_feedback feedback[SEGMENTS];
    struct round_feedback prompts[SEGMENTS];
    struct round_result result;
};

static struct round_result *result_in(struct read_result *read) {
    read->result = (struct round_result){.feedback = read->feedback, .prompt_feedback = read->prompts};
    return &read->result;
}

static struct message write_message(enum status status) {
    struct round_plan plan = make_plan();
    struct round_feedback feedback[SAMPLED];
    struct feedback_tick tick = {
        .number = 6, .status = status, .message = "no draft came of it", .stages = {1.5, 2.5, 0.75, 0.25}};
    struct message message = {.bytes = feedback_record_bytes(&shape, SAMPLED)};
    message.memory = calloc(1, message.bytes);
    message.extra = calloc(1, feedback_extra_bytes_max(&shape));
    assert_true(message.memory != NULL && message.extra != NULL);
    make_feedback(feedback);
    struct round_feedback prompt = {
        .segment = 1, .recorded_tokens = 3, .record_width = 1, .log_probabilities = scores};
    const struct round_result result = {.feedback = feedback,
                                        .feedback_count = SAMPLED,
                                        .prompt_feedback = &prompt,
                                        .prompt_feedback_count = 1};
    message.extra_bytes = feedback_record_write(&shape, &tick, &plan, &result, message.memory, message.extra);
    assert_true(message.extra_bytes <= feedback_extra_bytes_max(&shape));
    return message;
}

static void free_message(struct message *message) {
    free(message->memory);
    free(message->extra);
}

static enum status read_message(const struct message *message, struct feedback_tick *tick,
                                struct read_result *read) {
    struct round_plan plan = make_plan();
    size_t extra_bytes;
    enum status status = feedback_record_check(&shape, 6, SAMPLED, message->memory, &extra_bytes);
    if (status != STATUS_OK || extra_bytes != message->extra_bytes) {
        return STATUS_INTERNAL; /* a message of another size never arrives */
    }
    return feedback_record_read(&shape, &plan, message->memory, message->extra, tick, result_in(read));
}

static void test_feedback_comes_back(void **state) {
    (void)state;
    struct message message = write_message(STATUS_OK);
    struct feedback_tick tick;
    struct read_result read;
    assert_int_equal(read_message(&message, &tick, &read), STATUS_OK);
    const struct round_feedback *out = read.feedback;
    assert_int_equal(read.result.feedback_count, SAMPLED);
    assert_int_equal(tick.number, 6);
    assert_int_equal(tick.status, STATUS_OK);
    assert_true(tick.stages.slowest_before == 1.5 && tick.stages.all_before == 2.5);
    assert_true(tick.stages.last == 0.75 && tick.stages.draft == 0.25);
    assert_int_equal(out[0].segment, 0);
    assert_int_equal(out[0].accepted_drafts, 1);
    assert_int_equal(out[0].token_count, 2);
    assert_int_equal(out[0].tokens[1], 8);
    assert_int_equal(out[0].draft_count, 2);
    assert_int_equal(out[0].drafts[1], 11);
    assert_int_equal(out[0].recorded_tokens, 2);
    assert_int_equal(out[0].record_width, 2);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(out[0].log_probabilities[i].token, records[i].token);
        assert_true(out[0].log_probabilities[i].log_probability == records[i].log_probability);
    }
    assert_int_equal(out[1].segment, 2);
    assert_int_equal(out[1].status, STATUS_NOT_FINITE);
    assert_int_equal(out[1].token_count, 0);
    assert_string_equal(out[1].message, "layer 3 gave a value that is not finite");
    assert_int_equal(out[2].tokens[0], 99);
    assert_int_equal(out[2].recorded_tokens, 0);
    assert_int_equal(read.result.prompt_feedback_count, 1);
    assert_int_equal(read.prompts[0].segment, 1);
    assert_int_equal(read.prompts[0].recorded_tokens, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read.prompts[0].log_probabilities[i].token, scores[i].token);
        assert_true(read.prompts[0].log_probabilities[i].log_probability == scores[i].log_probability);
    }
    free_message(&message);
}

static void test_a_failed_tick_says_why(void **state) {
    (void)state;
    struct message message = write_message(STATUS_NOT_FINITE);
    struct feedback_tick tick;
    struct read_result read;
    assert_int_equal(read_message(&message, &tick, &read), STATUS_OK);
    assert_int_equal(tick.status, STATUS_NOT_FINITE);
    assert_string_equal(tick.message, "no draft came of it");
    free_message(&message);
}

/* A.3: 16 bytes and the ids, whatever a tick gave; so sizes follow from the plan alone. */
static void test_width_depends_on_the_draft_limit_only(void **state) {
    (void)state;
    for (int32_t drafts = 0; drafts <= DRAFT_LIMIT_MAX; drafts++) {
        struct feedback_shape of = {.draft_limit = drafts, .sequence_limit = 8, .vocabulary_size = 10};
        size_t head = feedback_record_bytes(&of, 0);
        for (int32_t count = 1; count <= 8; count++) {
            assert_int_equal(feedback_record_bytes(&of, count) - head,
                             (size_t)count * (16 + 4 * (2 * (size_t)drafts + 1)));
        }
    }
}

/* Of a message in which some bits are wrong nothing comes that could be taken for tokens of the plan. */
static void test_damaged_feedback(void **state) {
    (void)state;
    struct message message = write_message(STATUS_OK);
    for (size_t byte = 0; byte < message.bytes + message.extra_bytes; byte++) {
        unsigned char *at =
            byte < message.bytes ? message.memory + byte : message.extra + (byte - message.bytes);
        unsigned char right = *at;
        for (int bit = 0; bit < 8; bit++) {
            struct feedback_tick tick;
            struct read_result read;
            *at = right ^ (unsigned char)(1u << bit);
            if (read_message(&message, &tick, &read) == STATUS_OK) {
                const struct round_feedback *out = read.feedback;
                for (int i = 0; i < SAMPLED; i++) {
                    int32_t most = 1 + segments[out[i].segment].draft_count;
                    assert_in_range(out[i].token_count, out[i].status == STATUS_OK ? 1 : 0, most);
                    assert_in_range(out[i].draft_count, 0, shape.draft_limit);
                    assert_in_range(out[i].tokens[0], 0, 99);
                    assert_in_range(out[i].recorded_tokens, 0, most);
                }
            }
        }
        *at = right;
    }
    free_message(&message);
}

/* P-18: what is for another sequence in the slot, or for another tick, is refused. */
static void test_feedback_of_others_is_refused(void **state) {
    (void)state;
    struct message message = write_message(STATUS_OK);
    struct round_segment others[SEGMENTS];
    struct round_plan plan = make_plan();
    struct feedback_tick tick;
    struct read_result read;
    size_t extra_bytes;
    memcpy(others, segments, sizeof others);
    others[2].generation++;
    plan.segments = others;
    assert_int_equal(
        feedback_record_read(&shape, &plan, message.memory, message.extra, &tick, result_in(&read)),
        STATUS_INTERNAL);
    assert_non_null(strstr(error_last()->message, "slot 1 generation 4, expected slot 1 generation 5"));
    assert_int_equal(feedback_record_check(&shape, 7, SAMPLED, message.memory, &extra_bytes),
                     STATUS_INTERNAL);
    assert_non_null(strstr(error_last()->message, "tick 6 came in, expected tick 7"));
    assert_int_equal(feedback_record_check(&shape, 6, 2, message.memory, &extra_bytes), STATUS_INTERNAL);
    free_message(&message);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_feedback_comes_back),
        cmocka_unit_test(test_a_failed_tick_says_why),
        cmocka_unit_test(test_width_depends_on_the_draft_limit_only),
        cmocka_unit_test(test_damaged_feedback),
        cmocka_unit_test(test_feedback_of_others_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
