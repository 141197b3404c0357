/* One thread does everything: what it spends itself is small beside what answers take. */
#include "tools/bench_serve.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/progress.h"
#include "tools/stream_answer.h"

enum { REQUESTS_PER_CLIENT = 8, REQUESTS_LEAST = 64, REQUESTS_MAX = 1 << 20 };

static const double WAIT_SECONDS = 0.25;

/* A level while it runs. */
struct level {
    struct session *session;
    struct bench_serve_row *row;
    struct client_request *requests; /* [row->request_count] */
    int64_t started_count, ended_count, active_count;
    struct bench_samples first_token, token, gap, total;
};

struct client_request {
    struct level *level;
    double due_seconds;
    struct stream_answer answer;
};

struct session {
    const struct bench_serve_options *options;
    struct bench_serve_report *report;
    struct api_client client;
    struct bench_serve_prompts prompts;
    struct progress progress;
    uint64_t prompt_index; /* no prompt is asked twice, that no server has it cached */
    uint64_t ended_count;
    uint64_t arrival_random;
};

const char *bench_serve_failure_name(enum bench_serve_failure failure) {
    static const char *const names[] = {"refused", "status", "cut", "error"};
    return names[failure];
}

static void fail_request(struct level *level, enum bench_serve_failure failure, const char *message) {
    level->row->failures[failure]++;
    if (level->row->first_error.length == 0) {
        string_buffer_append_text(&level->row->first_error, message);
    }
}

static bool is_good(const struct bench_serve_goals *goals, double first, double token, double total) {
    return (goals->first_token_ms <= 0.0 || 1e3 * first <= goals->first_token_ms) &&
           (goals->token_ms <= 0.0 || 1e3 * token <= goals->token_ms) &&
           (goals->total_ms <= 0.0 || 1e3 * total <= goals->total_ms);
}

static void complete_request(struct level *level, const struct client_request *request) {
    const struct stream_answer *answer = &request->answer;
    struct bench_serve_row *row = level->row;
    double now = clock_seconds();
    /* An answer without text took until its end. */
    bool has_text = answer->piece_count > 0;
    double first = (has_text ? answer->first_seconds : now) - request->due_seconds;
    double total = (has_text ? answer->last_seconds : now) - request->due_seconds;
    int64_t tokens = answer->output_tokens >= 0 ? answer->output_tokens : answer->piece_count;
    double token = tokens > 1 ? (total - first) / (double)(tokens - 1) : 0.0;
    row->completed_count++;
    row->prompt_tokens += answer->prompt_tokens > 0 ? answer->prompt_tokens : 0;
    row->output_tokens += tokens;
    row->good_count += is_good(&level->session->options->goals, first, token, total);
    bench_samples_add(&level->first_token, first);
    bench_samples_add(&level->total, total);
    if (tokens > 1) {
        bench_samples_add(&level->token, token);
    }
    bench_samples_add_all(&level->gap, &answer->gaps);
}

static void take_data(void *context, const char *bytes, size_t length) {
    struct client_request *request = context;
    stream_answer_push(&request->answer, bytes, length);
}

static void take_end(void *context, const struct http_client_result *result) {
    struct client_request *request = context;
    struct level *level = request->level;
    struct stream_answer *answer = &request->answer;
    struct string_buffer message = {0};
    api_client_describe(result, &message);
    const char *words = string_buffer_text(&message);
    if (result->status_code == 429) {
        fail_request(level, BENCH_SERVE_REFUSED, words);
    } else if (result->status_code != 200 && result->status_code != 0) {
        fail_request(level, BENCH_SERVE_STATUS, words);
    } else if (answer->error.length > 0 || answer->events.is_failed) {
        fail_request(level, BENCH_SERVE_ERROR, string_buffer_text(&answer->error));
    } else if (!result->is_complete || !(answer->is_over || answer->is_finished)) {
        fail_request(level, BENCH_SERVE_CUT, result->is_complete ? "the answer broke off" : words);
    } else {
        complete_request(level, request);
    }
    stream_answer_deinit(answer);
    *answer = (struct stream_answer){0};
    string_buffer_deinit(&message);
    level->active_count--;
    level->ended_count++;
    level->session->ended_count++;
    progress_update(&level->session->progress, level->session->ended_count);
}

static enum status start_request(struct level *level, double due_seconds) {
    struct session *session = level->session;
    struct client_request *request = &level->requests[level->started_count];
    struct http_client_request callbacks = {.on_data = take_data, .on_done = take_end, .context = request};
    struct string_buffer body = {0};
    request->level = level;
    request->due_seconds = due_seconds;
    stream_answer_start(&request->answer);
    enum status status = bench_serve_prompts_write(
        &session->prompts, string_buffer_text(&session->client.model), session->prompt_index++, &body);
    if (status == STATUS_OK) {
        status = api_client_start(&session->client, bench_serve_prompts_path(&session->prompts), &body,
                                  &callbacks);
    }
    string_buffer_deinit(&body);
    TRY(status);
    level->started_count++;
    level->active_count++;
    struct bench_serve_row *row = level->row;
    row->concurrency_peak =
        level->active_count > row->concurrency_peak ? level->active_count : row->concurrency_peak;
    return STATUS_OK;
}

/* Starts what is due; *wait_seconds: until the next one is. */
static enum status start_due(struct level *level, double *due_seconds, double *wait_seconds) {
    const struct bench_serve_row *row = level->row;
    *wait_seconds = WAIT_SECONDS;
    while (level->started_count < row->request_count) {
        double now = clock_seconds();
        if (row->request_rate > 0.0) {
            if (*due_seconds > now) {
                *wait_seconds = fmin(WAIT_SECONDS, *due_seconds - now);
                break;
            }
            TRY(start_request(level, *due_seconds));
            *due_seconds -= log1p(-bench_serve_random(&level->session->arrival_random)) / row->request_rate;
        } else if (level->active_count < row->concurrency) {
            TRY(start_request(level, now));
        } else {
            break;
        }
    }
    return STATUS_OK;
}

