/* `sluice serve`: a front in this process, workers in others. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/serve_options.h"
#include "cli/service_manager.h"
#include "cli/worker_arguments.h"
#include "engine/trace_remains.h"
#include "server/supervisor.h"
#include "text/tokenizer.h"

enum { PROGRAM_PATH_BYTES = 4096, LOOK_NANOSECONDS = 20000000, ADDRESS_BYTES = 512, WHY_BYTES = 1024 };

static const double IDLE_SECONDS = 3600.0;
static const double TRACE_SECONDS = 60.0; /* for workers to write what they recorded */

/* What one `sluice serve` owns. */
struct serving {
    struct serve_options options;
    struct arena arena;
    struct tokenizer *tokenizer;
    struct service *service;
    struct front *front;
    char program[PROGRAM_PATH_BYTES];
    const char *worker_words[WORKER_ARGUMENTS_MAX];
    const char *settled_words[WORKER_ARGUMENTS_MAX]; /* once the context is known that fits */
};

static enum status find_program(struct serving *serving) {
    ssize_t length = readlink("/proc/self/exe", serving->program, sizeof serving->program - 1);
    CHECK(length > 0, STATUS_IO, "the path of this program cannot be read from /proc/self/exe: %s",
          strerror(errno));
    serving->program[length] = '\0';
    return STATUS_OK;
}

/* Workers only add to it, each when it ends, or its successor if it is killed. */
static enum status begin_trace(const char *path) {
    FILE *file = fopen(path, "w");
    CHECK(file != NULL, STATUS_IO, "the trace cannot be written to %s: %s", path, strerror(errno));
    fclose(file);
    trace_remains_remove(path);
    return STATUS_OK;
}

/* A worker that is started again must have room for all that its predecessor had taken. */
static enum status keep_context(struct serving *serving, const struct cli_options *options) {
    struct cli_options settled = *options;
    settled.max_model_len = serving->service->kind->facts(serving->service).context_tokens;
    log_say("sluice serve: there is memory for a context of %lld tokens", (long long)settled.max_model_len);
    TRY(worker_arguments_write(&settled, &serving->arena, serving->settled_words));
    supervisor_set_arguments(serving->service, serving->settled_words);
    return STATUS_OK;
}

static enum status start_workers(struct serving *serving, const struct cli_options *options) {
    TRY(find_program(serving));
    TRY(worker_arguments_write(options, &serving->arena, serving->worker_words));
    struct supervisor_options supervisor = supervisor_options_default();
    supervisor.program = serving->program;
    supervisor.arguments = serving->worker_words;
    supervisor.worker_count = cli_replicas_share_experts(options) ? 1 : (int)options->data_parallel_size;
    supervisor.deadline_seconds = options->deadline_seconds;
    if (options->trace != NULL) {
        TRY(begin_trace(options->trace));
        supervisor.quit_seconds = TRACE_SECONDS;
    }
    TRY(supervisor_open(&supervisor, &serving->service));
    return options->max_model_len == OPTION_INT_WORD ? keep_context(serving, options) : STATUS_OK;
}

static enum status start_front(struct serving *serving) {
    struct api_options *api = &serving->options.front.api;
    api->service = serving->service;
    api->tokenizer = serving->tokenizer;
    return front_open(&serving->options.front, &serving->front);
}

static bool is_open_to_others(const struct http_server_options *http) {
    return http->unix_path == NULL && http->listen_socket < 0 && strncmp(http->host, "127.", 4) != 0 &&
           strcmp(http->host, "localhost") != 0 && strcmp(http->host, "::1") != 0;
}

static void say_ready(const struct serving *serving, double seconds) {
    const struct http_server_options *http = &serving->options.front.http;
    char address[ADDRESS_BYTES];
    if (http->listen_socket >= 0) {
        snprintf(address, sizeof address, "the socket of the service manager");
    } else if (http->unix_path != NULL) {
        snprintf(address, sizeof address, "unix:%s", http->unix_path);
    } else {
        bool is_ipv6 = strchr(http->host, ':') != NULL;
        snprintf(address, sizeof address, "%s://%s%s%s:%d", http->certificate_file == NULL ? "http" : "https",
                 is_ipv6 ? "[" : "", http->host, is_ipv6 ? "]" : "", front_port(serving->front));
    }
    if (serving->options.front.key_count == 0 && is_open_to_others(http)) {
        log_write(LOG_WARNING, "cli", "whoever can reach %s may use this server; give an --api-key", address);
    }
    log_say("sluice serve: ready on %s after %.2f s, model %s", address, seconds,
            serving->options.front.api.model_names[0]);
    service_manager_tell("READY=1\nSTATUS=Ready");
}

static void fill_signals(sigset_t *signals) {
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
}

