/* `sluice bench`: prefill and decode, measured apart and beside the machine's limits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "tools/bench.h"
#include "tools/bench_plot.h"
#include "tools/bench_report.h"

enum { NUMBER_MAX = 1 << 24 };

/* Inserts a number in ascending order, once. */
static enum status insert_number(struct bench_numbers *numbers, int64_t value, const char *option) {
    int at = numbers->count;
    while (at > 0 && numbers->values[at - 1] >= value) {
        at--;
    }
    if (at < numbers->count && numbers->values[at] == value) {
        return STATUS_OK;
    }
    CHECK(numbers->count < BENCH_NUMBERS_MAX, STATUS_USAGE, "%s has more than %d numbers", option,
          BENCH_NUMBERS_MAX);
    memmove(&numbers->values[at + 1], &numbers->values[at],
            (size_t)(numbers->count - at) * sizeof numbers->values[0]);
    numbers->values[at] = value;
    numbers->count++;
    return STATUS_OK;
}

/* Adds numbers from text like "128,512"; NULL adds none. */
static enum status parse_numbers(const char *text, const char *option, struct bench_numbers *out) {
    for (const char *at = text; at != NULL;) {
        char *end;
        errno = 0;
        long long value = strtoll(at, &end, 10);
        CHECK(end != at && errno == 0 && (*end == ',' || *end == '\0') && value >= 1 && value <= NUMBER_MAX,
              STATUS_USAGE, "%s takes numbers from 1 to %d, separated by commas, not \"%s\"", option,
              NUMBER_MAX, text);
        TRY(insert_number(out, value, option));
        at = *end == ',' ? end + 1 : NULL;
    }
    return STATUS_OK;
}

static enum status make_request(const struct cli_options *options, struct bench_request *out) {
    static const char *const devices[] = {"cpu", "guard"};
    *out = (struct bench_request){.engine = sluice_engine_options_default()};
    CHECK(options->model != NULL, STATUS_USAGE,
          "--model is missing: the folder of the checkpoint to measure");
    out->engine.model_directory = options->model;
    out->engine.device = devices[options->device];
    out->engine.cpu_features = options->cpu_features;
    out->engine.numerics =
        options->numerics == CLI_NUMERICS_IDEAL ? SLUICE_NUMERICS_IDEAL : SLUICE_NUMERICS_NATIVE;
    out->engine.thread_count = (int)options->threads;
    out->engine.step_token_limit = (int)options->chunk_tokens;
    out->gen_tokens = options->gen_tokens;
    out->repeats = (int)options->repeats;
    out->seed = (uint64_t)options->seed;
    /* Contexts are prompts too: decoding starts where a prompt ends. */
    bool has_prompts = options->prompt_tokens_given || options->context == NULL;
    TRY(parse_numbers(has_prompts ? options->prompt_tokens : NULL, "--prompt-tokens", &out->prompt_tokens));
    TRY(parse_numbers(options->context, "--context", &out->prompt_tokens));
    TRY(parse_numbers(options->batch, "--batch", &out->batches));
    return STATUS_OK;
}

static enum status write_file(const char *path, const struct string_buffer *text) {
    FILE *file = fopen(path, "we");
    CHECK(file != NULL, STATUS_IO, "cannot create %s: %s", path, strerror(errno));
    bool is_written = fwrite(text->data, 1, text->length, file) == text->length;
    is_written = fclose(file) == 0 && is_written;
    CHECK(is_written, STATUS_IO, "cannot write %s: %s", path, strerror(errno));
    return STATUS_OK;
}

static enum status print(const struct string_buffer *text) {
    CHECK(fwrite(text->data, 1, text->length, stdout) == text->length, STATUS_IO,
          "the report could not be written");
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
        status = print(&text);
    }
    string_buffer_deinit(&text);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status plot(const struct bench_report *report, const char *path) {
    struct string_buffer picture = {0};
    enum status status = bench_plot_svg(report, &picture);
    if (status == STATUS_OK) {
        status = write_file(path, &picture);
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
    enum status status = STATUS_OK;
    struct bench_request request;
    struct bench_report report = {0};
    struct string_buffer text = {0};
    TRY(make_request(options, &request));
    TRY_GOTO(bench_run(&request, &report));
    TRY_GOTO(options->json ? bench_report_json(&report, &text) : bench_report_text(&report, &text));
    TRY_GOTO(print(&text));
    if (options->plot != NULL) {
        TRY_GOTO(plot(&report, options->plot));
    }
fail:
    string_buffer_deinit(&text);
    bench_report_deinit(&report);
    return status;
}
