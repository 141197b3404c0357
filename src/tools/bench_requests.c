/* Every second repeat goes through the settings backwards, so that a steady drift favours none. */
#include "tools/bench_requests.h"

#include <stdio.h>
#include <stdlib.h>

#include "backends/cpu/cpu_features.h"
#include "base/progress.h"
#include "base/worker_pool.h"
#include "tools/bench_loop.h"

enum {
    REQUESTS_LEAST = 4,
    DEFAULT_DRAFTS = 3,
    LEARNING_STEPS = 512, /* a controller that starts without drafts tries them within so many */
};

struct requests_session {
    const struct bench_requests_options *options;
    struct bench_requests_report *report;
    struct bench_draft_setting settings[BENCH_SETTINGS_MAX];
    int setting_count;
    struct bench_prompts prompts;
    struct sluice_engine *engines[BENCH_SETTINGS_MAX]; /* one per setting, for the current concurrency */
    bool has_opened;                                   /* an engine, in this run */
    double *rates;                                     /* [settings][repeats] tokens per second */
    double *ratios;                                    /* [repeats] */
    struct progress progress;
    uint64_t done_tokens;
};

void bench_setting_name(const struct bench_draft_setting *setting, char name[BENCH_SETTING_NAME_BYTES]) {
    if (setting->is_adaptive) {
        snprintf(name, BENCH_SETTING_NAME_BYTES, "adaptive");
    } else {
        snprintf(name, BENCH_SETTING_NAME_BYTES, "%d", setting->limit);
    }
}

double bench_mean_accepted_length(const struct sluice_engine_stats *stats) {
    double accepted = 0.0;
    for (int i = 0; i < SLUICE_DRAFT_POSITIONS_MAX; i++) {
        accepted += (double)stats->accepted_drafts[i];
    }
    return 1.0 + bench_rate(accepted, (double)stats->verified_drafts[0]);
}

static enum status check_options(const struct bench_requests_options *options) {
    CHECK(options->concurrencies.count > 0 && options->repeats >= 1, STATUS_BAD_ARGUMENT,
          "a benchmark of requests needs a concurrency and at least one repeat");
    CHECK(options->request_tokens >= 1 && options->gen_tokens >= 1, STATUS_BAD_ARGUMENT,
          "a benchmark of requests needs prompts and answers of at least one token");
    return STATUS_OK;
}

static int64_t context_tokens(const struct bench_requests_options *options) {
    return options->request_tokens + bench_loop_longest_answer(options->gen_tokens);
}

/* Opens the model once, to learn what it can do. */
static enum status read_facts(struct requests_session *session) {
    struct sluice_engine_options options = session->options->engine;
    struct sluice_engine *engine;
    options.context_tokens = context_tokens(session->options);
    options.draft.limit = 0;
    TRY((enum status)sluice_engine_open(&options, &engine));
    session->report->facts = sluice_engine_facts(engine);
    sluice_engine_close(&engine);
    return STATUS_OK;
}

static void settle_settings(struct requests_session *session) {
    const struct bench_requests_options *options = session->options;
    session->setting_count = options->setting_count;
    for (int i = 0; i < options->setting_count; i++) {
        session->settings[i] = options->settings[i];
    }
    if (options->setting_count > 0) {
        return;
    }
    session->settings[session->setting_count++] = (struct bench_draft_setting){0};
    for (int limit = 1; limit <= DEFAULT_DRAFTS && session->report->facts.has_draft_layer; limit++) {
        session->settings[session->setting_count++] = (struct bench_draft_setting){.limit = limit};
    }
    if (session->report->facts.has_draft_layer) {
        session->settings[session->setting_count++] =
            (struct bench_draft_setting){.limit = DEFAULT_DRAFTS, .is_adaptive = true};
    }
}

static void close_engines(struct requests_session *session) {
    for (int i = 0; i < BENCH_SETTINGS_MAX; i++) {
        sluice_engine_close(&session->engines[i]);
    }
}

