/*
 * Load on a server that speaks OpenAI's API, and how long its answers take.
 *
 * In a closed loop a number of clients each ask again as soon as they have their answer; in an open one
 * requests come at random times (a Poisson process), whatever became of those before. Times count from when a
 * request should have been sent. Of failed requests the times do not count, but they are counted.
 */
#ifndef SLUICE_TOOLS_BENCH_SERVE_H
#define SLUICE_TOOLS_BENCH_SERVE_H

#include "tools/api_client.h"
#include "tools/bench_numbers.h"
#include "tools/bench_samples.h"
#include "tools/bench_serve_prompts.h"

/* Milliseconds that a good request takes at most; 0: does not matter. */
struct bench_serve_goals {
    double first_token_ms, token_ms, total_ms;
};

struct bench_serve_options {
    struct api_client_options server;
    struct bench_serve_prompt_options prompts;
    struct bench_numbers concurrencies; /* levels of a closed loop */
    const double *request_rates;        /* levels of an open one, per second; borrowed */
    int request_rate_count;
    int64_t request_count; /* of each level; 0: 8 per client, 64 at least */
    int64_t warmup_count;  /* requests before them that do not count */
    struct bench_serve_goals goals;
};

/* Why requests failed. */
enum bench_serve_failure {
    BENCH_SERVE_REFUSED, /* 429 */
    BENCH_SERVE_STATUS,  /* any other status but 200 */
    BENCH_SERVE_CUT,     /* no answer, or one that broke off */
    BENCH_SERVE_ERROR,   /* the stream says that something is wrong */
    BENCH_SERVE_FAILURES,
};

/* "refused", "status", ... */
const char *bench_serve_failure_name(enum bench_serve_failure failure);

struct bench_serve_row {
    int64_t concurrency; /* 0: an open loop */
    double request_rate; /* 0: a closed one */
    int64_t request_count, completed_count, good_count;
    int64_t failures[BENCH_SERVE_FAILURES];
    int64_t prompt_tokens, output_tokens; /* of completed requests */
    int64_t concurrency_peak;
    double seconds;                                      /* from the first request to the last answer */
    struct bench_summary first_token, token, gap, total; /* seconds: TTFT, TPOT, ITL, E2E */
    struct string_buffer first_error;                    /* of a failed request; empty: none */
};

struct bench_serve_report {
    struct string_buffer base_url, model;
    enum bench_serve_endpoint endpoint;
    struct bench_serve_row *rows;
    int row_count;
    int64_t completed_count, failed_count;
};

/*
 * Runs all levels. IO if the server does not answer a warm-up request; failures while measuring are no
 * errors. Owned: bench_serve_deinit, also after a failure.
 */
enum status bench_serve_run(const struct bench_serve_options *options, struct bench_serve_report *out);
void bench_serve_deinit(struct bench_serve_report *report);

#endif
