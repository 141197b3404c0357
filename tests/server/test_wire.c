/* Records come out of the wire as they went in, whole ones only, and of one version only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "server/wire_connection.h"

static struct service_text text_of(const char *text) {
    return (struct service_text){text, strlen(text)};
}

static const int32_t prompt[] = {3, 1, 4, 1, 5};
static const int32_t stop_tokens[] = {1};
static const int32_t allowed[] = {7, 8, 9};
static const struct sluice_logit_bias bias[] = {{5, -1.5f}};

static struct wire_record full_request(const struct service_text *stops,
                                       const struct service_text *bad_words) {
    struct wire_record record = {.kind = WIRE_SUBMIT, .id = UINT64_MAX};
    record.request.options = sluice_request_options_default();
    struct sluice_request_options *options = &record.request.options;
    options->prompt = prompt;
    options->prompt_count = 5;
    options->output_prefix_count = 2;
    options->sampling = (struct sluice_sampling){.temperature = 0.7,
                                                 .top_k = -1,
                                                 .top_p = 0.9,
                                                 .min_p = 0.1,
                                                 .repetition_penalty = 1.1,
                                                 .presence_penalty = -0.5,
                                                 .frequency_penalty = 0.25,
                                                 .logit_bias = bias,
                                                 .logit_bias_count = 1,
                                                 .seed = UINT64_MAX - 1};
    options->choice_index = UINT32_MAX;
    options->token_limit = -1;
    options->stop_tokens = stop_tokens;
    options->stop_token_count = 1;
    options->log_probability_count = 20;
    options->priority = -7;
    options->timeout_seconds = 1.5;
    options->draft_limit = 3;
    options->skips_prefix_cache = true;
    options->prompt_log_probability_count = 4;
    record.request.rules = (struct service_rules){.grammar = SERVICE_GRAMMAR_JSON_SCHEMA,
                                                  .grammar_text = text_of("{\"type\":\"object\"}"),
                                                  .is_grammar_optional = true,
                                                  .starts_in_reasoning = true,
                                                  .stops = stops,
                                                  .stop_count = 2,
                                                  .min_tokens = 11,
                                                  .allowed_tokens = allowed,
                                                  .allowed_token_count = 3,
                                                  .bad_words = bad_words,
                                                  .bad_word_count = 1};
    return record;
}

static struct wire_frame find_whole(const struct string_buffer *bytes) {
    struct wire_frame frame;
    size_t frame_bytes = 0;
    assert_int_equal(wire_frame_find((const unsigned char *)bytes->data, bytes->length, &frame, &frame_bytes),
                     STATUS_OK);
    assert_int_equal(frame_bytes, bytes->length);
    return frame;
}

static void expect_text(struct service_text actual, const char *expected) {
    assert_int_equal(actual.length, strlen(expected));
    assert_memory_equal(actual.bytes, expected, actual.length);
}

static void expect_full_request(const struct wire_record *read) {
    const struct sluice_request_options *options = &read->request.options;
    const struct service_rules *rules = &read->request.rules;
    assert_true(read->id == UINT64_MAX);
    assert_int_equal(options->prompt_count, 5);
    assert_memory_equal(options->prompt, prompt, sizeof prompt);
    assert_int_equal(options->output_prefix_count, 2);
    assert_true(options->sampling.temperature == 0.7 && options->sampling.top_p == 0.9);
    assert_true(options->sampling.min_p == 0.1 && options->sampling.repetition_penalty == 1.1);
    assert_true(options->sampling.presence_penalty == -0.5 && options->sampling.frequency_penalty == 0.25);
    assert_int_equal(options->sampling.top_k, -1);
    assert_int_equal(options->sampling.logit_bias_count, 1);
    assert_int_equal(options->sampling.logit_bias[0].token, 5);
    assert_true(options->sampling.logit_bias[0].bias == -1.5f);
    assert_true(options->sampling.seed == UINT64_MAX - 1 && options->choice_index == UINT32_MAX);
    assert_int_equal(options->token_limit, -1);
    assert_int_equal(options->stop_tokens[0], 1);
    assert_int_equal(options->log_probability_count, 20);
    assert_int_equal(options->priority, -7);
    assert_true(options->timeout_seconds == 1.5 && options->skips_prefix_cache);
    assert_int_equal(options->draft_limit, 3);
    assert_int_equal(options->prompt_log_probability_count, 4);
    assert_int_equal(rules->grammar, SERVICE_GRAMMAR_JSON_SCHEMA);
    expect_text(rules->grammar_text, "{\"type\":\"object\"}");
    assert_true(rules->is_grammar_optional);
    assert_true(rules->starts_in_reasoning);
    assert_int_equal(rules->stop_count, 2);
    expect_text(rules->stops[0], "END");
    expect_text(rules->stops[1], "");
    assert_int_equal(rules->min_tokens, 11);
    assert_int_equal(rules->allowed_token_count, 3);
    assert_memory_equal(rules->allowed_tokens, allowed, sizeof allowed);
    expect_text(rules->bad_words[0], "bad");
}

static void write_full_request(struct string_buffer *out) {
    const struct service_text stops[] = {text_of("END"), text_of("")};
    const struct service_text bad_words[] = {text_of("bad")};
    struct wire_record record = full_request(stops, bad_words);
    wire_write(out, &record);
    assert_int_equal(string_buffer_check(out), STATUS_OK);
}

static void test_requests(void **state) {
    (void)state;
    struct string_buffer bytes = {0};
    struct wire_record read;
    struct arena arena;
    arena_init(&arena, 1024);
    write_full_request(&bytes);
    struct wire_frame frame = find_whole(&bytes);
    assert_int_equal(wire_read(&frame, &arena, &read), STATUS_OK);
    expect_full_request(&read);
    arena_deinit(&arena);
    string_buffer_deinit(&bytes);
}

/* Every beginning of a record waits for more; every body that is cut is refused. */
static void test_cut_records(void **state) {
    (void)state;
    struct string_buffer bytes = {0};
    write_full_request(&bytes);
    for (size_t length = 0; length < bytes.length; length++) {
        struct wire_frame frame;
        size_t frame_bytes = 1;
        unsigned char *copy = malloc(length + 1); /* so that a sanitizer sees a step too far */
        memcpy(copy, bytes.data, length);
        assert_int_equal(wire_frame_find(copy, length, &frame, &frame_bytes), STATUS_OK);
        assert_int_equal(frame_bytes, 0);
        free(copy);
    }
    struct wire_frame frame = find_whole(&bytes);
    size_t whole = frame.body_bytes;
    for (size_t cut = 0; cut < whole; cut += 8) {
        struct wire_record read;
        struct arena arena;
        arena_init(&arena, 1024);
        frame.body_bytes = cut;
        assert_int_equal(wire_read(&frame, &arena, &read), STATUS_BAD_FORMAT);
        arena_deinit(&arena);
    }
    string_buffer_deinit(&bytes);
}

