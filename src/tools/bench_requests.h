/*
 * The benchmark of requests: how fast tokens come with so many requests at once and so many drafts.
 *
 * For each number of requests an engine per draft setting is opened and stays open. Each repeat measures all
 * settings one after the other, and settings are compared by the median of the ratios within repeats: times
 * wander on a busy machine, ratios hold. A first round, and more with an adaptive setting so that it can
 * learn, are not counted. Prompts are texts that the model knows, end tokens have no effect, and the prefix
 * cache is off.
 */
#ifndef SLUICE_TOOLS_BENCH_REQUESTS_H
#define SLUICE_TOOLS_BENCH_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "sluice/engine.h"
#include "tools/bench_numbers.h"
#include "tools/bench_prefix.h"

enum { BENCH_SETTINGS_MAX = SLUICE_DRAFT_POSITIONS_MAX + 2, BENCH_SETTING_NAME_BYTES = 16 };

/* Drafts: always `limit`, or as many up to it as the engine chooses. */
struct bench_draft_setting {
    int limit;
    bool is_adaptive;
};

/* What to measure. */
struct bench_requests_options {
    struct sluice_engine_options engine; /* model and machine; sizes and drafts are worked out */
    struct bench_numbers concurrencies;
    struct bench_draft_setting settings[BENCH_SETTINGS_MAX];
    int setting_count;      /* 0: none to 3 drafts and adaptive, as far as the checkpoint allows */
    int64_t request_tokens; /* of each prompt */
    int64_t gen_tokens;     /* of an answer on average: half to one and a half times as many */
    int64_t prefix_tokens;  /* of the prompt to find in the prefix cache; 0: that is not measured */
    double temperature;
    uint64_t seed;
    int repeats;
    const int32_t *text; /* prompts are cut from it; borrowed; NULL: the model writes them */
    size_t text_tokens;
};

/* One number of requests with one setting. */
struct bench_requests_row {
    int64_t concurrency;
    struct bench_draft_setting setting;
    struct bench_spread tokens_per_second; /* output of all requests together */
    double first_token_seconds;            /* mean, each from the request's first step */
    double token_seconds;                  /* mean time between tokens of a request after the first */
    struct sluice_engine_stats stats;      /* counters over all repeats */
    bool is_best_fixed;                    /* the fastest of the fixed settings, none included */
    double over_off;                       /* median ratio to no drafts; 0: that was not measured */
    double over_best_fixed;                /* the same to the best fixed setting; 0: there is none */
};

struct bench_requests_report {
    struct sluice_engine_facts facts; /* of the engine without requests' sizes */
    unsigned thread_count;
    unsigned cpu_features;
    struct string_buffer model_directory;
    struct bench_requests_row *rows; /* by concurrency, then by setting */
    int row_count;
    int setting_count; /* rows of one concurrency */
    struct bench_prefix_result prefix;
};

/* Measures everything. Owned: bench_requests_deinit, also after an error. */
enum status bench_requests_run(const struct bench_requests_options *options,
                               struct bench_requests_report *out);

void bench_requests_deinit(struct bench_requests_report *report);

/* "0", "3" or "adaptive". */
void bench_setting_name(const struct bench_draft_setting *setting, char name[BENCH_SETTING_NAME_BYTES]);

/* vLLM's mean acceptance length: tokens of a round that verifies drafts; 1 without such a round. */
double bench_mean_accepted_length(const struct sluice_engine_stats *stats);

#endif
