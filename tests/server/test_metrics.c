/* Metrics: what is counted where, by vLLM's names and buckets (spec http-api 3), against sums made by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/metrics.h"

static const char LABELS[] = "engine=\"0\",model_name=\"a\\\"b\"";

static struct service_stats stats;
static struct sluice_engine_facts facts;

static struct string_buffer text_of(struct metrics *metrics) {
    struct string_buffer text = {0};
    const struct metrics_context context = {.model_name = "a\"b",
                                            .stats = &stats,
                                            .facts = &facts,
                                            .has_prefix_cache = true,
                                            .has_prefix_disk = true,
                                            .unknown_field_count = 3,
                                            .dropped_line_count = 8,
                                            .lost_line_count = 9};
    metrics_write(metrics, &context, &text);
    assert_int_equal(string_buffer_check(&text), STATUS_OK);
    return text;
}

/* The sample must be there once. */
static void assert_sample(const struct string_buffer *text, const char *name, const char *more,
                          double expected) {
    char start[256];
    snprintf(start, sizeof start, "\n%s{%s%s} ", name, LABELS, more);
    const char *at = strstr(text->data, start);
    if (at == NULL) {
        fail_msg("no sample %s in\n%s", start, text->data);
    }
    double value = strtod(at + strlen(start), NULL);
    if (value < expected - 1e-9 || value > expected + 1e-9) {
        fail_msg("%s is %g, not %g", start, value, expected);
    }
    assert_null(strstr(at + 1, start));
}

static struct metrics *create(int64_t context) {
    struct metrics *metrics = NULL;
    memset(&stats, 0, sizeof stats);
    memset(&facts, 0, sizeof facts);
    assert_int_equal(metrics_create(context, &metrics), STATUS_OK);
    return metrics;
}

static void test_tokens(void **state) {
    (void)state;
    struct metrics *metrics = create(4096);
    metrics_record_tokens(metrics, &(struct metrics_tokens){.count = 2, .is_first = true, .seconds = 0.005});
    metrics_record_tokens(metrics, &(struct metrics_tokens){.count = 1, .is_first = true, .seconds = 0.0051});
    metrics_record_tokens(metrics, &(struct metrics_tokens){.count = 4, .seconds = 0.12});
    metrics_record_tokens(metrics, &(struct metrics_tokens){.count = 0, .seconds = 5});
    metrics_record_tokens(metrics, &(struct metrics_tokens){.count = 1, .seconds = 100});
    struct string_buffer text = text_of(metrics);
    assert_sample(&text, "vllm:generation_tokens_total", "", 8);
    static const char first[] = "vllm:time_to_first_token_seconds_bucket";
    assert_sample(&text, first, ",le=\"0.001\"", 0);
    assert_sample(&text, first, ",le=\"0.005\"", 1);
    assert_sample(&text, first, ",le=\"0.01\"", 2);
    assert_sample(&text, first, ",le=\"2560\"", 2);
    assert_sample(&text, first, ",le=\"+Inf\"", 2);
    assert_sample(&text, "vllm:time_to_first_token_seconds_sum", "", 0.0101);
    assert_sample(&text, "vllm:time_to_first_token_seconds_count", "", 2);
    static const char between[] = "vllm:inter_token_latency_seconds_bucket";
    assert_sample(&text, between, ",le=\"0.025\"", 0);
    assert_sample(&text, between, ",le=\"0.05\"", 4);
    assert_sample(&text, between, ",le=\"80\"", 4);
    assert_sample(&text, between, ",le=\"+Inf\"", 5);
    assert_sample(&text, "vllm:inter_token_latency_seconds_sum", "", 100.12);
    assert_sample(&text, "vllm:time_per_output_token_seconds_bucket", ",le=\"0.05\"", 4);
    assert_sample(&text, "vllm:time_per_output_token_seconds_sum", "", 100.12);
    assert_sample(&text, "vllm:engine_sleep_state", ",sleep_state=\"awake\"", 1);
    assert_sample(&text, "vllm:engine_sleep_state", ",sleep_state=\"discard_all\"", 0);
    string_buffer_deinit(&text);
    metrics_destroy(&metrics);
    assert_null(metrics);
}