static void expect_no_frame(const struct string_buffer *bytes, const char *words) {
    struct wire_frame frame;
    size_t frame_bytes;
    assert_int_equal(wire_frame_find((const unsigned char *)bytes->data, bytes->length, &frame, &frame_bytes),
                     STATUS_BAD_FORMAT);
    if (strstr(error_last()->message, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error_last()->message, words);
    }
}

static void test_other_versions_and_kinds(void **state) {
    (void)state;
    static const struct {
        int at;
        uint32_t value;
        const char *words;
    } damages[] = {{0, 0x12345678, "no record"},
                   {4, WIRE_VERSION + 1, "speaks version 4, this program version 3"},
                   {8, WIRE_KIND_COUNT, "unknown kind"},
                   {12, (uint32_t)WIRE_BODY_LIMIT + 8, "at most"},
                   {12, 12, "multiple of eight"}};
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct string_buffer bytes = {0};
        write_full_request(&bytes);
        memcpy(bytes.data + damages[i].at, &damages[i].value, sizeof damages[i].value);
        expect_no_frame(&bytes, damages[i].words);
        string_buffer_deinit(&bytes);
    }
}

static void test_updates(void **state) {
    (void)state;
    const struct sluice_log_probability top[] = {{4, -0.5}, {5, -1.5}, {6, -2.5}};
    const struct service_token tokens[] = {{.id = 4, .chosen = {4, -0.5}, .top = top, .top_count = 2},
                                           {.id = 6, .chosen = {6, -2.5}, .top = top + 2, .top_count = 1}};
    struct wire_record record = {.kind = WIRE_UPDATE, .id = 77};
    struct wire_record read;
    struct string_buffer bytes = {0};
    struct arena arena;
    arena_init(&arena, 1024);
    assert_true(wire_tokens_pack(tokens, 2, &arena, &record.update.tokens));
    record.update.state = (struct sluice_request_state){.phase = SLUICE_REQUEST_FINISHED,
                                                        .finish_reason = SLUICE_FINISH_ERROR,
                                                        .status = SLUICE_NOT_FINITE,
                                                        .token_count = 2,
                                                        .first_token_seconds = 0.25};
    record.update.message = text_of("layer 3");
    wire_write(&bytes, &record);
    struct wire_frame frame = find_whole(&bytes);
    assert_int_equal(wire_read(&frame, &arena, &read), STATUS_OK);
    assert_int_equal(read.id, 77);
    assert_int_equal(read.update.tokens.count, 2);
    assert_int_equal(read.update.tokens.ids[1], 6);
    assert_true(read.update.tokens.chosen[1].log_probability == -2.5);
    assert_int_equal(read.update.tokens.top_counts[0], 2);
    assert_int_equal(read.update.tokens.top[2].token, 6);
    assert_int_equal(read.update.prompt_tokens.count, 0);
    assert_int_equal(read.update.state.status, SLUICE_NOT_FINITE);
    assert_true(read.update.state.first_token_seconds == 0.25);
    expect_text(read.update.message, "layer 3");
    /* Counts that do not fit together: a reader would walk beyond `top`. */
    uint32_t *top_counts = (uint32_t *)(uintptr_t)read.update.tokens.top_counts;
    top_counts[0] = 3;
    assert_int_equal(wire_read(&frame, &arena, &read), STATUS_BAD_FORMAT);
    arena_deinit(&arena);
    string_buffer_deinit(&bytes);
}

