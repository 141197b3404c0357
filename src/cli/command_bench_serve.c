/* `sluice bench serve`: options to load on a server, and its report. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench_command.h"
#include "cli/cli_server.h"
#include "cli/commands.h"
#include "tools/bench_serve.h"
#include "tools/bench_serve_report.h"

enum { CONCURRENCY_MAX = 4096, RATES_MAX = BENCH_NUMBERS_MAX };

static const char DEFAULT_CONCURRENCIES[] = "1,4,16";

/* "1,2.5" to rates in the order given. */
static enum status parse_rates(const char *text, double rates[RATES_MAX], int *count) {
    for (const char *at = text; at != NULL;) {
        char *end;
        double rate = strtod(at, &end);
        CHECK(end != at && (*end == ',' || *end == '\0') && rate >= 1e-3 && rate <= 1e6, STATUS_USAGE,
              "--request-rate takes numbers from 0.001 to 1000000, separated by commas, not \"%s\"", text);
        CHECK(*count < RATES_MAX, STATUS_USAGE, "--request-rate has more than %d numbers", RATES_MAX);
        rates[(*count)++] = rate;
        at = *end == ',' ? end + 1 : NULL;
    }
    return STATUS_OK;
}

/* "ttft:500" or several, separated by commas. */
static enum status parse_goals(const char *text, struct bench_serve_goals *goals) {
    for (const char *at = text; at != NULL;) {
        const char *colon = strchr(at, ':');
        char *end = NULL;
        double limit = colon == NULL ? 0.0 : strtod(colon + 1, &end);
        size_t length = colon == NULL ? 0 : (size_t)(colon - at);
        double *goal = NULL;
        if (length == strlen("ttft") && strncmp(at, "ttft", length) == 0) {
            goal = &goals->first_token_ms;
        } else if (length == strlen("tpot") && strncmp(at, "tpot", length) == 0) {
            goal = &goals->token_ms;
        } else if (length == strlen("e2el") && strncmp(at, "e2el", length) == 0) {
            goal = &goals->total_ms;
        }
        CHECK(goal != NULL && end != colon + 1 && (*end == ',' || *end == '\0') && limit > 0.0 && limit < 1e9,
              STATUS_USAGE,
              "--goodput takes ttft:MS, tpot:MS and e2el:MS with numbers of milliseconds above 0, not \"%s\"",
              text);
        *goal = limit;
        at = *end == ',' ? end + 1 : NULL;
    }
    return STATUS_OK;
}

static struct bench_serve_prompt_options read_prompts(const struct cli_options *options) {
    return (struct bench_serve_prompt_options){
        .dataset_path = options->dataset_path,
        .endpoint = (enum bench_serve_endpoint)options->endpoint,
        .input_tokens = options->random_input_len,
        .output_tokens = options->random_output_len,
        .vocabulary_size = options->vocab_size,
        .seed = (uint64_t)options->seed,
        .temperature = options->temperature_given ? options->temperature : 0.0,
        .ignores_end = options->ignore_eos,
    };
}

static enum status read_options(const struct cli_options *options, int word_count, char **words,
                                double rates[RATES_MAX], struct bench_serve_options *out) {
    const char *concurrency = options->concurrency;
    if (concurrency == NULL && options->request_rate == NULL) {
        concurrency = DEFAULT_CONCURRENCIES;
    }
    out->prompts = read_prompts(options);
    TRY(bench_command_parse_numbers(concurrency, "--concurrency", &out->concurrencies));
    CHECK(bench_numbers_largest(&out->concurrencies) <= CONCURRENCY_MAX, STATUS_USAGE,
          "--concurrency takes numbers up to %d, not \"%s\"", CONCURRENCY_MAX, concurrency);
    TRY(parse_rates(options->request_rate, rates, &out->request_rate_count));
    out->request_rates = rates;
    out->request_count = options->num_prompts;
    out->warmup_count = options->warmup;
    for (int i = 0; i < options->goodput.count; i++) {
        TRY(parse_goals(options->goodput.items[i], &out->goals));
    }
    /* As in vLLM: --goodput ttft:500 tpot:50 */
    for (int i = 0; i < word_count; i++) {
        CHECK(options->goodput.count > 0, STATUS_USAGE,
              "it takes options only, so \"%s\" has no meaning here; see sluice bench serve --help",
              words[i]);
        TRY(parse_goals(words[i], &out->goals));
    }
    return STATUS_OK;
}

static enum status show(const struct cli_options *options, const struct bench_serve_options *what,
                        const struct bench_serve_report *report) {
    enum status status = STATUS_OK;
    struct string_buffer text = {0};
    struct string_buffer picture = {0};
    TRY_GOTO(options->json ? bench_serve_json(what, report, &text) : bench_serve_text(what, report, &text));
    TRY_GOTO(bench_command_print(&text));
    if (options->plot != NULL) {
        TRY_GOTO(bench_serve_plot(report, &picture));
        TRY_GOTO(bench_command_write_file(options->plot, &picture));
    }
    CHECK_GOTO(report->completed_count > 0, STATUS_IO, "all %lld requests failed, the first with: %s",
               (long long)report->failed_count, string_buffer_text(&report->rows[0].first_error));
fail:
    string_buffer_deinit(&text);
    string_buffer_deinit(&picture);
    return status;
}

enum status command_bench_serve(const struct cli_options *options, int word_count, char **words) {
    enum status status = STATUS_OK;
    double rates[RATES_MAX];
    struct bench_serve_options what = {0};
    struct bench_serve_report report = {0};
    struct string_buffer key = {0};
    TRY_GOTO(cli_server_read(options, &key, &what.server));
    TRY_GOTO(read_options(options, word_count, words, rates, &what));
    TRY_GOTO(bench_serve_run(&what, &report));
    TRY_GOTO(show(options, &what, &report));
fail:
    bench_serve_deinit(&report);
    string_buffer_deinit(&key);
    return status;
}
