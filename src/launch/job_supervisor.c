/*
 * A fault that another rank is the reason of (PEER_LOST) waits a moment for that reason. The first other one
 * counts: everything after it may be its consequence.
 */
#include "launch/job_supervisor.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "launch/control_socket.h"

static const double HELLO_SECONDS = 5;
static const double REASON_SECONDS = 1;
static const double DOUBTFUL_SILENCE_SECONDS = 2; /* of a rank, while others wait for it in vain */

enum { REPORT_BYTES = 256, LISTENERS_MAX = 2 };

struct connection {
    struct control_channel channel;
    double began;
    int rank; /* -1 until it has said so */
};

struct watched_rank {
    struct connection *connection; /* NULL: not yet, or no longer */
    bool has_left;
    int exit_code;
    double heard; /* at this moment of clock_seconds */
    char host[CONTROL_HOST_BYTES];
    char report[REPORT_BYTES];
};

struct job_supervisor {
    struct job_supervisor_options options;
    double began;
    int listeners[LISTENERS_MAX]; /* this host's, the network's or -1 */
    char address[CONTROL_ADDRESS_BYTES];
    struct connection *connections[JOB_SUPERVISOR_CONNECTIONS_MAX];
    int connection_count;
    struct watched_rank ranks[JOB_SUPERVISOR_RANKS_MAX];
    int leader_process;
    double doubt; /* since when there is a fault whose reason may be another rank; 0: none */
    struct job_supervisor_verdict doubtful;
    struct job_supervisor_verdict verdict;
};

enum status job_supervisor_create(const struct job_supervisor_options *options, struct job_supervisor **out) {
    enum status status = STATUS_OK;
    struct job_supervisor *supervisor = calloc(1, sizeof *supervisor);
    CHECK_MEMORY(supervisor);
    supervisor->options = *options;
    supervisor->began = clock_seconds();
    supervisor->listeners[0] = -1;
    supervisor->listeners[1] = -1;
    TRY_GOTO(control_socket_listen(options->network_address, supervisor->listeners, supervisor->address));
    *out = supervisor;
    return STATUS_OK;
fail:
    job_supervisor_destroy(&supervisor);
    return status;
}

const char *job_supervisor_address(const struct job_supervisor *supervisor) {
    return supervisor->address;
}

int job_supervisor_leader_process(const struct job_supervisor *supervisor) {
    return supervisor->leader_process;
}

static void forget_connection(struct job_supervisor *supervisor, int index) {
    struct connection *connection = supervisor->connections[index];
    if (connection->rank >= 0) {
        supervisor->ranks[connection->rank].connection = NULL;
    }
    control_channel_deinit(&connection->channel);
    free(connection);
    supervisor->connections[index] = supervisor->connections[--supervisor->connection_count];
}

void job_supervisor_destroy(struct job_supervisor **supervisor_pointer) {
    struct job_supervisor *supervisor = *supervisor_pointer;
    *supervisor_pointer = NULL;
    if (supervisor == NULL) {
        return;
    }
    while (supervisor->connection_count > 0) {
        forget_connection(supervisor, 0);
    }
    for (int i = 0; i < LISTENERS_MAX; i++) {
        if (supervisor->listeners[i] >= 0) {
            close(supervisor->listeners[i]);
        }
    }
    free(supervisor);
}

int job_supervisor_poll_files(const struct job_supervisor *supervisor, struct pollfd *files) {
    int count = 0;
    for (int i = 0; i < LISTENERS_MAX; i++) {
        if (supervisor->listeners[i] >= 0) {
            files[count++] = (struct pollfd){.fd = supervisor->listeners[i], .events = POLLIN};
        }
    }
    for (int i = 0; i < supervisor->connection_count; i++) {
        files[count++] = (struct pollfd){.fd = supervisor->connections[i]->channel.socket, .events = POLLIN};
    }
    return count;
}

/* The verdict is final: everybody who is there is told. */
static void decide(struct job_supervisor *supervisor, const struct job_supervisor_verdict *verdict) {
    if (supervisor->verdict.is_over) {
        return;
    }
    supervisor->verdict = *verdict;
    supervisor->verdict.is_over = true;
    for (int i = 0; i < supervisor->connection_count; i++) {
        struct connection *connection = supervisor->connections[i];
        if (connection->rank >= 0) {
            control_channel_send(&connection->channel, CONTROL_FAULT, verdict->sentence,
                                 strlen(verdict->sentence), NULL, 0);
        }
    }
}

void job_supervisor_kill_rest(const struct job_supervisor *supervisor) {
    for (int i = 0; i < supervisor->connection_count; i++) {
        int process = control_socket_peer_process(supervisor->connections[i]->channel.socket);
        if (supervisor->connections[i]->rank >= 0 && process > 0) {
            kill(process, SIGKILL);
        }
    }
}