/* Waits for requests under way; true if a second signal came, false once they are finished or time is up. */
static bool wait_for_requests(const struct serving *serving, const sigset_t *signals, double seconds) {
    double deadline = clock_seconds() + seconds;
    const struct timespec look = {.tv_nsec = LOOK_NANOSECONDS};
    while (front_running_count(serving->front) > 0 && clock_seconds() < deadline) {
        if (sigtimedwait(signals, NULL, &look) > 0) {
            return true;
        }
    }
    return false;
}

/* While the model cannot answer the watchdog hears nothing: that is what it is there for. */
static void wait_for_signal(const struct serving *serving, const sigset_t *signals) {
    double watchdog_seconds = service_manager_watchdog_seconds() / 2;
    double wait = watchdog_seconds > 0.0 ? watchdog_seconds : IDLE_SECONDS;
    const struct timespec look = {.tv_sec = (time_t)wait, .tv_nsec = (long)((wait - floor(wait)) * 1e9)};
    char why[WHY_BYTES];
    while (sigtimedwait(signals, NULL, &look) < 0) {
        if (watchdog_seconds > 0.0 && front_is_ready(serving->front, why, sizeof why)) {
            service_manager_tell("WATCHDOG=1");
        }
    }
}

static void serve_until_signal(const struct serving *serving, double drain_seconds) {
    sigset_t signals;
    fill_signals(&signals);
    wait_for_signal(serving, &signals);
    service_manager_tell("STOPPING=1\nSTATUS=Requests under way are being finished");
    front_drain(serving->front);
    size_t count = front_running_count(serving->front);
    if (count > 0) {
        log_say("sluice serve: stopping, %zu requests may go on for up to %.0f s", count, drain_seconds);
    }
    if (wait_for_requests(serving, &signals, drain_seconds)) {
        log_say("sluice serve: stopping at once");
    }
}

/* What --hosts spreads are the ranks of a worker, and replicas that share nothing are workers (CFG-20). */
static enum status check_hosts(const struct cli_options *options) {
    bool has_one_rank = options->tensor_parallel_size * options->pipeline_parallel_size == 1;
    CHECK(
        options->hosts == NULL || options->data_parallel_size <= 1 || cli_replicas_share_experts(options) ||
            !has_one_rank,
        STATUS_USAGE,
        "-dp %lld makes %lld workers of one rank each, which all run on this host: --hosts spreads the ranks "
        "of a worker, so add -pp or -tp, let the replicas share experts by --enable-expert-parallel, or "
        "start a server on each host",
        (long long)options->data_parallel_size, (long long)options->data_parallel_size);
    return STATUS_OK;
}

/* Each would find all of the memory free. */
static enum status check_context(const struct cli_options *options) {
    CHECK(options->max_model_len != OPTION_INT_WORD || options->memory_limit != NULL ||
              options->data_parallel_size <= 1 || cli_replicas_share_experts(options),
          STATUS_USAGE,
          "%lld workers share this host's memory, and none knows what the others take: with --max-model-len "
          "auto say by --memory-limit what each may have",
          (long long)options->data_parallel_size);
    return STATUS_OK;
}

static enum status serve(struct serving *serving, const struct cli_options *options) {
    double started_at = clock_seconds();
    TRY(check_hosts(options));
    TRY(check_context(options));
    TRY(serve_options_read(options, SLUICE_VERSION, &serving->options));
    TRY(service_manager_take_socket(&serving->options.front.http.listen_socket));
    TRY(tokenizer_load_of_model(options->model, options->tokenizer, &serving->tokenizer));
    TRY(start_workers(serving, options));
    /* Only now: while the model is loaded a signal ends the program at once, and the workers with it. */
    sigset_t signals;
    fill_signals(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    TRY(start_front(serving));
    say_ready(serving, clock_seconds() - started_at);
    serve_until_signal(serving, options->drain_seconds);
    return STATUS_OK;
}

static void close_all(struct serving *serving, const char *trace_path) {
    front_close(&serving->front);
    if (serving->service != NULL) {
        serving->service->kind->close(&serving->service);
        if (trace_path != NULL) {
            trace_remains_add(trace_path); /* of workers that were not started again */
        }
    }
    tokenizer_destroy(&serving->tokenizer);
    serve_options_deinit(&serving->options);
    arena_deinit(&serving->arena);
}

enum status command_serve(const struct cli_options *options, int word_count, char **words) {
    struct cli_options with_model = *options;
    CHECK(word_count <= 1, STATUS_USAGE, "one model can be served, not \"%s\" and \"%s\"", words[0],
          words[1]);
    CHECK(word_count == 0 || options->model == NULL || options->config != NULL, STATUS_USAGE,
          "the model is given twice, as \"%s\" and with --model", words[0]);
    with_model.model = word_count == 1 ? words[0] : options->model;
    CHECK(with_model.model != NULL, STATUS_USAGE, "give the model's folder: sluice serve DIR");
    struct serving serving = {0};
    arena_init(&serving.arena, 1 << 12);
    enum status status = serve(&serving, &with_model);
    close_all(&serving, with_model.trace);
    return status;
}
