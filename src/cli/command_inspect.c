/* `sluice inspect`: prints the report; the exit code says whether it found a problem. */
#include <stdio.h>

#include "base/worker_pool.h"
#include "cli/commands.h"
#include "tools/inspect.h"
#include "tools/inspect_report.h"

static enum status choose_directory(const struct cli_options *options, int word_count, char **words,
                                    const char **out) {
    CHECK(word_count <= 1, STATUS_USAGE, "one directory can be inspected at a time, %d were given",
          word_count);
    CHECK(word_count == 0 || options->model == NULL || options->config != NULL, STATUS_USAGE,
          "the directory was given twice, as \"%s\" and with --model", words[0]);
    *out = word_count == 1 ? words[0] : options->model;
    CHECK(*out != NULL, STATUS_USAGE, "name the model directory to inspect");
    return STATUS_OK;
}

enum status command_inspect(const struct cli_options *options, int word_count, char **words) {
    enum status status = STATUS_OK;
    struct inspection inspection = {0};
    struct string_buffer report = {0};
    struct inspect_request request = {
        .verifies = options->verify,
        .cpu_features = options->cpu_features,
        .numerics = options->numerics == CLI_NUMERICS_IDEAL ? NUMERICS_IDEAL : NUMERICS_NATIVE,
    };
    TRY(choose_directory(options, word_count, words, &request.directory));
    request.thread_count = options->threads > 0 ? (unsigned)options->threads : worker_pool_cores_allowed();
    TRY_GOTO(inspection_read(&request, &inspection));
    TRY_GOTO(options->json ? inspect_report_json(&inspection, options->tensors, &report)
                           : inspect_report_text(&inspection, options->tensors, &report));
    CHECK_GOTO(fwrite(report.data, 1, report.length, stdout) == report.length, STATUS_IO,
               "the report could not be written");
    CHECK_GOTO(inspection.problem_count == 0, STATUS_BAD_CHECKPOINT, "%s has %zu problem%s, see the report",
               request.directory, inspection.problem_count, inspection.problem_count == 1 ? "" : "s");
fail:
    string_buffer_deinit(&report);
    inspection_deinit(&inspection);
    return status;
}