/* All that a front is told of an engine, each value its own. */
static void test_facts(void **state) {
    (void)state;
    struct wire_record record = {.kind = WIRE_READY};
    struct wire_record read;
    struct string_buffer bytes = {0};
    /* Of static storage: what lies between the fields is zero. */
    static const struct sluice_engine_facts facts = {.vocabulary_size = 1,
                                                     .context_tokens = 2,
                                                     .layer_count = 3,
                                                     .sequence_limit = 4,
                                                     .draft_limit = 5,
                                                     .has_draft_layer = true,
                                                     .tensor_count = 6,
                                                     .stage_imbalance = 1.25,
                                                     .load_seconds = 0.5,
                                                     .memory = {.mapped_weight_bytes = 7,
                                                                .copied_weight_bytes = 8,
                                                                .slot_state_bytes = 9,
                                                                .snapshot_bytes = 10,
                                                                .page_state_bytes = 11,
                                                                .step_bytes = 12,
                                                                .draft_bytes = 13,
                                                                .host_bytes = 14,
                                                                .page_count = 15,
                                                                .page_tokens = 16,
                                                                .token_capacity = 17}};
    memset(&read, 0, sizeof read);
    memcpy(&record.facts, &facts, sizeof facts);
    wire_write(&bytes, &record);
    struct wire_frame frame = find_whole(&bytes);
    assert_int_equal(wire_read(&frame, NULL, &read), STATUS_OK);
    assert_memory_equal(&read.facts, &facts, sizeof facts);
    string_buffer_deinit(&bytes);
}

/* What became of beginnings on disk. */
static void test_stats_of_the_disk(void **state) {
    (void)state;
    struct wire_record record = {.kind = WIRE_STATS};
    struct wire_record read = {0};
    struct string_buffer bytes = {0};
    record.stats.disk_queried_tokens = 60;
    record.stats.disk_found_tokens = 61;
    record.stats.disk_read_bytes = 62;
    record.stats.disk_written_bytes = 63;
    record.stats.disk_damaged_entries = 64;
    record.stats.disk_failed_writes = 65;
    record.stats.disk_dropped_entries = 66;
    record.stats.disk_evicted_entries = 67;
    wire_write(&bytes, &record);
    struct wire_frame frame = find_whole(&bytes);
    assert_int_equal(wire_read(&frame, NULL, &read), STATUS_OK);
    assert_int_equal(read.stats.disk_queried_tokens, 60);
    assert_int_equal(read.stats.disk_found_tokens, 61);
    assert_int_equal(read.stats.disk_read_bytes, 62);
    assert_int_equal(read.stats.disk_written_bytes, 63);
    assert_int_equal(read.stats.disk_damaged_entries, 64);
    assert_int_equal(read.stats.disk_failed_writes, 65);
    assert_int_equal(read.stats.disk_dropped_entries, 66);
    assert_int_equal(read.stats.disk_evicted_entries, 67);
    string_buffer_deinit(&bytes);
}