static enum status open_engines(struct requests_session *session, int64_t concurrency) {
    struct sluice_engine_options options = session->options->engine;
    options.context_tokens = context_tokens(session->options);
    options.sequence_limit = (int)concurrency;
    options.has_prefix_cache = false;
    for (int i = 0; i < session->setting_count; i++) {
        int64_t rows = concurrency * (1 + session->settings[i].limit);
        options.step_token_limit = session->options->engine.step_token_limit;
        options.step_token_limit = options.step_token_limit < rows ? (int)rows : options.step_token_limit;
        options.draft.limit = session->settings[i].limit;
        options.draft.is_adaptive = session->settings[i].is_adaptive;
        options.trace_continues = session->has_opened;
        TRY((enum status)sluice_engine_open(&options, &session->engines[i]));
        session->has_opened = true;
    }
    return STATUS_OK;
}

/* Two waves, so that requests start while others run. */
static int request_count(int64_t concurrency) {
    return 2 * concurrency < REQUESTS_LEAST ? REQUESTS_LEAST : 2 * (int)concurrency;
}

/* Measures a setting once; repeat 0 does not count. */
static enum status measure(struct requests_session *session, int setting, int repeat,
                           struct bench_requests_row *row) {
    const struct bench_requests_options *options = session->options;
    int requests = request_count(row->concurrency);
    const struct bench_loop_options loop = {
        .engine = session->engines[setting],
        .prompts = &session->prompts,
        .first_prompt = (size_t)repeat * (size_t)requests,
        .request_count = requests,
        .gen_tokens = options->gen_tokens,
        .temperature = options->temperature,
        .seed = options->seed,
    };
    struct bench_loop_result result;
    TRY(bench_loop_run(&loop, &result));
    if (repeat > 0) {
        session->done_tokens += (uint64_t)requests * (uint64_t)options->gen_tokens;
        progress_update(&session->progress, session->done_tokens);
        double *rates = session->rates + setting * options->repeats;
        rates[repeat - 1] = bench_rate((double)result.stats.output_tokens, result.seconds);
        row->first_token_seconds += result.first_token_seconds / result.finished_requests / options->repeats;
        row->token_seconds += result.token_seconds / result.finished_requests / options->repeats;
        bench_stats_add(&row->stats, &result.stats);
    }
    return STATUS_OK;
}

/* Median over the repeats of a setting's rate over that of another; 0 if there is no other. */
static double ratio_of_rates(struct requests_session *session, int setting, int other) {
    int repeats = session->options->repeats;
    if (other < 0) {
        return 0.0;
    }
    for (int r = 0; r < repeats; r++) {
        session->ratios[r] =
            bench_rate(session->rates[setting * repeats + r], session->rates[other * repeats + r]);
    }
    return bench_spread_of(session->ratios, repeats).median;
}

/* Rates are compared repeat by repeat before they are sorted. */
static void summarise(struct requests_session *session, struct bench_requests_row *rows) {
    int repeats = session->options->repeats;
    int off = -1;
    int best = -1;
    for (int s = 0; s < session->setting_count; s++) {
        for (int r = 0; r < repeats; r++) {
            session->ratios[r] = session->rates[s * repeats + r];
        }
        rows[s].tokens_per_second = bench_spread_of(session->ratios, repeats);
        bool is_fixed = !rows[s].setting.is_adaptive;
        off = is_fixed && rows[s].setting.limit == 0 ? s : off;
        if (is_fixed &&
            (best < 0 || rows[s].tokens_per_second.median > rows[best].tokens_per_second.median)) {
            best = s;
        }
    }
    for (int s = 0; s < session->setting_count; s++) {
        rows[s].is_best_fixed = s == best;
        rows[s].over_off = ratio_of_rates(session, s, off);
        rows[s].over_best_fixed = ratio_of_rates(session, s, best);
    }
}

/* Runs what does not count until the adaptive settings have had time to find out what pays. */
static enum status let_learn(struct requests_session *session, struct bench_requests_row *rows) {
    for (int s = 0; s < session->setting_count; s++) {
        while (session->settings[s].is_adaptive &&
               sluice_engine_stats(session->engines[s]).steps < LEARNING_STEPS) {
            TRY(measure(session, s, 0, &rows[s]));
        }
    }
    return STATUS_OK;
}

