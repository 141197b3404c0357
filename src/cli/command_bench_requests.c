/* `sluice bench --concurrency`: options to a benchmark of requests, and its report. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench_command.h"
#include "cli/cli_input.h"
#include "cli/engine_options.h"
#include "text/tokenizer.h"
#include "tools/bench_requests.h"
#include "tools/bench_requests_report.h"

enum { CONCURRENCY_MAX = 4096 };

static const char adaptive_name[] = "adaptive";

/* Adds a fixed setting unless it is there. */
static void add_fixed(struct bench_requests_options *out, int limit) {
    for (int i = 0; i < out->setting_count; i++) {
        if (out->settings[i].limit == limit) {
            return;
        }
    }
    out->settings[out->setting_count++] = (struct bench_draft_setting){.limit = limit};
}

/* "0,1,adaptive": adaptive goes up to `adaptive_limit`, or else to the largest of the numbers, or else 3. */
static enum status parse_drafts(const char *text, int adaptive_limit, struct bench_requests_options *out) {
    int largest = 0;
    bool has_adaptive = false;
    for (const char *at = text; at != NULL;) {
        size_t length = strcspn(at, ",");
        if (length == strlen(adaptive_name) && memcmp(at, adaptive_name, length) == 0) {
            has_adaptive = true;
        } else {
            char *end;
            long limit = strtol(at, &end, 10);
            CHECK(end == at + length && length > 0 && limit >= 0 && limit <= SLUICE_DRAFT_POSITIONS_MAX,
                  STATUS_USAGE,
                  "--drafts takes numbers from 0 to %d and \"adaptive\", separated by commas, not \"%s\"",
                  SLUICE_DRAFT_POSITIONS_MAX, text);
            add_fixed(out, (int)limit);
            largest = limit > largest ? (int)limit : largest;
        }
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    if (has_adaptive) {
        largest = largest == 0 ? 3 : largest;
        out->settings[out->setting_count++] = (struct bench_draft_setting){
            .limit = adaptive_limit < 0 ? largest : adaptive_limit, .is_adaptive = true};
    }
    return STATUS_OK;
}

/* The tokens of --prompt-file; nothing without it. */
static enum status read_text(const struct cli_options *options, struct token_list *tokens) {
    enum status status = STATUS_OK;
    struct string_buffer text = {0};
    struct tokenizer *tokenizer = NULL;
    const struct tokenizer_encode_options encode = {.match_added_tokens = true};
    if (options->prompt_file == NULL) {
        return STATUS_OK;
    }
    TRY_GOTO(cli_read_all(options->prompt_file, &text));
    TRY_GOTO(tokenizer_load_of_model(options->model, NULL, &tokenizer));
    TRY_GOTO(tokenizer_encode(tokenizer, string_buffer_text(&text), text.length, &encode, tokens));
    CHECK_GOTO(tokens->count > 0, STATUS_USAGE, "the prompt file %s holds no text", options->prompt_file);
fail:
    tokenizer_destroy(&tokenizer);
    string_buffer_deinit(&text);
    return status;
}

static enum status read_options(const struct cli_options *options, struct cli_engine_options *engine,
                                struct bench_requests_options *out) {
    CHECK(options->model != NULL, STATUS_USAGE,
          "--model is missing: the folder of the checkpoint to measure");
    CHECK(!options->prompt_tokens_given && options->context == NULL, STATUS_USAGE,
          "with --concurrency, prompts have the length of --request-tokens");
    TRY(cli_engine_options_read(options, SLUICE_DRAFTS_IF_POSSIBLE, engine));
    *out = (struct bench_requests_options){
        .engine = engine->engine,
        .request_tokens = options->request_tokens,
        .gen_tokens = options->gen_tokens,
        .prefix_tokens = options->prefix_tokens,
        .temperature = options->temperature_given ? options->temperature : 0.0,
        .seed = (uint64_t)options->seed,
        .repeats = (int)options->repeats,
    };
    TRY(bench_command_parse_numbers(options->concurrency, "--concurrency", &out->concurrencies));
    CHECK(bench_numbers_largest(&out->concurrencies) <= CONCURRENCY_MAX, STATUS_USAGE,
          "--concurrency takes numbers up to %d, not \"%s\"", CONCURRENCY_MAX, options->concurrency);
    return parse_drafts(options->drafts, engine->engine.draft.limit, out);
}

static enum status show(const struct cli_options *options, const struct bench_requests_options *what,
                        const struct bench_requests_report *report) {
    enum status status = STATUS_OK;
    struct string_buffer text = {0};
    struct string_buffer picture = {0};
    TRY_GOTO(options->json ? bench_requests_json(what, report, &text)
                           : bench_requests_text(what, report, &text));
    TRY_GOTO(bench_command_print(&text));
    if (options->plot != NULL) {
        TRY_GOTO(bench_requests_plot(report, &picture));
        TRY_GOTO(bench_command_write_file(options->plot, &picture));
    }
fail:
    string_buffer_deinit(&text);
    string_buffer_deinit(&picture);
    return status;
}

enum status command_bench_requests(const struct cli_options *options) {
    enum status status = STATUS_OK;
    struct cli_engine_options engine;
    struct bench_requests_options what;
    struct bench_requests_report report = {0};
    struct token_list text = {0};
    TRY(read_options(options, &engine, &what));
    TRY_GOTO(read_text(options, &text));
    what.text = text.ids;
    what.text_tokens = text.count;
    TRY_GOTO(bench_requests_run(&what, &report));
    TRY_GOTO(show(options, &what, &report));
fail:
    bench_requests_deinit(&report);
    token_list_deinit(&text);
    return status;
}