static void test_requests(void **state) {
    (void)state;
    struct metrics *metrics = create(4096);
    const struct metrics_request whole = {.finish = METRICS_STOP,
                                          .prompt_tokens = 100,
                                          .cached_prompt_tokens = 64,
                                          .tokens = 11,
                                          .token_limit = 20,
                                          .total_seconds = 3.2,
                                          .queue_seconds = 0.5,
                                          .first_token_seconds = 1.0,
                                          .last_token_seconds = 3.0,
                                          .longest_tokens = 11,
                                          .choice_count = 2};
    const struct metrics_request left = {.finish = METRICS_ABORT,
                                         .prompt_tokens = 5,
                                         .token_limit = -1,
                                         .total_seconds = 9000,
                                         .is_corrupted = true};
    metrics_record_request(metrics, &whole);
    metrics_record_request(metrics, &left);
    metrics_record_rejection(metrics);
    metrics_record_reply(metrics, 200);
    metrics_record_reply(metrics, 204);
    metrics_record_reply(metrics, 503);
    metrics_record_reply(metrics, 0);
    struct string_buffer text = text_of(metrics);
    assert_sample(&text, "vllm:request_success_total", ",finished_reason=\"stop\"", 1);
    assert_sample(&text, "vllm:request_success_total", ",finished_reason=\"length\"", 0);
    assert_sample(&text, "vllm:request_success_total", ",finished_reason=\"abort\"", 1);
    assert_sample(&text, "vllm:prompt_tokens_total", "", 105);
    assert_sample(&text, "vllm:prefix_cache_queries_total", "", 105);
    assert_sample(&text, "vllm:prefix_cache_hits_total", "", 64);
    assert_sample(&text, "vllm:corrupted_requests_total", "", 1);
    assert_sample(&text, "vllm:admission_rejections_total", ",reason=\"queue_full\"", 1);
    assert_sample(&text, "vllm:e2e_request_latency_seconds_bucket", ",le=\"2.5\"", 0);
    assert_sample(&text, "vllm:e2e_request_latency_seconds_bucket", ",le=\"5\"", 1);
    assert_sample(&text, "vllm:e2e_request_latency_seconds_bucket", ",le=\"7680\"", 1);
    assert_sample(&text, "vllm:e2e_request_latency_seconds_count", "", 2);
    assert_sample(&text, "vllm:request_queue_time_seconds_sum", "", 0.5);
    assert_sample(&text, "vllm:request_prefill_time_seconds_sum", "", 0.5);
    assert_sample(&text, "vllm:request_decode_time_seconds_sum", "", 2.0);
    assert_sample(&text, "vllm:request_inference_time_seconds_sum", "", 2.5);
    assert_sample(&text, "vllm:request_decode_time_seconds_count", "", 1);
    assert_sample(&text, "vllm:request_time_per_output_token_seconds_sum", "", 0.2);
    assert_sample(&text, "vllm:request_prompt_tokens_bucket", ",le=\"50\"", 1);
    assert_sample(&text, "vllm:request_prompt_tokens_bucket", ",le=\"100\"", 2);
    assert_sample(&text, "vllm:request_generation_tokens_bucket", ",le=\"10\"", 1);
    assert_sample(&text, "vllm:request_generation_tokens_bucket", ",le=\"20\"", 2);
    assert_sample(&text, "vllm:request_params_max_tokens_count", "", 1);
    assert_sample(&text, "vllm:request_params_n_bucket", ",le=\"1\"", 0);
    assert_sample(&text, "vllm:request_params_n_bucket", ",le=\"2\"", 1);
    assert_sample(&text, "vllm:request_max_num_generation_tokens_sum", "", 11);
    assert_sample(&text, "sluice:http_replies_total", ",code=\"2xx\"", 2);
    assert_sample(&text, "sluice:http_replies_total", ",code=\"5xx\"", 1);
    string_buffer_deinit(&text);
    metrics_destroy(&metrics);
}