/* Counters of two stages, each its own; a third is not sent, and more than there can be are refused. */
static void test_stats_of_stages(void **state) {
    (void)state;
    struct wire_record record = {.kind = WIRE_STATS, .id = 5};
    struct wire_record read = {0};
    struct string_buffer bytes = {0};
    for (int i = 0; i < 3; i++) {
        record.stats.stages[i] = (struct sluice_stage_stats){.compute_seconds = i + 0.5,
                                                             .wait_seconds = i + 0.25,
                                                             .send_seconds = i + 0.125,
                                                             .boundary_bytes = 10 * i + 1,
                                                             .plan_bytes = 10 * i + 2,
                                                             .feedback_bytes = 10 * i + 3,
                                                             .sum_bytes = 10 * i + 4,
                                                             .gather_bytes = 10 * i + 5,
                                                             .exchange_bytes = 10 * i + 6,
                                                             .relay_bytes = 10 * i + 7,
                                                             .expert_moves = 10 * i + 8,
                                                             .expert_imbalance = i + 1.75};
    }
    record.stats.stage_count = 2;
    record.stats.draft_length = 3;
    record.stats.draft_regime = SLUICE_DRAFT_REGIME_DRAFT;
    wire_write(&bytes, &record);
    struct wire_frame frame = find_whole(&bytes);
    assert_int_equal(wire_read(&frame, NULL, &read), STATUS_OK);
    assert_int_equal(read.stats.stage_count, 2);
    assert_int_equal(read.stats.draft_length, 3);
    assert_int_equal(read.stats.draft_regime, SLUICE_DRAFT_REGIME_DRAFT);
    assert_memory_equal(read.stats.stages, record.stats.stages, 2 * sizeof record.stats.stages[0]);
    assert_true(read.stats.stages[2].compute_seconds == 0.0);
    bool is_found = false;
    for (size_t at = WIRE_HEADER_BYTES; at < bytes.length && !is_found; at += 8) {
        int64_t word;
        memcpy(&word, bytes.data + at, sizeof word);
        if (word == 2 && at + 8 + 2 * sizeof record.stats.stages[0] == bytes.length) {
            word = SLUICE_STAGES_MAX + 1;
            memcpy(bytes.data + at, &word, sizeof word);
            is_found = true;
        }
    }
    assert_true(is_found);
    assert_int_equal(wire_read(&frame, NULL, &read), STATUS_BAD_FORMAT);
    string_buffer_deinit(&bytes);
}

/* Values that no field may have. */
static void test_numbers_out_of_range(void **state) {
    (void)state;
    struct wire_record record = {.kind = WIRE_FATAL, .status = STATUS_PEER_LOST};
    struct wire_record read;
    struct string_buffer bytes = {0};
    struct arena arena;
    uint64_t status = (uint64_t)STATUS_PEER_LOST + 1;
    arena_init(&arena, 1024);
    wire_write(&bytes, &record);
    struct wire_frame frame = find_whole(&bytes);
    assert_int_equal(wire_read(&frame, &arena, &read), STATUS_OK);
    memcpy(bytes.data + WIRE_HEADER_BYTES + 8, &status, sizeof status);
    assert_int_equal(wire_read(&frame, &arena, &read), STATUS_BAD_FORMAT);
    arena_deinit(&arena);
    string_buffer_deinit(&bytes);
}

/* More than a socket holds: it comes through in pieces, in order, and what waits is counted. */
static void test_connections(void **state) {
    (void)state;
    enum { RECORDS = 4000 };
    int ends[2];
    struct wire_connection sender;
    struct wire_connection receiver;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(wire_connection_init(&sender, ends[0]), STATUS_OK);
    assert_int_equal(wire_connection_init(&receiver, ends[1]), STATUS_OK);
    for (uint64_t id = 1; id <= RECORDS; id++) {
        struct wire_record record = {.kind = WIRE_STATS, .id = id};
        wire_connection_put(&sender, &record);
    }
    assert_int_equal(wire_connection_flush(&sender), STATUS_OK);
    assert_true(wire_connection_backlog(&sender) > 0);
    uint64_t seen = 0;
    while (seen < RECORDS) {
        struct wire_frame frame;
        bool has_frame = false;
        assert_int_equal(wire_connection_flush(&sender), STATUS_OK);
        assert_int_equal(wire_connection_read(&receiver), STATUS_OK);
        assert_int_equal(wire_connection_next(&receiver, &frame, &has_frame), STATUS_OK);
        while (has_frame) {
            struct wire_record read;
            assert_int_equal((uintptr_t)frame.body % 8, 0);
            assert_int_equal(wire_read(&frame, NULL, &read), STATUS_OK);
            assert_int_equal(read.id, ++seen);
            assert_int_equal(wire_connection_next(&receiver, &frame, &has_frame), STATUS_OK);
        }
    }
    assert_int_equal(wire_connection_backlog(&sender), 0);
    wire_connection_deinit(&sender);
    assert_int_equal(wire_connection_read(&receiver), STATUS_PEER_LOST);
    wire_connection_deinit(&receiver);
    wire_connection_deinit(&receiver);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_cut_records),
        cmocka_unit_test(test_other_versions_and_kinds),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_stats_of_the_disk),
        cmocka_unit_test(test_stats_of_stages),
        cmocka_unit_test(test_numbers_out_of_range),
        cmocka_unit_test(test_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
