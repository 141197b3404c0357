/* `sluice kernelcheck`: every kernel against the reference, or with --bench against the machine's limits. */
#include <stdio.h>

#include "base/log.h"
#include "base/worker_pool.h"
#include "cli/commands.h"
#include "cli/kernelcheck_report.h"
#include "kernelcheck/kernel_machine.h"

/* Prints and empties the buffer. */
static enum status print(struct string_buffer *text) {
    TRY(string_buffer_check(text));
    CHECK(fwrite(text->data, 1, text->length, stdout) == text->length && fflush(stdout) == 0, STATUS_IO,
          "the results could not be written");
    string_buffer_clear(text);
    return STATUS_OK;
}

/* A kernel that dies takes the program with it: the log says which one it was. */
static void log_entry(void *context, const struct op_entry *entry) {
    (void)context;
    log_write(LOG_DEBUG, "kernelcheck", "running %s", entry->name);
}

static enum status check_kernels(const struct cli_options *options, const struct kernel_machine *machine,
                                 uint64_t operations) {
    enum status status = STATUS_OK;
    struct kernelcheck_result result = {0};
    struct string_buffer report = {0};
    const struct kernelcheck_request request = {
        .entries = machine->entries,
        .entry_count = machine->entry_count,
        .features = machine->features,
        .operations = operations,
        .seed = (uint64_t)options->seed,
        .is_quick = options->quick,
        .device = machine->device,
        .progress = log_entry,
    };
    TRY_GOTO(kernelcheck_run(&request, &result));
    TRY_GOTO(options->json ? kernelcheck_report_json(&result, machine->features, request.seed, &report)
                           : kernelcheck_report_text(&result, &report));
    TRY_GOTO(print(&report));
    CHECK_GOTO(result.failed_count == 0, STATUS_INTERNAL, "%zu of %zu kernels failed, see the report",
               result.failed_count, result.entry_count);
fail:
    string_buffer_deinit(&report);
    kernelcheck_result_deinit(&result);
    return status;
}

struct timing_output {
    bool is_json;
    size_t count;
    struct string_buffer text;
};

static enum status report_timing(void *context, const struct kernel_timing *timing) {
    struct timing_output *output = context;
    if (output->is_json) {
        kernel_timing_json_line(timing, output->count == 0, &output->text);
    } else {
        kernel_timing_line(timing, &output->text);
    }
    output->count++;
    TRY(print(&output->text));
    return STATUS_OK;
}

static enum status time_kernels(const struct cli_options *options, const struct kernel_machine *machine,
                                uint64_t operations) {
    enum status status = STATUS_OK;
    struct timing_output output = {.is_json = options->json};
    struct kernel_bench_request request = {
        .entries = machine->entries,
        .entry_count = machine->entry_count,
        .features = machine->features,
        .operations = operations,
        .seed = (uint64_t)options->seed,
        .device = machine->device,
        .report = report_timing,
        .report_context = &output,
    };
    unsigned threads = options->threads > 0 ? (unsigned)options->threads : worker_pool_cores_allowed();
    TRY_GOTO(worker_pool_create(threads, &request.pool));
    TRY_GOTO(roofline_measure(request.pool, machine->features, &request.roofline));
    if (options->json) {
        kernel_timing_json_head(&request.roofline, machine->features, &output.text);
    } else {
        kernel_timing_head(&request.roofline, &output.text);
    }
    TRY_GOTO(kernel_bench_run(&request));
    if (options->json) {
        kernel_timing_json_end(&output.text);
    }
    TRY_GOTO(print(&output.text));
fail:
    worker_pool_destroy(&request.pool);
    string_buffer_deinit(&output.text);
    return status;
}

enum status command_kernelcheck(const struct cli_options *options, int word_count, char **words) {
    static const char *const devices[] = {"cpu", "guard"};
    enum status status = STATUS_OK;
    struct kernel_machine machine = {0};
    uint64_t operations;
    TRY(kernel_operations_parse(word_count, words, &operations));
    TRY_GOTO(kernel_machine_init(&machine, devices[options->device], options->cpu_features));
    TRY_GOTO(options->bench ? time_kernels(options, &machine, operations)
                            : check_kernels(options, &machine, operations));
fail:
    kernel_machine_deinit(&machine);
    return status;
}