static enum status measure_concurrency(struct requests_session *session, int64_t concurrency) {
    struct bench_requests_report *report = session->report;
    struct bench_requests_row *rows = report->rows + report->row_count;
    TRY(open_engines(session, concurrency));
    for (int s = 0; s < session->setting_count; s++) {
        rows[s] = (struct bench_requests_row){.concurrency = concurrency, .setting = session->settings[s]};
    }
    TRY(let_learn(session, rows));
    for (int r = 0; r <= session->options->repeats; r++) {
        for (int i = 0; i < session->setting_count; i++) {
            int s = r % 2 == 0 ? i : session->setting_count - 1 - i;
            TRY(measure(session, s, r, &rows[s]));
        }
    }
    summarise(session, rows);
    report->row_count += session->setting_count;
    close_engines(session);
    return STATUS_OK;
}

static enum status prepare(struct requests_session *session) {
    const struct bench_requests_options *options = session->options;
    struct bench_requests_report *report = session->report;
    unsigned threads = (unsigned)options->engine.thread_count;
    TRY(check_options(options));
    TRY(read_facts(session));
    settle_settings(session);
    report->setting_count = session->setting_count;
    report->thread_count = threads == 0 ? worker_pool_cores_allowed() : threads;
    TRY(cpu_features_parse(options->engine.cpu_features, &report->cpu_features));
    string_buffer_append_text(&report->model_directory, options->engine.model_directory);
    TRY(string_buffer_check(&report->model_directory));
    size_t settings = (size_t)session->setting_count;
    session->rates = calloc(settings * (size_t)options->repeats, sizeof *session->rates);
    session->ratios = calloc((size_t)options->repeats, sizeof *session->ratios);
    report->rows = calloc(settings * (size_t)options->concurrencies.count, sizeof *report->rows);
    CHECK_MEMORY(session->rates);
    CHECK_MEMORY(session->ratios);
    CHECK_MEMORY(report->rows);
    size_t length = (size_t)options->request_tokens;
    return options->text != NULL
               ? bench_prompts_cut(options->text, options->text_tokens, length, &session->prompts)
               : bench_prompts_write(&options->engine, length, options->seed, &session->prompts);
}

/* Output tokens of all measurements that count, for the progress line. */
static uint64_t planned_tokens(const struct requests_session *session) {
    const struct bench_requests_options *options = session->options;
    uint64_t requests = 0;
    for (int i = 0; i < options->concurrencies.count; i++) {
        requests += (uint64_t)request_count(options->concurrencies.values[i]);
    }
    return requests * (uint64_t)options->gen_tokens * (uint64_t)session->setting_count *
           (uint64_t)options->repeats;
}

static enum status measure_all(struct requests_session *session) {
    const struct bench_requests_options *options = session->options;
    for (int i = 0; i < options->concurrencies.count; i++) {
        TRY(measure_concurrency(session, options->concurrencies.values[i]));
    }
    if (options->prefix_tokens > 0) {
        TRY(bench_prefix_run(&options->engine, &session->prompts, options->prefix_tokens, options->repeats,
                             &session->report->prefix));
    }
    return STATUS_OK;
}

enum status bench_requests_run(const struct bench_requests_options *options,
                               struct bench_requests_report *out) {
    *out = (struct bench_requests_report){0};
    struct requests_session session = {.options = options, .report = out};
    enum status status = prepare(&session);
    if (status == STATUS_OK) {
        progress_start(&session.progress, "measuring", "tokens", planned_tokens(&session));
        status = measure_all(&session);
        progress_finish(&session.progress);
    }
    close_engines(&session);
    bench_prompts_deinit(&session.prompts);
    free(session.rates);
    free(session.ratios);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

void bench_requests_deinit(struct bench_requests_report *report) {
    string_buffer_deinit(&report->model_directory);
    free(report->rows);
    *report = (struct bench_requests_report){0};
}