void job_supervisor_give_up(struct job_supervisor *supervisor, int exit_code, const char *sentence) {
    struct job_supervisor_verdict verdict = {.exit_code = exit_code};
    snprintf(verdict.sentence, sizeof verdict.sentence, "%s", sentence);
    decide(supervisor, supervisor->doubt > 0 ? &supervisor->doubtful : &verdict);
}

/* "rank 1 of 4 on host b (stage 1 of 2, tick 57, waiting in comm_gather)" and what has become of it. */
static void __attribute__((format(printf, 3, 4)))
blame(struct job_supervisor *supervisor, int rank, const char *format, ...) {
    const struct watched_rank *watched = &supervisor->ranks[rank];
    struct job_supervisor_verdict verdict = {.exit_code = EXIT_FAILURE};
    char fate[CONTROL_BUILD_BYTES * 4];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fate, sizeof fate, format, arguments);
    va_end(arguments);
    snprintf(verdict.sentence, sizeof verdict.sentence, "rank %d of %d%s%s%s%s%s %s", rank,
             supervisor->options.rank_count, watched->host[0] == '\0' ? "" : " on host ", watched->host,
             watched->report[0] == '\0' ? "" : " (", watched->report, watched->report[0] == '\0' ? "" : ")",
             fate);
    decide(supervisor, &verdict);
}

