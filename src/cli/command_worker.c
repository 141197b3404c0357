/* `sluice worker`: the engine of a server, at the other end of the wire that it finds open. */
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/engine_options.h"
#include "server/service_engine.h"
#include "server/worker.h"
#include "server/worker_process.h"

static enum status open_engine(void *context, struct service **out) {
    const struct cli_options *options = context;
    struct cli_engine_options engine;
    TRY(cli_engine_options_read(options, 0, &engine));
    CHECK(options->model != NULL, STATUS_USAGE, "give the model's folder with --model");
    engine.engine.trace_continues = true; /* the front has begun the file, for all workers */
    return service_engine_open(&engine.engine, options->tokenizer, out);
}

enum status command_worker(const struct cli_options *options, int word_count, char **words) {
    (void)word_count;
    (void)words;
    struct cli_options copy = *options;
    struct worker_source source = {.open = open_engine, .context = &copy};
    struct stat wire;
    CHECK(fstat(WORKER_PROCESS_SOCKET, &wire) == 0 && S_ISSOCK(wire.st_mode), STATUS_USAGE,
          "it is started by `sluice serve`, not by hand");
    return worker_run(WORKER_PROCESS_SOCKET, &source);
}
