/* `sluice bench`: prefill and decode, measured apart and beside the machine's limits. */
#include "cli/bench_command.h"
#include "cli/commands.h"
#include "cli/engine_options.h"
#include "tools/bench.h"
#include "tools/bench_plot.h"
#include "tools/bench_report.h"

static enum status make_request(const struct cli_options *options, struct bench_request *out) {
    struct cli_engine_options engine;
    *out = (struct bench_request){0};
    CHECK(options->model != NULL, STATUS_USAGE,
          "--model is missing: the folder of the checkpoint to measure");
    CHECK(options->drafts == NULL && options->prompt_file == NULL && options->prefix_tokens == 0,
          STATUS_USAGE,
          "--drafts, --prompt-file and --prefix-tokens are about requests: say with --concurrency how many "
          "at once");
    TRY(cli_engine_options_read(options, 0, &engine));
    out->engine = engine.engine;
    out->engine.draft = sluice_engine_options_default().draft; /* steps are measured without */
    out->gen_tokens = options->gen_tokens;
    out->repeats = (int)options->repeats;
    out->seed = (uint64_t)options->seed;
    /* Contexts are prompts too: decoding starts where a prompt ends. */
    bool has_prompts = options->prompt_tokens_given || options->context == NULL;
    TRY(bench_command_parse_numbers(has_prompts ? options->prompt_tokens : NULL, "--prompt-tokens",
                                    &out->prompt_tokens));
    TRY(bench_command_parse_numbers(options->context, "--context", &out->prompt_tokens));
    TRY(bench_command_parse_numbers(options->batch, "--batch", &out->batches));
    return STATUS_OK;
}

static enum status show_limits(const struct cli_options *options) {
    struct roofline limits;
    struct string_buffer text = {0};
    unsigned features;
    unsigned threads;
    TRY(bench_measure_limits((unsigned)options->threads, options->cpu_features, &features, &threads,
                             &limits));
    enum status status = options->json ? bench_limits_json(&limits, threads, features, &text)
                                       : bench_limits_text(&limits, threads, features, &text);
    if (status == STATUS_OK) {
        status = bench_command_print(&text);
    }
    string_buffer_deinit(&text);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status plot(const struct bench_report *report, const char *path) {
    struct string_buffer picture = {0};
    enum status status = bench_plot_svg(report, &picture);
    if (status == STATUS_OK) {
        status = bench_command_write_file(path, &picture);
    }
    string_buffer_deinit(&picture);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status command_bench(const struct cli_options *options, int word_count, char **words) {
    (void)word_count;
    (void)words;
    if (options->roofline) {
        return show_limits(options);
    }
    if (options->concurrency != NULL) {
        return command_bench_requests(options);
    }
    enum status status = STATUS_OK;
    struct bench_request request;
    struct bench_report report = {0};
    struct string_buffer text = {0};
    TRY(make_request(options, &request));
    TRY_GOTO(bench_run(&request, &report));
    TRY_GOTO(options->json ? bench_report_json(&report, &text) : bench_report_text(&report, &text));
    TRY_GOTO(bench_command_print(&text));
    if (options->plot != NULL) {
        TRY_GOTO(plot(&report, options->plot));
    }
fail:
    string_buffer_deinit(&text);
    bench_report_deinit(&report);
    return status;
}