static void accept_all(struct job_supervisor *supervisor, int listener) {
    int file;
    while (listener >= 0 && (file = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct connection *connection = calloc(1, sizeof *connection);
        if (connection == NULL || supervisor->connection_count == JOB_SUPERVISOR_CONNECTIONS_MAX) {
            free(connection);
            close(file);
            continue;
        }
        control_socket_prepare(file);
        control_channel_init(&connection->channel, file, true, supervisor->options.key, 0);
        connection->began = clock_seconds();
        connection->rank = -1;
        supervisor->connections[supervisor->connection_count++] = connection;
        if (hash_random_bytes(connection->channel.nonces[0], CONTROL_NONCE_BYTES) != STATUS_OK ||
            control_channel_send(&connection->channel, CONTROL_CHALLENGE, connection->channel.nonces[0],
                                 CONTROL_NONCE_BYTES, NULL, 0) != STATUS_OK) {
            forget_connection(supervisor, supervisor->connection_count - 1);
        }
    }
}

/* A rank of another build, number or job ends the job: it was started for it and cannot be in it. */
static bool check_hello(struct job_supervisor *supervisor, const struct control_hello *hello) {
    int count = supervisor->options.rank_count;
    if (hello->rank < 0 || hello->rank >= count) {
        log_write(LOG_WARNING, "launch", "a process calls itself rank %d of %d, but the job has %d ranks",
                  hello->rank, hello->rank_count, count);
        return false;
    }
    struct watched_rank *watched = &supervisor->ranks[hello->rank];
    if (watched->connection != NULL || watched->has_left) {
        log_write(LOG_WARNING, "launch", "a second process calls itself rank %d", hello->rank);
        return false;
    }
    snprintf(watched->host, sizeof watched->host, "%.*s", (int)sizeof hello->host - 1, hello->host);
    if (hello->rank_count != count) {
        blame(supervisor, hello->rank, "was started as one of %d ranks, but the job has %d",
              hello->rank_count, count);
    } else if (strncmp(hello->build, supervisor->options.build, sizeof hello->build) != 0) {
        blame(supervisor, hello->rank,
              "is another build of the program: %.*s, and here it is %s; install the same one on all hosts",
              (int)sizeof hello->build - 1, hello->build, supervisor->options.build);
    }
    return true;
}

static enum status welcome(struct job_supervisor *supervisor, struct connection *connection,
                           const struct control_frame *frame) {
    struct control_hello hello;
    static const int all_streams[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
    memcpy(&hello, frame->payload, sizeof hello);
    CHECK(check_hello(supervisor, &hello), STATUS_BAD_FORMAT, "the rank cannot be in this job");
    struct watched_rank *watched = &supervisor->ranks[hello.rank];
    connection->rank = hello.rank;
    watched->connection = connection;
    watched->heard = clock_seconds();
    int process = control_socket_peer_process(connection->channel.socket);
    bool gives = supervisor->options.gives_streams && process > 0;
    if (hello.rank == 0) {
        supervisor->leader_process = process;
        if (supervisor->options.gives_streams && process == 0) {
            blame(supervisor, 0,
                  "must run where the program was started, to read and write there: put this host first in "
                  "--hosts");
        }
    }
    int file_count = !gives ? 0 : hello.rank == 0 ? 3 : 1;
    return control_channel_send(&connection->channel, CONTROL_WELCOME, NULL, 0,
                                hello.rank == 0 ? all_streams : &all_streams[2], file_count);
}

/* Other ranks may have died of what this one says, and the other way round. */
static void take_failure(struct job_supervisor *supervisor, int rank, const struct control_end *end) {
    struct job_supervisor_verdict verdict = {.exit_code = end->exit_code};
    snprintf(verdict.sentence, sizeof verdict.sentence, "%s", end->message);
    supervisor->ranks[rank].has_left = true;
    supervisor->ranks[rank].exit_code = end->exit_code;
    if (end->status != STATUS_PEER_LOST) {
        decide(supervisor, &verdict);
    } else if (supervisor->doubt == 0) {
        supervisor->doubt = clock_seconds();
        supervisor->doubtful = verdict;
    }
}

static enum status take_frame(struct job_supervisor *supervisor, struct connection *connection,
                              const struct control_frame *frame) {
    struct control_end end = {.exit_code = EXIT_FAILURE};
    CHECK((frame->kind == CONTROL_HELLO) == (connection->rank < 0), STATUS_BAD_FORMAT,
          "a control message came out of turn");
    if (frame->kind == CONTROL_HELLO) {
        CHECK(frame->length == sizeof(struct control_hello), STATUS_BAD_FORMAT,
              "a rank introduces itself in another form");
        return welcome(supervisor, connection, frame);
    }
    struct watched_rank *watched = &supervisor->ranks[connection->rank];
    watched->heard = clock_seconds();
    if (frame->kind == CONTROL_REPORT) {
        snprintf(watched->report, sizeof watched->report, "%.*s", REPORT_BYTES - 1,
                 (const char *)frame->payload);
        return STATUS_OK;
    }
    CHECK((frame->kind == CONTROL_FAILED || frame->kind == CONTROL_LEAVING) && frame->length == sizeof end,
          STATUS_BAD_FORMAT, "a control message of kind %d came, which no rank sends", (int)frame->kind);
    memcpy(&end, frame->payload, sizeof end);
    end.message[sizeof end.message - 1] = '\0';
    if (frame->kind == CONTROL_FAILED) {
        take_failure(supervisor, connection->rank, &end);
        return STATUS_OK;
    }
    if (end.exit_code != 0) {
        blame(supervisor, connection->rank, "was told to end, with code %d", end.exit_code);
    }
    watched->has_left = true;
    watched->exit_code = end.exit_code;
    return STATUS_OK;
}

/* Takes all frames that have come; false if the connection is of no use any more. */
static bool take_all(struct job_supervisor *supervisor, struct connection *connection) {
    struct control_frame frame = {.kind = CONTROL_REPORT};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && frame.kind != 0) {
        status = control_channel_receive(&connection->channel, &frame);
        if (status == STATUS_OK && frame.kind != 0) {
            status = take_frame(supervisor, connection, &frame);
        }
    }
    if (status == STATUS_OK) {
        return connection->rank >= 0 || clock_seconds() - connection->began < HELLO_SECONDS;
    }
    if (connection->rank < 0) {
        log_write(LOG_WARNING, "launch", "a connection was refused: %s", error_last()->message);
    } else if (status == STATUS_IO && !supervisor->ranks[connection->rank].has_left) {
        blame(supervisor, connection->rank, "has died");
    } else if (status != STATUS_IO) {
        blame(supervisor, connection->rank, "cannot be understood: %.200s", error_last()->message);
    }
    return false;
}

static void look_at_clock(struct job_supervisor *supervisor) {
    double now = clock_seconds();
    int left_count = 0;
    double patience = supervisor->options.silence_seconds;
    if (supervisor->doubt > 0 && patience > DOUBTFUL_SILENCE_SECONDS) {
        patience = DOUBTFUL_SILENCE_SECONDS;
    }
    for (int rank = 0; rank < supervisor->options.rank_count; rank++) {
        const struct watched_rank *watched = &supervisor->ranks[rank];
        left_count += watched->has_left;
        if (watched->connection == NULL && !watched->has_left &&
            now - supervisor->began > supervisor->options.start_seconds) {
            blame(supervisor, rank,
                  "has not come within %.1f s of the start; see whether it can be started there",
                  supervisor->options.start_seconds);
        } else if (watched->connection != NULL && !watched->has_left && now - watched->heard > patience) {
            blame(supervisor, rank,
                  "has not been heard of for %.1f s: it hangs, or its host cannot be reached",
                  now - watched->heard);
        }
    }
    if (supervisor->doubt > 0 && now - supervisor->doubt > REASON_SECONDS) {
        decide(supervisor, &supervisor->doubtful);
    } else if (left_count == supervisor->options.rank_count && supervisor->doubt == 0 &&
               !supervisor->verdict.is_over) {
        supervisor->verdict =
            (struct job_supervisor_verdict){.is_over = true, .exit_code = supervisor->ranks[0].exit_code};
    }
}

void job_supervisor_advance(struct job_supervisor *supervisor, struct job_supervisor_verdict *verdict) {
    for (int i = 0; i < LISTENERS_MAX; i++) {
        accept_all(supervisor, supervisor->listeners[i]);
    }
    for (int i = supervisor->connection_count - 1; i >= 0; i--) {
        if (!take_all(supervisor, supervisor->connections[i])) {
            forget_connection(supervisor, i);
        }
    }
    look_at_clock(supervisor);
    *verdict = supervisor->verdict;
}