/* 1, 2, 5, 10, ... up to the context and not beyond. */
static void test_buckets_of_counts(void **state) {
    (void)state;
    struct metrics *metrics = create(2000);
    struct string_buffer text = text_of(metrics);
    static const char *const bounds[] = {"1",   "2",   "5",   "10",   "20",   "50",
                                         "100", "200", "500", "1000", "2000", "+Inf"};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        char more[32];
        snprintf(more, sizeof more, ",le=\"%s\"", bounds[i]);
        assert_sample(&text, "vllm:request_generation_tokens_bucket", more, 0);
    }
    assert_null(
        strstr(text.data, "request_generation_tokens_bucket{engine=\"0\",model_name=\"a\\\"b\",le=\"5000\""));
    string_buffer_deinit(&text);
    metrics_destroy(&metrics);
    /* The largest context does not overflow the table. */
    metrics = create(INT64_MAX);
    text = text_of(metrics);
    assert_sample(&text, "vllm:request_generation_tokens_bucket", ",le=\"1000000\"", 0);
    string_buffer_deinit(&text);
    metrics_destroy(&metrics);
}

static void test_engine(void **state) {
    (void)state;
    struct metrics *metrics = create(4096);
    struct string_buffer text = text_of(metrics);
    assert_sample(&text, "vllm:kv_cache_usage_perc", "", 0);
    assert_null(strstr(text.data, "spec_decode"));
    string_buffer_deinit(&text);
    facts.memory.page_count = 10;
    facts.memory.page_tokens = 128;
    facts.draft_limit = 2;
    stats = (struct service_stats){.worker_count = 2,
                                   .ready_count = 1,
                                   .restarts = 4,
                                   .engine = {.running_requests = 7,
                                              .waiting_requests = 3,
                                              .free_pages = 4,
                                              .cached_pages = 1,
                                              .steps = 20,
                                              .step_rows = 90,
                                              .step_seconds = 1.5,
                                              .planning_seconds = 0.25,
                                              .preemptions = 6,
                                              .verified_drafts = {10, 6, 99},
                                              .accepted_drafts = {8, 3, 99},
                                              .ticks_by_draft_length = {5, 6, 7, 99},
                                              .draft_switches = 2,
                                              .disk_queried_tokens = 70,
                                              .disk_found_tokens = 60,
                                              .disk_read_bytes = 51,
                                              .disk_written_bytes = 52,
                                              .disk_damaged_entries = 53,
                                              .disk_failed_writes = 54,
                                              .disk_dropped_entries = 55,
                                              .disk_evicted_entries = 56}};
    text = text_of(metrics);
    assert_sample(&text, "vllm:num_requests_running", "", 7);
    assert_sample(&text, "vllm:num_requests_waiting", "", 3);
    assert_sample(&text, "vllm:kv_cache_usage_perc", "", 0.5);
    assert_sample(&text, "vllm:cache_config_info",
                  ",block_size=\"128\",num_gpu_blocks=\"10\",enable_prefix_caching=\"True\"", 1);
    assert_sample(&text, "vllm:num_preemptions_total", "", 6);
    assert_sample(&text, "vllm:iteration_tokens_total_sum", "", 90);
    assert_sample(&text, "vllm:iteration_tokens_total_count", "", 20);
    /* M-32: what a round takes besides computing, by the number of rounds. */
    assert_sample(&text, "sluice:step_seconds_total", "", 1.5);
    assert_sample(&text, "sluice:planning_seconds_total", "", 0.25);
    assert_sample(&text, "vllm:spec_decode_num_drafts_total", "", 10);
    assert_sample(&text, "vllm:spec_decode_num_draft_tokens_total", "", 16);
    assert_sample(&text, "vllm:spec_decode_num_accepted_tokens_total", "", 11);
    assert_sample(&text, "vllm:spec_decode_num_accepted_tokens_per_pos_total", ",position=\"1\"", 3);
    assert_null(strstr(text.data, "position=\"2\""));
    assert_sample(&text, "sluice:draft_ticks_total", ",length=\"2\"", 7);
    assert_sample(&text, "sluice:draft_switches_total", "", 2);
    assert_sample(&text, "sluice:workers_ready", "", 1);
    assert_sample(&text, "sluice:worker_restarts_total", "", 4);
    assert_sample(&text, "sluice:unknown_fields_total", "", 3);
    assert_sample(&text, "sluice:access_log_dropped_lines_total", "", 8);
    assert_sample(&text, "sluice:log_lost_lines_total", "", 9);
    assert_sample(&text, "vllm:external_prefix_cache_queries_total", "", 70);
    assert_sample(&text, "vllm:external_prefix_cache_hits_total", "", 60);
    assert_sample(&text, "sluice:prefix_disk_read_bytes_total", "", 51);
    assert_sample(&text, "sluice:prefix_disk_written_bytes_total", "", 52);
    assert_sample(&text, "sluice:prefix_disk_damaged_entries_total", "", 53);
    assert_sample(&text, "sluice:prefix_disk_failed_writes_total", "", 54);
    assert_sample(&text, "sluice:prefix_disk_dropped_entries_total", "", 55);
    assert_sample(&text, "sluice:prefix_disk_evicted_entries_total", "", 56);
    string_buffer_deinit(&text);
    metrics_destroy(&metrics);
}