static enum status run_requests(struct level *level) {
    double start = clock_seconds();
    double due_seconds = start;
    while (level->ended_count < level->row->request_count) {
        double wait_seconds;
        TRY(start_due(level, &due_seconds, &wait_seconds));
        TRY(http_client_run(level->session->client.http, wait_seconds));
    }
    level->row->seconds = clock_seconds() - start;
    TRY(bench_samples_check(&level->first_token));
    TRY(bench_samples_check(&level->token));
    TRY(bench_samples_check(&level->gap));
    TRY(bench_samples_check(&level->total));
    level->row->first_token = bench_samples_summarise(&level->first_token);
    level->row->token = bench_samples_summarise(&level->token);
    level->row->gap = bench_samples_summarise(&level->gap);
    level->row->total = bench_samples_summarise(&level->total);
    return STATUS_OK;
}

static enum status run_level(struct session *session, struct bench_serve_row *row) {
    struct level level = {.session = session, .row = row};
    level.requests = calloc((size_t)row->request_count, sizeof *level.requests);
    CHECK_MEMORY(level.requests);
    enum status status = run_requests(&level);
    for (int64_t i = 0; i < row->request_count; i++) {
        stream_answer_deinit(&level.requests[i].answer);
    }
    free(level.requests);
    bench_samples_deinit(&level.first_token);
    bench_samples_deinit(&level.token);
    bench_samples_deinit(&level.gap);
    bench_samples_deinit(&level.total);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static int64_t request_count(const struct bench_serve_options *options, int64_t concurrency) {
    int64_t count = concurrency * REQUESTS_PER_CLIENT;
    count = count > REQUESTS_LEAST ? count : REQUESTS_LEAST;
    return options->request_count > 0 ? options->request_count : count;
}

static enum status warm_up(struct session *session) {
    int64_t count = session->options->warmup_count;
    struct bench_serve_row row = {.concurrency = count < 8 ? count : 8, .request_count = count};
    if (count == 0) {
        return STATUS_OK;
    }
    enum status status = run_level(session, &row);
    if (status == STATUS_OK && row.completed_count < count) {
        status = error_raise(
            STATUS_IO, ERROR_HERE, "%lld of %lld requests to warm up failed, the first with: %s",
            (long long)(count - row.completed_count), (long long)count, string_buffer_text(&row.first_error));
    }
    string_buffer_deinit(&row.first_error);
    return status;
}

static enum status list_levels(const struct bench_serve_options *options, struct bench_serve_report *report,
                               uint64_t *total) {
    int count = options->concurrencies.count + options->request_rate_count;
    CHECK(count > 0, STATUS_BAD_ARGUMENT, "no level to measure");
    report->rows = calloc((size_t)count, sizeof *report->rows);
    CHECK_MEMORY(report->rows);
    for (; report->row_count < count; report->row_count++) {
        int i = report->row_count;
        struct bench_serve_row *row = &report->rows[i];
        bool is_closed = i < options->concurrencies.count;
        row->concurrency = is_closed ? options->concurrencies.values[i] : 0;
        row->request_rate = is_closed ? 0.0 : options->request_rates[i - options->concurrencies.count];
        row->request_count = request_count(options, row->concurrency);
        CHECK(row->request_count <= REQUESTS_MAX, STATUS_OUT_OF_RANGE, "more than %d requests in a level",
              REQUESTS_MAX);
        *total += (uint64_t)row->request_count;
    }
    return STATUS_OK;
}

static enum status prepare(struct session *session, uint64_t *total) {
    const struct bench_serve_options *options = session->options;
    struct bench_serve_report *report = session->report;
    TRY(list_levels(options, report, total));
    TRY(bench_serve_prompts_init(&options->prompts, &session->prompts));
    TRY(api_client_open(&options->server, &session->client));
    report->endpoint = session->prompts.endpoint;
    string_buffer_append_text(&report->base_url, string_buffer_text(&session->client.base_url));
    string_buffer_append_text(&report->model, string_buffer_text(&session->client.model));
    TRY(string_buffer_check(&report->base_url));
    return string_buffer_check(&report->model);
}

static enum status measure(struct session *session) {
    struct bench_serve_report *report = session->report;
    TRY(warm_up(session));
    session->ended_count = 0;
    for (int i = 0; i < report->row_count; i++) {
        TRY(run_level(session, &report->rows[i]));
        report->completed_count += report->rows[i].completed_count;
        report->failed_count += report->rows[i].request_count - report->rows[i].completed_count;
    }
    return STATUS_OK;
}

enum status bench_serve_run(const struct bench_serve_options *options, struct bench_serve_report *out) {
    uint64_t total = 0;
    *out = (struct bench_serve_report){0};
    struct session session = {.options = options, .report = out, .arrival_random = options->prompts.seed};
    enum status status = prepare(&session, &total);
    if (status == STATUS_OK) {
        progress_start(&session.progress, "asking", "requests", total);
        status = measure(&session);
        progress_finish(&session.progress);
    }
    api_client_close(&session.client);
    bench_serve_prompts_deinit(&session.prompts);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

void bench_serve_deinit(struct bench_serve_report *report) {
    for (int i = 0; i < report->row_count; i++) {
        string_buffer_deinit(&report->rows[i].first_error);
    }
    free(report->rows);
    string_buffer_deinit(&report->base_url);
    string_buffer_deinit(&report->model);
    *report = (struct bench_serve_report){0};
}
