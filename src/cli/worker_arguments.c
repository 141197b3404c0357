#include "cli/worker_arguments.h"

#include "base/options_arguments.h"
#include "base/worker_pool.h"

/* Cores for each of the workers, at least one; 0: all. */
static int64_t threads_of_worker(const struct cli_options *options) {
    if (options->threads > 0 || options->data_parallel_size <= 1 || cli_replicas_share_experts(options)) {
        return options->threads;
    }
    int64_t share = (int64_t)worker_pool_cores_allowed() / options->data_parallel_size;
    return share > 0 ? share : 1;
}

enum status worker_arguments_write(const struct cli_options *options, struct arena *arena,
                                   const char *words[WORKER_ARGUMENTS_MAX]) {
    struct cli_options of_worker = *options;
    size_t count = 0;
    of_worker.threads = threads_of_worker(options);
    if (!cli_replicas_share_experts(options)) {
        of_worker.data_parallel_size = 1;
        of_worker.data_parallel_size_given = false;
    }
    words[count++] = "sluice";
    words[count++] = "worker";
    TRY(options_write_arguments(cli_option_table(), CLI_WORKER, &of_worker, arena, words,
                                WORKER_ARGUMENTS_MAX - 1, &count));
    words[count] = NULL;
    return STATUS_OK;
}