/* Two stages of two ranks: times as they are, links by where they begin and end. */
static void test_stages(void **state) {
    (void)state;
    struct metrics *metrics = create(4096);
    stats.engine.stage_count = 1;
    stats.engine.stages[0].compute_seconds = 1.5;
    struct string_buffer text = text_of(metrics);
    assert_sample(&text, "sluice:stage_seconds_total", ",stage=\"0\",part=\"compute\"", 1.5);
    assert_null(strstr(text.data, "sluice:link_bytes_total"));
    assert_null(strstr(text.data, "stage=\"1\""));
    string_buffer_deinit(&text);
    facts.stage_imbalance = 1.125;
    stats.engine.stage_count = 2;
    stats.engine.stages[0] = (struct sluice_stage_stats){.compute_seconds = 3.0,
                                                         .wait_seconds = 0.75,
                                                         .send_seconds = 0.25,
                                                         .boundary_bytes = 100,
                                                         .feedback_bytes = 7,
                                                         .sum_bytes = 20,
                                                         .gather_bytes = 30,
                                                         .exchange_bytes = 40,
                                                         .relay_bytes = 50,
                                                         .expert_moves = 6,
                                                         .expert_imbalance = 1.5};
    stats.engine.stages[1] = (struct sluice_stage_stats){
        .wait_seconds = 2.0, .plan_bytes = 60, .feedback_bytes = 70, .relay_bytes = 80};
    text = text_of(metrics);
    assert_sample(&text, "sluice:stage_seconds_total", ",stage=\"0\",part=\"compute\"", 3.0);
    assert_sample(&text, "sluice:stage_seconds_total", ",stage=\"0\",part=\"wait\"", 0.75);
    assert_sample(&text, "sluice:stage_seconds_total", ",stage=\"0\",part=\"send\"", 0.25);
    assert_sample(&text, "sluice:stage_seconds_total", ",stage=\"1\",part=\"wait\"", 2.0);
    assert_sample(&text, "sluice:stage_imbalance", "", 1.125);
    static const char link[] = "sluice:link_bytes_total";
    assert_sample(&text, link, ",from=\"0\",to=\"1\",kind=\"boundary\"", 100);
    assert_sample(&text, link, ",from=\"0\",to=\"1\",kind=\"plan\"", 60);
    assert_sample(&text, link, ",from=\"1\",to=\"0\",kind=\"feedback\"", 70);
    assert_sample(&text, link, ",from=\"0\",to=\"0\",kind=\"feedback\"", 7);
    assert_sample(&text, link, ",from=\"0\",to=\"0\",kind=\"sum\"", 20);
    assert_sample(&text, link, ",from=\"0\",to=\"0\",kind=\"gather\"", 30);
    assert_sample(&text, link, ",from=\"0\",to=\"0\",kind=\"exchange\"", 40);
    assert_sample(&text, link, ",from=\"0\",to=\"0\",kind=\"plan\"", 50);
    assert_sample(&text, link, ",from=\"1\",to=\"1\",kind=\"plan\"", 80);
    assert_null(strstr(text.data, "from=\"1\",to=\"2\""));
    assert_sample(&text, "sluice:expert_moves_total", ",stage=\"0\"", 6);
    assert_sample(&text, "sluice:expert_imbalance", ",stage=\"0\"", 1.5);
    string_buffer_deinit(&text);
    metrics_destroy(&metrics);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_buckets_of_counts),
        cmocka_unit_test(test_engine),
        cmocka_unit_test(test_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
